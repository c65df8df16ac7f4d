package migrations_test

import (
	"os"
	"strings"
	"testing"
)

// origin is what the design had that this schema began with: its tables with their
// columns, and the states of an attempt.
var origin = map[string]string{
	"participant_outbox_sequences": "participant_id next_sequence_id",
	"payment_outbox_pending": "outbox_id instruction_id participant_id sequence_id idempotency_key rail_type payload " +
		"attempt_count next_attempt_at created_at",
	"payment_outbox_attempts": "attempt_id outbox_id instruction_id participant_id sequence_id idempotency_key " +
		"rail_type payload attempt_no state claimed_at completed_at error_code error_message latency_ms worker_id created_at",
	"outbox_attempt_state": "DISPATCHING DISPATCHED RETRYABLE FAILED ZOMBIE_REQUEUE",
}

// TestDecisionsNameWhatIsNew: every table, every column of the origin's tables and every
// state that the origin had not is named in the decision that says why.
func TestDecisionsNameWhatIsNew(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	decision := read("../docs/decisions/0001-bending-the-origin.md")
	wanted := 0
	want := func(what, name string) {
		t.Helper()
		wanted++
		if !strings.Contains(decision, "`"+name+"`") {
			t.Errorf("docs/decisions/0001 does not say why there is the %s %s", what, name)
		}
	}
	table := ""
	for line := range strings.Lines(read("testdata/schema.txt")) {
		words := strings.Fields(strings.TrimPrefix(line, "partitioned "))
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "type":
			table = ""
			if states, found := strings.CutPrefix(strings.TrimSpace(line), "type outbox_attempt_state enum ("); found {
				for state := range strings.SplitSeq(strings.TrimSuffix(states, ")"), ", ") {
					if !has("outbox_attempt_state", state) {
						want("state", state)
					}
				}
			}
		case "table":
			if table = words[1]; origin[table] == "" {
				want("table", table)
			}
		case "column":
			if origin[table] != "" && !has(table, words[1]) {
				want("column "+table+".", words[1])
			}
		}
	}
	if wanted < 30 {
		t.Errorf("%d names were looked for: testdata/schema.txt was not read", wanted)
	}
}

func has(table, name string) bool {
	return strings.Contains(" "+origin[table]+" ", " "+name+" ")
}
