package migrations_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/acl"
)

// notDurable are functions of logins that write and leave synchronous_commit as the login has it, with the reason.
var notDurable = map[string]string{
	"api_note_uses":                 "counts uses: those of a crash are missing in a number that decides nothing",
	"beat_api":                      "an API remembers no heartbeat: the next one writes the row again",
	"beat_events":                   "as beat_api",
	"note_event_deliveries":         "what is not noted is delivered again",
	"open_dead_letters":             "runs with the executor's rights, in a transaction that ledger/sql/bound.sql begins",
	"close_answered_letters":        "as open_dead_letters",
	"note_order_change":             "as open_dead_letters",
	"advance_order_lines":           "as open_dead_letters",
	"next_in_order":                 "as open_dead_letters",
	"ensure_attempt_partitions":     "as open_dead_letters",
	"enqueue_payment_outbox":        "sets it itself, as a call costs",
	"enqueue_payment_outbox_arrays": "as enqueue_payment_outbox",
}

// TestAnswersAreDurable: every function that a login may call, and that writes, sets synchronous_commit where the login
// has turned it off, by require_durable_commit or itself. TestActsAreDurable of package ledger calls them.
func TestAnswersAreDurable(t *testing.T) {
	t.Parallel()
	functions, _ := sqlFunctions(t)
	matrix, err := acl.Load()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, grant := range matrix.Grants {
		if grant.Object.Kind != acl.KindFunction {
			continue
		}
		name, _, _ := strings.Cut(grant.Object.Name, "(")
		if functions[name] == nil {
			continue
		}
		writes, calls := map[string]bool{}, map[string]bool{}
		within(functions, name, func(f *sqlFunction) map[string]bool { return f.writes }, writes, map[string]bool{})
		within(functions, name, func(f *sqlFunction) map[string]bool { return f.calls }, calls, map[string]bool{})
		durable := calls["require_durable_commit"] || calls["enqueue_payment_outbox_arrays"] ||
			calls["enqueue_payment_outbox"]
		switch _, excepted := notDurable[name]; {
		case excepted:
			used[name] = true
			if durable && !strings.HasPrefix(name, "enqueue_") {
				t.Errorf("%s is excepted, and calls require_durable_commit", name)
			}
		case len(writes) > 0 && !durable:
			t.Errorf("%s writes %s for %s, and a crash takes back what it has answered where the login has "+
				"synchronous_commit off: call require_durable_commit", name,
				strings.Join(slices.Sorted(maps.Keys(writes)), ", "), grant.Role)
		}
	}
	for name := range notDurable {
		if !used[name] {
			t.Errorf("%s is excepted, and no login may call it", name)
		}
	}
}
