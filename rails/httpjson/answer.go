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

// sendReader reads answers to sends. It is pure: what an answer proves depends only on the answer,
// the number of the send and these facts.
type sendReader struct {
	config     SendResponseConfig
	http       *codes.Table
	body       *codes.Table
	acceptance payment.Acceptance
	clean      func(string) string // prepares a text of the bank's for storage
}

// parsedAnswer is the content of the body of an answer, if it is readable.
type parsedAnswer struct {
	doc      jsondoc.Doc
	readable bool // the body is one JSON object
	hasWord  bool // the body has the status word
	codes.Said
	odd []string // the parts that are there and can't be used, for operators
}

// read returns what a complete answer proves, and its class, which is Unclear if it proves nothing. The bank should
// echo the reference own.
func (r sendReader) read(a answer, sendNo int, own string) (rails.Result, codes.Class) {
	ctx := codes.Context{SendNo: sendNo, Acceptance: r.acceptance}
	status := strconv.Itoa(a.status)
	if a.kept {
		return nothingOf(a, payment.ResultUnknown, r.http.Origin(status)), codes.Unclear
	}
	entry, listed := r.http.Find(status)
	if !listed {
		entry.Class = codes.Unclear
	}
	said := r.parse(a)
	result := rails.Result{
		Result: payment.ResultUnknown, FirstByte: true, Unmapped: !listed,
		Code: status, CodeTable: r.http.Origin(status), Message: "HTTP " + status,
		RetryAfter: retryAfter(a.header),
	}
	if said.Code != "" && !(said.Unmapped && statusDecides(entry.Class, said)) {
		result.Code, result.CodeTable, result.Unmapped = said.Code, r.body.Origin(said.Code), said.Unmapped
	}
	if reference, ok := said.text(r.config.Reference); ok {
		result.Reference = rails.CleanReference(reference)
	}
	doubt := func(why string) (rails.Result, codes.Class) {
		result.Message = why + "; " + result.Message
		return result, codes.Unclear
	}
	echoed, stray := said.echo(r.config.Echo, own)
	result.Message = said.explain(result.Message, r.config.Message, r.clean)
	if stray != "" {
		result.Reference = "" // the reference is that of another payment
		return doubt(stray)
	}
	// The status 409 does not distinguish a key that was used before from one in use.
	result.SeenBefore = said.Duplicate || entry.Class.MaySaySeen(sendNo) || said.Class.MaySaySeen(sendNo) ||
		sendNo != 1 && a.status == http.StatusConflict
	class, why := r.weigh(entry.Class, a.status, said)
	result.RailRefused = class == codes.HoldRail || entry.Class == codes.HoldRail && said.Unmapped
	if why != "" {
		return doubt(why)
	}
	if entry.Class == codes.InProgress && class == codes.Executed && r.acceptance == payment.AcceptanceByAnswer {
		class = codes.InProgress // 202: processing is not complete, whatever the body contains
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
	return result, class
}

// weigh combines the classes of status code and body, or returns why they prove nothing together.
func (r sendReader) weigh(byHTTP codes.Class, status int, said parsedAnswer) (codes.Class, string) {
	success := status >= 200 && status < 300
	switch {
	case byHTTP == codes.Unclear:
		return codes.Unclear, ""
	case success && !said.readable:
		return codes.Unclear, "the answer can't be read"
	case success && r.config.Status != "" && !said.hasWord:
		return codes.Unclear, "the answer has no status"
	case said.Unmapped && statusDecides(byHTTP, said):
		return byHTTP, ""
	case said.Unmapped && byHTTP == codes.HoldRail:
		return codes.Unclear, "the status code refuses us, and the bank's code for it is in no table"
	case said.Unmapped && said.Class == "":
		return codes.Unclear, "the bank's code is in no table"
	case !success && said.Class.Accepts():
		return codes.Unclear, "the status code refuses and the body accepts"
	case said.Class != "":
		return said.Class, ""
	case success && r.config.Status != "":
		return codes.Unclear, "the answer refers to a code and has none"
	case !said.readable && !statusDecides(byHTTP, said):
		return codes.Unclear, "the refusal can't be read"
	default:
		return byHTTP, ""
	}
}

// statusDecides reports whether a status code decides by itself. A proxy or gateway in front of a
// bank sends such codes without a body of the bank's: wrong credentials, wrong route, too many
// requests. A bank that sends 403 or 404 with a code of its own means the payment: its rights, or
// the account that it names.
func statusDecides(byHTTP codes.Class, said parsedAnswer) bool {
	return byHTTP == codes.HoldRail && said.Code == "" || byHTTP == codes.Refused || byHTTP == codes.Later
}

// parse reads the body: its status word and its code.
func (r sendReader) parse(a answer) parsedAnswer {
	said := readBody(a)
	word, code := said.word(r.config.Status), said.look(r.config.Code)
	said.hasWord = word.Kind != jsondoc.Absent
	said.Said = codes.SendWords{Words: r.config.Statuses, Table: r.body}.Read(said.wordOf(word), said.codeOf(code))
	said.Code = said.kept(said.Code)
	if code.Kind == jsondoc.Blank && said.Class == "" && said.Code == "" {
		// What decides without a code must not decide instead of one: the bank may have meant to say more.
		said.Code, said.Unmapped = codes.Unusable, true
		said.odd = append(said.odd, "its code can't be used: "+shown(code))
	}
	return said
}

// readBody reads a body that is one JSON object. No content coding was requested: a body that has
// one is not decoded and counts as unreadable.
func readBody(a answer) parsedAnswer {
	if coding := a.header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return parsedAnswer{}
	}
	doc, err := jsondoc.Parse(a.body)
	if err != nil || !doc.IsObject() {
		return parsedAnswer{}
	}
	return parsedAnswer{doc: doc, readable: true}
}

// maxRetryAfter bounds the delay that a bank may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110, section 10.2.3, in seconds. The form with a date would
// require that the bank's clock agrees with ours.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
