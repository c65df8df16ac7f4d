package alertdrill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/testbed/browser"
)

// TestRoutes holds the routes through the console to the faults: each has one, of at most clicksMax clicks, at the
// end of which is what mends it.
func TestRoutes(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	acts, short := 0, 0
	for _, f := range faults() {
		known[f.name] = true
		r, err := routeOf(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if n := r.clicks(alertsOf(f)); n > clicksMax || n < 1 {
			t.Errorf("%s takes %d clicks, want 1 to %d", f.name, n, clicksMax)
		}
		if (r.act == nil) == (r.mend == "") {
			t.Errorf("%s needs an act or what else mends it, and not both", f.name)
		}
		if len(r.says) == 0 && f.name != "history" {
			t.Errorf("%s: nothing of its cause is read", f.name)
		}
		if r.act != nil {
			acts++
			if r.act.check == "" || r.act.says == "" || r.act.before == nil {
				t.Errorf("%s: its act is not checked: %+v", f.name, r.act)
			}
		}
		if r.short {
			short++
		}
	}
	all := make(map[string]bool)
	for _, r := range routes() {
		if !known[r.fault] || all[r.fault] {
			t.Errorf("the route of %s is that of no fault, or the second one", r.fault)
		}
		all[r.fault] = true
	}
	if acts < 7 || short < 4 {
		t.Errorf("only %d acts mend a fault, and %d faults are in the short form", acts, short)
	}
}

// TestClicks is the short form of what make console does with every fault: a few of them, all at once.
func TestClicks(t *testing.T) {
	if os.Getenv(browser.EnvWithout) != "" {
		t.Skip(browser.EnvWithout + " is set")
	}
	programs, err := browser.Find(t.Context(), "../..")
	if errors.Is(err, browser.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var out strings.Builder
	err = Clicks(ctx, ClickOptions{
		Root: root, Binaries: builtBinaries(t), Browser: programs, Short: true,
		Say: func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) },
	})
	if err != nil || !strings.HasSuffix(out.String(), "faults=5 found=5 mended=2 most=4\n") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}
