package httpjson_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// cache keeps answers to GET for 5 minutes, unless the request forbids it (RFC 9111).
type cache struct {
	bank http.Handler
	mu   sync.Mutex
	kept map[string]*httptest.ResponseRecorder
}

func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wishes := r.Header.Get("Cache-Control")
	kept := c.kept[r.URL.Path]
	if kept == nil || r.Method != http.MethodGet || strings.Contains(wishes, "no-cache") {
		kept = httptest.NewRecorder()
		c.bank.ServeHTTP(kept, r)
	}
	if r.Method == http.MethodGet && !strings.Contains(wishes, "no-store") {
		c.kept[r.URL.Path] = kept
	}
	w.WriteHeader(kept.Code)
	w.Write(kept.Body.Bytes()) //nolint:errcheck // the test sees what is missing
}

// TestInquiryPastACache: "no such payment" from before the bank had the payment is not the answer to a later inquiry.
func TestInquiryPastACache(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		executed := false
		url := httptest.NewServer(&cache{kept: map[string]*httptest.ResponseRecorder{}, bank: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "public, max-age=300")
				if executed {
					io.WriteString(w, `{"status":"EXECUTED","id":"b-1"}`) //nolint:errcheck // as above
					return
				}
				w.WriteHeader(http.StatusNotFound)
				io.WriteString(w, `{"status":"NOT_FOUND"}`) //nolint:errcheck // as above
			})})
		t.Cleanup(url.Close)
		c := config(t, url.URL)
		c.Inquiry.Method = method
		if method == http.MethodPost {
			c.Inquiry.Body = map[string]any{"key": "rail_key"}
		}
		rail := open(t, c, profile())
		question := inquiryOf(rail, instruction(t))
		for _, want := range []payment.Result{payment.ResultNotFound, payment.ResultExecuted} {
			if got := rail.(rails.Inquirer).Inquire(t.Context(), question); got.Result != want {
				t.Errorf("%s: %+v, want %s", method, got, want)
			}
			executed = true
		}
		rail.(io.Closer).Close()
	}
}

// TestKeptFromBeforeTheCall: an answer that says by its age that it was made before the request left proves nothing.
func TestKeptFromBeforeTheCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		age   string
		taken bool
	}{
		{"", true}, {"0", true}, {"1", true}, {"none", true}, {"-5", true}, {"2", false}, {"299", false}, {" 3600, 0", false},
		{"99999999999999999999", false},
	} {
		for name, what := range map[string]struct {
			status int
			body   string
			asks   bool
			result payment.Result
		}{
			"executed":       {201, `{"status":"EXECUTED","id":"b-1"}`, false, payment.ResultAccepted},
			"refused":        {422, `{"status":"REFUSED","code":"AC04"}`, false, payment.ResultRefusedFinal},
			"busy":           {429, ``, false, payment.ResultRefusedLater},
			"no route":       {404, ``, false, payment.ResultRefusedRail},
			"asked executed": {200, `{"status":"EXECUTED","id":"b-1"}`, true, payment.ResultExecuted},
			"asked refused":  {200, `{"status":"REFUSED","code":"AC04"}`, true, payment.ResultRefused},
			"asked unknown":  {404, `{"status":"NOT_FOUND"}`, true, payment.ResultNotFound},
			"asked busy":     {429, ``, true, payment.ResultRefusedLater},
		} {
			bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.age != "" {
					w.Header().Set("Age", c.age)
				}
				w.WriteHeader(what.status)
				fmt.Fprint(w, what.body) //nolint:errcheck // the test sees what is missing
			}))
			t.Cleanup(bank.Close)
			set := config(t, bank.URL)
			set.Send.Response.Echo = ""
			rail := open(t, set, profile())
			s, none := instruction(t), payment.ResultUnknown
			var got rails.Result
			if what.asks {
				none = payment.ResultUnavailable
				got = rail.(rails.Inquirer).Inquire(t.Context(), inquiryOf(rail, s))
			} else {
				got = rail.Send(t.Context(), s)
			}
			rail.(io.Closer).Close()
			want := what.result
			if !c.taken {
				want = none
			}
			if got.Result != want || !got.FirstByte || got.OwnStop {
				t.Errorf("age %q, %s: %+v, want %s", c.age, name, got, want)
			}
			if said := strings.Contains(got.Message, "kept from before the call"); said == c.taken {
				t.Errorf("age %q, %s: the message is %q", c.age, name, got.Message)
			}
			if !c.taken && (got.Reference != "" || got.RailRefused || got.Unmapped || got.RetryAfter != 0) {
				t.Errorf("age %q, %s: it is evidence of something: %+v", c.age, name, got)
			}
		}
	}
}
