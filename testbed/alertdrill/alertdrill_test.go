package alertdrill

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/alerts"
	"github.com/railhead-pay/railhead/internal/test/promrun"
)

// TestShort is the short form of `make alerts`: a few faults, each of which must
// have its alert fire and resolve, and no other.
func TestShort(t *testing.T) {
	if testing.Short() {
		t.Skip("short: make test LONG=1 and make alerts break it")
	}
	programs, err := promrun.Find(t.Context(), "../..")
	if errors.Is(err, promrun.ErrNone) && os.Getenv(promrun.EnvWithout) != "" {
		t.Skip(promrun.EnvWithout + " is set")
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out strings.Builder
	err = Run(ctx, Options{Root: root, Binaries: builtBinaries(t), Programs: programs, Short: true, Out: &out})
	if err != nil || !strings.HasSuffix(out.String(), "rules=3 fired=3 resolved=3 stray=0\n") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// builtBinaries builds railhead and railsim into a folder of the test's.
func builtBinaries(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", folder, "./cmd/railhead", "./cmd/railsim")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, said)
	}
	return folder
}

// TestEveryRuleHasItsFault compares the faults with the rules, and the explained pairs with both.
func TestEveryRuleHasItsFault(t *testing.T) {
	t.Parallel()
	text, err := alerts.Files.ReadFile(alerts.RulesFile)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := alerts.ReadRules(text)
	if err != nil {
		t.Fatal(err)
	}
	wanted, names := make(map[string]int), make(map[string]bool)
	for _, f := range faults() {
		names[f.name] = true
		for _, key := range f.wants {
			wanted[key]++
		}
	}
	known, ruled := make(map[string]bool), make(map[string]bool)
	for _, rule := range rules {
		if rule.Alert == "" {
			continue
		}
		known[rule.Alert] = true
		key := rule.Alert + "/" + rule.Labels["severity"]
		if wanted[key] != 1 {
			t.Errorf("%s has %d faults, want one", key, wanted[key])
		}
		ruled[key] = true
	}
	for key := range wanted {
		if !ruled[key] {
			t.Errorf("%s has a fault and no rule", key)
		}
	}
	pairs, err := explained()
	if err != nil {
		t.Fatal(err)
	}
	for name, also := range pairs {
		if !names[name] {
			t.Errorf("explained.yaml: no fault %s", name)
		}
		for alert, why := range also {
			if !known[alert] || why == "" {
				t.Errorf("explained.yaml: %s: alert %q is no rule, or is not explained", name, alert)
			}
		}
	}
}

// TestWhatIsNotExplainedIsStray checks how alerts are judged that fire in addition to a fault's
// own.
func TestWhatIsNotExplainedIsStray(t *testing.T) {
	t.Parallel()
	f := fault{name: "A", wants: []string{"A/page"}}
	for name, c := range map[string]struct {
		fired  []string
		strays int
		also   string
	}{
		"its own":                      {[]string{"A/page"}, 0, ""},
		"an explained one":             {[]string{"A/page", "B/ticket"}, 0, "; with it, explained: B"},
		"one that is not":              {[]string{"A/page", "C/page"}, 1, ""},
		"its own, of another severity": {[]string{"A/page", "A/ticket"}, 1, ""},
		"nothing":                      {nil, 0, ""},
	} {
		var sum tally
		fired := make(map[string]string)
		for _, key := range c.fired {
			fired[key] = "alertname=" + key
		}
		if also := sum.addStrays(f, fired, map[string]string{"B": "because"}); also != c.also || len(sum.strays) != c.strays {
			t.Errorf("%s: %q, strays %q", name, also, sum.strays)
		}
	}
}

// TestWatcher follows one alert from pending over firing to resolved, and one
// that never fires.
func TestWatcher(t *testing.T) {
	t.Parallel()
	w := newWatcher(nil)
	alert := func(name, state string) promrun.Alert {
		return promrun.Alert{Labels: map[string]string{"alertname": name, "severity": "page"}, State: state}
	}
	at := time.Now()
	step := func(found ...promrun.Alert) {
		at = at.Add(time.Second)
		w.note(found, at)
	}
	step(alert("A", "pending"), alert("B", "pending"))
	if w.firing("A/page") {
		t.Error("a pending alert counts as firing")
	}
	step(alert("A", "firing"))
	if !w.firing("A/page") {
		t.Error("a firing alert is not seen")
	}
	if quiet, left := w.quiet(); quiet || len(left) != 1 {
		t.Errorf("quiet %t while %q", quiet, left)
	}
	step()
	if quiet, left := w.quiet(); !quiet {
		t.Errorf("not quiet: %q", left)
	}
	if fired := w.firedSince(at.Add(-time.Hour)); len(fired) != 1 || fired["A/page"] == "" {
		t.Errorf("fired: %q", fired)
	}
	if fired := w.firedSince(at); len(fired) != 0 {
		t.Errorf("fired after its end: %q", fired)
	}
}
