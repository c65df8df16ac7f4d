package console

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestTraceLink: a payment has a link to its trace if its headers have one and the setting is an address.
func TestTraceLink(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	const good = "https://traces.example/trace/{trace_id}?from=railhead"
	for name, test := range map[string]struct{ template, parent, want string }{
		"both":          {good, "00-" + id + "-00f067aa0ba902b7-01", "https://traces.example/trace/" + id + "?from=railhead"},
		"no setting":    {"", "00-" + id + "-00f067aa0ba902b7-01", ""},
		"no trace":      {good, "", ""},
		"another text":  {good, `00-"><script>HOSTILE</script>-00f067aa0ba902b7-01`, ""},
		"an id of zero": {good, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", ""},
	} {
		c, err := New(Config{TraceURL: test.template}, []Login{NewLink(Read)}, hostileReader{}, nil, nil,
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		headers, err := json.Marshal(map[string]string{"traceparent": test.parent})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.paymentBody(reader.Timeline{Headers: headers}).Trace; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	for _, template := range []string{
		"traces.example/{trace_id}", "javascript:alert({trace_id})", "https://{trace_id}.example/", "https://traces.example/",
		"https:///{trace_id}", "ftp://traces.example/{trace_id}",
	} {
		if err := (Config{TraceURL: template}).withDefaults().validate([]Login{NewLink(Read)}); err == nil {
			t.Errorf("%q is accepted", template)
		}
	}
}
