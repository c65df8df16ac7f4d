package reaper_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// take claims what heads of lines are due, for a worker.
func (y *yard) take(outcomes ...payment.Outcome) []payment.Claim {
	y.t.Helper()
	turn := outbox.Turn{Outcomes: outcomes, Ordered: []string{"bank"}, Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "worker",
		Lanes: []outbox.Lane{{RailType: "bank", Free: 10, ProfileVersion: y.ProfileInForce("bank"),
			RenderVersion: "render/1", Order: outbox.Order{Strict: true}}},
	}}
	result, err := y.exec.Turn(y.t.Context(), turn)
	if err != nil {
		y.t.Fatal(err)
	}
	return result.Claims
}

// TestRepairAdvancesTheLine: the repair of a lost claim, in its own transaction, makes the instruction the
// head again, or frees what waited behind it: no claim has to look first.
func TestRepairAdvancesTheLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ profile, line string }{
		"sent again": {sameKey[:len(sameKey)-1] + `, "order": "STRICT"}`, "1 due"},
		"parked":     {never[:len(never)-1] + `, "order": "STRICT"}`, "1 OUTCOME_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, test.profile)
			first, second := y.enqueue(), y.enqueue()
			claims := y.take()
			if len(claims) != 1 || claims[0].OutboxID != first {
				t.Fatalf("claimed %v", claims)
			}
			y.age(time.Hour)
			if result := y.once(y.reaper()); result.Repaired != 1 {
				t.Fatalf("the reaper did %+v", result)
			}
			line := y.text(`SELECT head_no || ' ' || coalesce(blocked_by, CASE WHEN ready_at IS NOT NULL THEN 'due' END, 'claimed')
				FROM railhead.payment_order_lines`)
			if line != test.line {
				t.Errorf("the line after the repair is %q, want %q", line, test.line)
			}
			y.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
			for _, claim := range y.take() {
				if claim.OutboxID == second {
					t.Error("the second was claimed before the first was resolved")
				}
			}
		})
	}
}
