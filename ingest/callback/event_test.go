package callback_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestEventOfARepeatedCallback: a failover forgets what a callback has recorded, and the rail repeats the callback.
// What is recorded then is another event, with an id of its own: a reader that keeps ids must not skip it.
func TestEventOfARepeatedCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := w.claim(w.enqueue())
	event := func() (e payment.Event) {
		var attempt [16]byte
		w.cell.QueryRow(`SELECT f.attempt_id, f.attempt_no, f.event_type
			FROM railhead.outcome_feed('0', '00000000-0000-0000-0000-000000000000', 0, 100, true) f
			WHERE f.outbox_id = $1 AND f.event_type IS NOT NULL ORDER BY f.attempt_no DESC LIMIT 1`,
			[]any{[16]byte(claim.OutboxID)}, &attempt, &e.AttemptNo, &e.Type)
		e.AttemptID = attempt
		return e
	}
	post := func(verdict string) payment.Event {
		w.post(w.rail, "evt_1", w.says(claim.OutboxID, "EXECUTED", "RS1"))
		w.hears(verdict)
		return event()
	}
	first := post("IN")
	forget := func() {
		w.cell.Exec(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
		w.cell.Exec(`DELETE FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`)
	}
	forget()
	if again := post("IN"); again.Name() != first.Name() {
		t.Errorf("the same event is %s, and was %s", again.Name(), first.Name())
	}
	forget()
	w.record(claim, payment.ResultRefusedFinal, "")
	second := post("CONFLICT")
	if first.AttemptID != second.AttemptID || first.Name() == second.Name() {
		t.Errorf("the events are %s and %s", first.Name(), second.Name())
	}
	if want := fmt.Sprintf("evt_%x_2_dispatched", first.AttemptID[:]); first.Name() != want {
		t.Errorf("the first event is %s, want %s", first.Name(), want)
	}
}
