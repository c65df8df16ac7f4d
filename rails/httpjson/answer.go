package httpjson

import (
	"net/http"
	"strconv"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// sendReader reads answers to sends. It is pure: what an answer proves depends
// on nothing but the answer, the send's number and these facts.
type sendReader struct {
	config     SendResponseConfig
	http       *codes.Table
	body       *codes.Table
	acceptance payment.Acceptance
}

// spoken is what the body of an answer says, if it could be read.
type spoken struct {
	doc      jsondoc.Doc
	readable bool // it is one JSON object
	hasWord  bool // it has the status word
	codes.Said
}

// read says what a complete answer proves. Own is the reference that the bank
// should echo.
func (r sendReader) read(a answer, sendNo int, own string) rails.Result {
	ctx := codes.Context{SendNo: sendNo, Acceptance: r.acceptance}
	status := strconv.Itoa(a.status)
	entry, listed := r.http.Find(status)
	if !listed {
		entry.Class = codes.Unclear
	}
	said := r.listen(a)
	result := rails.Result{
		Result: payment.ResultUnknown, FirstByte: true, Unmapped: !listed,
		Code: status, CodeTable: r.http.Origin(status), Message: "HTTP " + status,
		RetryAfter: retryAfter(a.header),
	}
	if said.Code != "" && !(said.Unmapped && speaksAlone(entry.Class, said)) {
		result.Code, result.CodeTable, result.Unmapped = said.Code, r.body.Origin(said.Code), said.Unmapped
	}
	if text, ok := said.text(r.config.Message); ok {
		result.Message += ": " + text
	}
	if reference, ok := said.text(r.config.Reference); ok {
		result.Reference = rails.CleanReference(reference)
	}
	doubt := func(why string) rails.Result {
		result.Message = why + "; " + result.Message
		return result
	}
	echo, echoed := said.text(r.config.Echo)
	if echoed && echo != own {
		result.Reference = "" // it is another payment's
		return doubt("the answer speaks of another payment")
	}
	// The status 409 does not say whether the key was used before or is in use.
	result.SeenBefore = said.Duplicate || entry.Class.MaySaySeen(sendNo) || said.Class.MaySaySeen(sendNo) || sendNo != 1 && a.status == http.StatusConflict
	class, why := r.weigh(entry.Class, a.status, said)
	result.RailRefused = class == codes.HoldRail || entry.Class == codes.HoldRail && said.Unmapped
	if why != "" {
		return doubt(why)
	}
	if entry.Class == codes.InProgress && class == codes.Executed && r.acceptance == payment.AcceptanceByAnswer {
		class = codes.InProgress // 202: processing is not complete, whatever the body says
	}
	result.Result = class.Result(ctx)
	result.SeenBefore = result.SeenBefore && result.Result == payment.ResultUnknown
	if result.Result == payment.ResultAccepted || result.Result == payment.ResultExecuted {
		switch {
		case r.config.Echo != "" && !echoed:
			result.Result = payment.ResultUnknown
			return doubt("the acceptance does not name our payment")
		case r.config.Reference != "" && result.Reference == "":
			result.Result = payment.ResultUnknown
			return doubt("the acceptance has no usable reference of the bank")
		}
	}
	return result
}

// weigh makes one class of what the status code and the body say, or tells why
// they prove nothing together.
func (r sendReader) weigh(byHTTP codes.Class, status int, said spoken) (codes.Class, string) {
	success := status >= 200 && status < 300
	switch {
	case byHTTP == codes.Unclear:
		return codes.Unclear, ""
	case success && !said.readable:
		return codes.Unclear, "the answer can't be read"
	case success && r.config.Status != "" && !said.hasWord:
		return codes.Unclear, "the answer has no status"
	case said.Unmapped && speaksAlone(byHTTP, said):
		return byHTTP, ""
	case said.Unmapped && byHTTP == codes.HoldRail:
		return codes.Unclear, "the status code refuses us, and the bank's word for it is in no table"
	case said.Unmapped && said.Class == "":
		return codes.Unclear, "the bank's word is in no table"
	case !success && said.Class.Accepts():
		return codes.Unclear, "the status code refuses and the body accepts"
	case said.Class != "":
		return said.Class, ""
	case success && r.config.Status != "":
		return codes.Unclear, "the answer refers to a code and has none"
	case !said.readable && !speaksAlone(byHTTP, said):
		return codes.Unclear, "the refusal can't be read"
	default:
		return byHTTP, ""
	}
}

// speaksAlone is for status codes that what stands in front of a bank gives,
// without a body of the bank's: wrong credentials, wrong route, too many. A bank
// that gives 403 or 404 with a word of its own speaks of the payment: its rights,
// or the account that it names.
func speaksAlone(byHTTP codes.Class, said spoken) bool {
	return byHTTP == codes.HoldRail && said.Code == "" || byHTTP == codes.Refused || byHTTP == codes.Later
}

// listen reads the body: its status word and its code.
func (r sendReader) listen(a answer) spoken {
	said := readBody(a)
	word, hasWord := said.text(r.config.Status)
	said.hasWord = hasWord
	said.Said = codes.SendWords{Words: r.config.Statuses, Table: r.body}.Read(word, said.plainCode(r.config.Code))
	said.Unmapped = said.Unmapped || hasWord && word == ""
	return said
}

// readBody takes a body that is one JSON object. A content coding was never
// asked for: what has one is not decoded and so not read.
func readBody(a answer) spoken {
	if coding := a.header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return spoken{}
	}
	doc, err := jsondoc.Parse(a.body)
	if err != nil || !doc.IsObject() {
		return spoken{}
	}
	return spoken{doc: doc, readable: true}
}

// text finds a configured path; an empty path finds nothing.
func (s spoken) text(path string) (string, bool) {
	if path == "" || !s.readable {
		return "", false
	}
	return s.doc.Text(path)
}

// plainCode finds a code that can be kept as it is; empty: there is none.
func (s spoken) plainCode(path string) string {
	code, ok := s.text(path)
	if !ok || !rails.PlainCode(code) {
		return ""
	}
	return code
}

// maxRetryAfter bounds what a bank may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110, section 10.2.3, in seconds; the form
// with a date would need the bank's clock to be ours.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
