package console

import (
	"net/url"
	"os/exec"
	"testing"
	"time"
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

// TestSpans: the end of a pause, and the moment from which on events are delivered again.
func TestSpans(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"": true, " 90m ": true, "24h": true, "999ms": false, "-1h": false, "1d": false,
	} {
		until, err := endOf(url.Values{"for": {text}})
		if (err == nil) != ok || ok && text != "" && !until.After(time.Now()) || text == "" && !until.IsZero() {
			t.Errorf("%q ends at %v, %v", text, until, err)
		}
	}
	ahead := time.Now().Add(time.Hour).Format(time.RFC3339)
	for text, ok := range map[string]bool{
		"": true, "2026-11-26T09:00:00Z": true, "1999-01-01T00:00:00Z": false, ahead: false, "yesterday": false,
	} {
		since, err := sinceOf(url.Values{"since": {text}})
		if (err == nil) != ok || since.IsZero() != (!ok || text == "") {
			t.Errorf("%q is since %v, %v", text, since, err)
		}
	}
}
