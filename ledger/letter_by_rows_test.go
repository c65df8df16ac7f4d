package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// says writes a reason into a dead letter past every function.
func (d *desk) says(id payment.ID, reason string) {
	d.t.Helper()
	d.do(`UPDATE railhead.payment_dead_letters SET reason = $2, error_code = 'AC01' WHERE outbox_id = $1`,
		[16]byte(id), reason)
}

// TestLetterIsNotEvidence: that a payment was not made is what its rows say. A dead letter that says so of another one
// neither has it sent again nor is closed.
func TestLetterIsNotEvidence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ plight, replay, closing string }{
		{"PARKED, outcome unknown", "its last row is PARKED: the payment may have been made", "the instruction is PARKED"},
		{"PARKED, just not found", "its last row is PARKED: the payment may have been made", "the instruction is PARKED"},
		{"CONFLICT after FAILED", "what became known after row", "contradicts what was said before"},
		{"CONFLICT after DISPATCHED", "its last row is DISPATCHED: the payment", "contradicts what was said before"},
		{"CONFLICT after CANCELLED", "its last row is CANCELLED: the payment", "contradicts what was said before"},
		{"TAMPERED", "its last row is PARKED: the payment may have been made", "the instruction is PARKED"},
	} {
		for _, reason := range []string{"FAILED", "EXPIRED"} {
			t.Run(test.plight+" called "+reason, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				id := plights[test.plight](d)
				d.says(id, reason)
				before := d.rows(id)
				_, err := d.operator().ReplayPayment(t.Context(), id, operator.NeverExpires, why)
				refusedWith(t, "a replay", err, "RH020", test.replay)
				_, err = d.operator().TriageDeadLetter(t.Context(), id, operator.Close, why)
				refusedWith(t, "its close", err, "RH020", test.closing)
				if advice := hint(t, "its close", err); !strings.Contains(advice, "prove run nothing-lost") {
					t.Errorf("the advice is %q", advice)
				}
				same(t, "rows", d.rows(id), before)
			})
		}
	}
}

// TestComponentsWriteNoLetter: a component opens dead letters by one function, which takes from the rows what a letter
// says of an instruction, and that a payment was not made only where its last row is FAILED.
func TestComponentsWriteNoLetter(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	executor := d.Conn(t, celltest.Relayer)
	id := plights["PARKED, outcome unknown"](d)
	for _, statement := range []string{
		`UPDATE railhead.payment_dead_letters SET reason = 'FAILED', error_code = 'AC01'`,
		`UPDATE railhead.payment_dead_letters SET amount = 0.01`,
		`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason)
			VALUES (gen_random_uuid(), 'i', 'p', 'bank', 'FAILED')`,
		`INSERT INTO railhead.payment_outbox_contradictions (outbox_id, attempt_no) VALUES (gen_random_uuid(), 1)`,
	} {
		if _, err := executor.Exec(t.Context(), statement); ledger.SQLState(err) != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, reason := range []string{"FAILED", "EXPIRED"} {
		_, err := executor.Exec(t.Context(),
			`SELECT railhead.open_dead_letters(ARRAY[$1::uuid], ARRAY[$2], ARRAY['AC01'])`, [16]byte(id), reason)
		d.must(err)
		same(t, "called "+reason, d.text(`SELECT concat_ws(' ', reason, status, amount) FROM railhead.payment_dead_letters
			WHERE outbox_id = $1`, [16]byte(id)), "OUTCOME_UNKNOWN pending 10.50")
	}
}

// TestLateQuarantinedReplay: a quarantined row whose expiry has passed is due again only with a new one, because it
// would end as EXPIRED; one in doubt is asked about however late.
func TestLateQuarantinedReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	late := func(plight string) payment.ID {
		id := plights[plight](d)
		d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 hour' WHERE outbox_id = $1`,
			[16]byte(id))
		return id
	}
	id := late("UNCLAIMABLE")
	_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "without a new expiry", err, "RH020", "which is past: it would end as EXPIRED")
	if advice := hint(t, "without a new expiry", err); !strings.Contains(advice, "--never-expires") {
		t.Errorf("the advice is %q", advice)
	}
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Now().Add(time.Hour), why)
	d.must(err)
	_, err = d.operator().ReplayPayment(t.Context(), late("UNCLAIMABLE"), operator.NeverExpires, why)
	d.must(err)
	_, err = d.operator().ReplayPayment(t.Context(), late("UNCLAIMABLE, outcome unknown"), time.Time{}, why)
	d.must(err)
}

// TestAdviceOnPutBack: what was put back over a payment that is parked is resolved, and what was put back over one that
// has ended is closed.
func TestAdviceOnPutBack(t *testing.T) {
	t.Parallel()
	for plight, closes := range map[string]bool{"PARKED, outcome unknown": false, "FAILED": true} {
		d := newDesk(t)
		id := plights[plight](d)
		d.putBack(id)
		_, err := d.operator().CancelPayment(t.Context(), id, why)
		same(t, plight+", a cancellation says close", strings.Contains(hint(t, plight, err), "close its dead letter"), closes)
		d.must(d.quarantine(id, "PUT_BACK"))
		_, err = d.operator().ReplayPayment(t.Context(), id, operator.NeverExpires, why)
		same(t, plight+", a replay says close", strings.Contains(hint(t, plight, err), "Close its dead letter"), closes)
		_, err = d.operator().TriageDeadLetter(t.Context(), id, operator.Close, why)
		same(t, plight+", closed", err == nil, closes)
	}
}
