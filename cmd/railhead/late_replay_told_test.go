package main

import (
	"os"
	"regexp"
	"testing"
)

var (
	// asDecided is what replay_payment does with a quarantined payment whose time has passed.
	asDecided = regexp.MustCompile(`(also|unless)[^.]*(quarantined|UNCLAIMABLE|refused)[^.]*unless (its|that one's) outcome is unknown: then it is asked about, and not sent again|` +
		`is refused, unless its outcome is unknown: then it is asked about, and not sent again`)
	// asBefore is what it did before migration 64.
	asBefore = regexp.MustCompile(`(quarantined|UNCLAIMABLE|without)[^|.]*(\. An? [^|.]*)?ends as EXPIRED`)
	breaks   = regexp.MustCompile(`\\n" \+\s*"|\s*\n(\s*//)?\s*`)
)

// TestLateReplayIsToldAlike: the runbook, the pages and the help say of the replay of a quarantined payment whose
// expires_at has passed what the ledger does (TestLateQuarantinedReplay).
func TestLateReplayIsToldAlike(t *testing.T) {
	t.Parallel()
	for file, whole := range map[string]bool{
		"../../alerts/runbooks/RailheadDeadLettersGrowing.md": true,
		"../../docs/cli.md":                    true,
		"../../docs/unknown-outcomes.md":       true,
		"../../docs/console.md":                true,
		"dead_letters_act.go":                  true,
		"../../ledger/operator/letters.go":     false,
		"../../internal/explain/remedy.go":     false,
		"../../console/templates/payment.html": false,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told := breaks.ReplaceAllString(string(text), " ")
		if said := asBefore.FindString(told); said != "" {
			t.Errorf("%s says: %s", file, said)
		}
		if whole && !asDecided.MatchString(told) {
			t.Errorf("%s does not say what a replay of a quarantined payment needs whose time has passed", file)
		}
	}
}
