package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestRetriedCancelled: a webhook that is delivered again says of a cancelled payment whether its outcome is unknown as
// the feed and the first delivery do. One whose outcome has become unknown since has another id, so that a receiver
// who skips the ids that it has reads it.
func TestRetriedCancelled(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	c.suspend()
	c.accept()
	c.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
	c.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at - interval '1 minute'`)
	who := c.token(nil, "p1")
	id := c.order(who, "p1", "one")
	_, err := c.operator().CancelPayment(t.Context(), id, why)
	c.must(err)
	_, due := c.due()
	later := due.Events[0]
	known := later.Event
	known.OutcomeUnknown = false
	if !later.OutcomeUnknown || later.Name() != known.Name()+"_unknown" {
		t.Errorf("of a call that may repeat a lost one: %s %t, and known it is %s", later.Name(), later.OutcomeUnknown,
			known.Name())
	}
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{waiting(later, -time.Second)}})
	_, due = c.due()
	if again := due.Events[0]; !again.Retry || !again.OutcomeUnknown || again.Name() != later.Name() {
		t.Errorf("delivered again: retry %t, %s %t", again.Retry, again.Name(), again.OutcomeUnknown)
	}
	c.wantRetried("delivered again", id)
}
