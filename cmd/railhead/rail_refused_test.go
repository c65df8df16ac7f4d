package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/rails"
)

// TestRefusedRailGoesOn: a rail whose requests rail check refuses today, and which is in force, is served on, and each
// relayer that opens it says so.
func TestRefusedRailGoesOn(t *testing.T) {
	t.Parallel()
	valid, err := railsfile.Bank("http://127.0.0.1:1") // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	for inquiry, refused := range map[string]bool{"/payments/by-key/{rail_key}": false, "/payments/latest": true} {
		path := writeFile(t, "rails.yaml", strings.Replace(string(valid), railsfile.ByKey, inquiry, 1))
		code := map[bool]int{false: exitOK, true: exitUsage}[refused]
		if got := (command{t: t}).want(code, "rail", "check", path); strings.Contains(got.errors, "http.inquiry") != refused {
			t.Errorf("%s: rail check says %s", inquiry, got.errors)
		}
		var said bytes.Buffer
		open, _, err := railOpener(path, &inherited{}, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatalf("%s: %v", inquiry, err)
		}
		profile, err := rails.ParseProfile([]byte(`{"rail_type": "bank",
			"inquiry": {"max": 1, "not_found": "INCONCLUSIVE"}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(profile); err != nil || (said.Len() > 0) != refused {
			t.Errorf("%s: %v, and the log has %q", inquiry, err, said.String())
		}
	}
}
