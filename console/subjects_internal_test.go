package console

import (
	"context"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestShellWord: a shell reads the word as the text that it was made of.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"p1", "", "a b", "it's", "$(id)", "-rf", "*", "a\\b", "`x`", "a;b", "~"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellWord(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is %s for a shell, which reads %q, %v", text, shellWord(text), out, err)
		}
	}
	if got := shellWord("p-1"); got != "p-1" {
		t.Errorf("p-1 has quotes: %s", got)
	}
}

// TestSpans: the end of a pause, and the moment from which on events are delivered again, by the database's
// clock, which is far from this host's here.
func TestSpans(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-50 * time.Hour)
	form := func(name, text string) subjectForm { return subjectForm{url.Values{name: {text}}, now} }
	for text, span := range map[string]time.Duration{
		"": 0, " 90m ": 90 * time.Minute, "24h": 24 * time.Hour, "999ms": -1, "-1h": -1, "1d": -1,
	} {
		until, err := endOf(form("for", text))
		if (err != nil) != (span < 0) || span > 0 && !until.Equal(now.Add(span)) || span <= 0 && !until.IsZero() {
			t.Errorf("%q ends at %v, %v", text, until, err)
		}
	}
	ahead := now.Add(time.Hour).Format(time.RFC3339)
	for text, ok := range map[string]bool{
		"": true, "2024-11-26T09:00:00Z": true, "1999-01-01T00:00:00Z": false, ahead: false, "yesterday": false,
	} {
		since, err := sinceOf(form("since", text))
		if (err == nil) != ok || since.IsZero() != (!ok || text == "") {
			t.Errorf("%q is since %v, %v", text, since, err)
		}
	}
}

// countingOperator makes as many waiting events due as it says.
type countingOperator struct {
	Operator
	waited int
}

func (o countingOperator) Redeliver(context.Context, string, time.Time, string) (int, error) {
	return o.waited, nil
}

// TestRedeliverSaysWhatWaited: the page says that events are due only if any waited.
func TestRedeliverSaysWhatWaited(t *testing.T) {
	t.Parallel()
	for waited, want := range map[int]bool{0: false, 3: true} {
		due, err := subjectActs[ofEndpoints]["redeliver"](t.Context(), countingOperator{waited: waited}, "shop",
			subjectForm{Values: url.Values{"seen": {"0.0.0"}}}, "x")
		if err != nil || due != want {
			t.Errorf("%d waited: %v, %v", waited, due, err)
		}
	}
	if doneSentences["redeliver-same"] == "" {
		t.Error("nothing is said if none waited")
	}
}

// TestCountdownHasOneClock: the page gives the time that is left, and the script asks no other clock for it.
func TestCountdownHasOneClock(t *testing.T) {
	t.Parallel()
	c := consoleWith(t, nil, NewCertificates(Roles{}))
	line := filled[reader.Timeline]()
	line.Pending.DueInMS, line.Pending.Quarantine, line.Pending.Pause = 90_000, false, nil
	var text strings.Builder
	body := c.paymentBody(line, nil)
	if err := c.pages["payment.html"].ExecuteTemplate(&text, "payment.html", page{Body: body}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `data-due-in="90000"`) {
		t.Error("the page does not say how long it is until the payment is due")
	}
	script, err := static.ReadFile("static/console.js")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(script), "function countDown()")
	counting, _, _ := strings.Cut(rest, "setInterval(countDown")
	if !found || strings.Contains(counting, "Date") || !strings.Contains(counting, "performance.now()") {
		t.Errorf("the countdown: %s", counting)
	}
}
