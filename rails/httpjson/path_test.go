package httpjson_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
)

// addressed is a bank whose resources have the names of payments.
func addressed(t testing.TB, baseURL string) httpjson.Config {
	c := config(t, baseURL)
	c.Send.Method, c.Send.Path = http.MethodPut, "/v1/payments/{instruction_id}/confirm"
	c.Inquiry.Path = "/v1/participants/{participant_id}/payments/.{reference}"
	return c
}

// taking is a profile by which such a bank returns a reference for inquiries.
func taking() rails.Profile {
	p := profile()
	p.Acceptance = payment.AcceptanceProvisional
	return p
}

// folding are values that a server or proxy may remove with the segment before them, or drop, after
// any number of decodings.
var folding = []string{
	".", "..", "%2e", "%2E%2e", ".%2e", "%252e%252e", "%25252e", "/", "%2f", "//", "\\", "../x", "x/..", "x/../..",
	"x/./y", "..\\x", "x%5c..",
	"%2e%2e%2fx", "..;", "..;a=b", "..%3b", "..?a", "..#a", "%zz/..", "%zz%2f%2e%2e%2f%zz",
}

// plain are values with dots that lead to no other address.
var plain = []string{"...", "a..b", "..a", "a..", ".a", "a.b", "%", "%2", "%zz", "a/b", "a b", ";..", "%2e%2e%2e",
	"a%2eb"}

// TestNoValueFoldsThePath tests that a value that leads to another address is refused before the
// first byte, in whichever field.
func TestNoValueFoldsThePath(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	rail := open(t, addressed(t, rawBank(t, func(c net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		mu.Lock()
		heard = append(heard, request.RequestURI)
		mu.Unlock()
		io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})), taking())
	defer rail.(io.Closer).Close()
	for _, value := range folding {
		send := instruction(t)
		send.InstructionID = value
		refused(t, rail, send, "instruction_id", value)
		send = instruction(t)
		send.ParticipantID = value // it could never be asked about
		refused(t, rail, send, "participant_id", value)
		for _, q := range []rails.Inquiry{
			{RailKey: "rh0", InstructionID: "i", ParticipantID: value, Reference: "b-1"},
			{RailKey: "rh0", InstructionID: "i", ParticipantID: "p", Reference: strings.TrimPrefix(value, ".") + "/.."},
		} {
			got := rail.(rails.Inquirer).Inquire(t.Context(), q)
			if got.Result != payment.ResultUnavailable || got.FirstByte || !strings.Contains(got.Message, "PATH") {
				t.Errorf("inquiry with %q: %+v", value, got)
			}
		}
	}
	if len(heard) > 0 {
		t.Errorf("the bank heard %q", heard)
	}
	for _, value := range plain {
		send := instruction(t)
		send.InstructionID, send.ParticipantID = value, value
		if err := rail.(rails.Checker).Check(send); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
	// A single dot is part of a longer segment, and folds only with another one.
	got := rail.(rails.Inquirer).Inquire(t.Context(), rails.Inquiry{RailKey: "rh0", ParticipantID: "p", Reference: "."})
	if got.FirstByte || !strings.Contains(got.Message, "reference") {
		t.Errorf("a reference that completes a dot segment: %+v", got)
	}
}

func refused(t *testing.T, rail rails.Rail, send rails.Send, field, value string) {
	t.Helper()
	err := rail.(rails.Checker).Check(send)
	if broken, ok := errors.AsType[*rails.CheckError](err); !ok || broken.Field != field || broken.Rule != "PATH" {
		t.Errorf("%s %q: Check says %v", field, value, err)
	}
	if field != "instruction_id" {
		return
	}
	if got := rail.Send(t.Context(), send); got.Result != payment.ResultNotSent || got.FirstByte ||
		!strings.Contains(got.Message, "PATH") {
		t.Errorf("%s %q: %+v, want NOT_SENT", field, value, got)
	}
}

// FuzzPath compares what Check accepts with a server that decodes a path until nothing changes, and
// cleans it each time.
func FuzzPath(f *testing.F) {
	for _, value := range append(append([]string{}, folding...), plain...) {
		f.Add(value)
	}
	rail, err := httpjson.Open(addressed(f, "http://127.0.0.1:1"), taking(), getenv)
	if err != nil {
		f.Fatal(err)
	}
	send := instruction(f)
	f.Fuzz(func(t *testing.T, value string) {
		send := send
		send.InstructionID = value
		if rail.(rails.Checker).Check(send) != nil {
			return
		}
		target := "/v1/payments/" + url.PathEscape(value) + "/confirm"
		for {
			cleaned := path.Clean(strings.ReplaceAll(target, "\\", "/"))
			middle, ok := strings.CutPrefix(cleaned, "/v1/payments/")
			if !ok || !strings.HasSuffix(middle, "/confirm") {
				t.Fatalf("%q leads to %s", value, cleaned)
			}
			decoded, err := url.PathUnescape(target)
			if err != nil || decoded == target {
				return
			}
			target = decoded
		}
	})
}
