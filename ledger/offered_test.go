package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/explain"
)

// notOffered are the acts that the database takes and that are not offered, by plight.
var notOffered = map[string]string{
	// The database knows for how long the rail's word counts.
	"PARKED, just not found": "replay",
}

// TestOfferedActs holds the acts that a page offers in each plight to the contract of operatorTable.
func TestOfferedActs(t *testing.T) {
	t.Parallel()
	for name, bring := range plights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
			line, err := openReader(t, d.Cell).Timeline(t.Context(), bring(d))
			d.must(err)
			whys := make(map[string]string)
			for _, act := range explain.Acts(line) {
				whys[act.Name] = act.Why
				for _, verdict := range act.Verdicts {
					whys[act.Name+" "+verdict.Value] = verdict.Why
				}
			}
			wants := operatorTable[name]
			for n, act := range []string{"cancel", "acknowledge", "escalate", "close", "replay", "resolve executed",
				"resolve not_executed"} {
				if act == "resolve not_executed" { // with a silent rail, if that makes a difference
					n = len(wants) - 1
				}
				taken := wants[n][0] == '+'
				if offered := whys[act] == ""; offered != taken && (offered || notOffered[name] != act) {
					t.Errorf("%s is offered: %t (%s); the database: %s", act, offered, whys[act], wants[n])
				}
			}
		})
	}
}
