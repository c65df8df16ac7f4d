package railsfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestTextMayBeApplied: rail apply accepts every file that this package writes.
func TestTextMayBeApplied(t *testing.T) {
	const keyed = "acceptance: BY_ANSWER\nresend_on_unknown: SAME_KEY\nkey_window: 1h\nanswer_covers_key: true\n" +
		"inquiry: {max: 3, not_found: INCONCLUSIVE}"
	texts := map[string]func() ([]byte, error){
		"bank":   func() ([]byte, error) { return railsfile.Bank("http://127.0.0.1:1") },
		"stream": func() ([]byte, error) { return railsfile.Stream("nats://127.0.0.1:1") },
		"topic":  func() ([]byte, error) { return railsfile.Topic("kafka://127.0.0.1:1") },
	}
	for _, reference := range []string{railsfile.Key, railsfile.Instruction} {
		for _, inquiry := range []string{railsfile.ByKey, railsfile.ByID} {
			texts[reference+" "+inquiry] = func() ([]byte, error) {
				return railsfile.Text(railsfile.Rail{Name: "asked", URL: "http://127.0.0.1:1", Profile: keyed, Reference: reference,
					Inquiry: inquiry, Refused: "CODE"})
			}
		}
		texts[reference] = func() ([]byte, error) {
			return railsfile.Text(railsfile.Rail{Name: "bare", URL: "http://127.0.0.1:1", Profile: "{acceptance: FINAL}",
				Reference: reference})
		}
	}
	for name, text := range texts {
		written, err := text()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "rails.yaml")
		if err := os.WriteFile(path, written, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := railconfig.LoadProfiles(path, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
