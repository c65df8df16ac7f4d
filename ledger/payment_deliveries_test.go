package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestPaymentDeliveries: of one payment, which events an endpoint has not accepted, and up to which row its cursor
// has come.
func TestPaymentDeliveries(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	looker := openReader(t, c.Cell)
	who := c.token(nil, "p1")
	first, second := c.order(who, "p1", "first"), c.order(who, "p1", "second")
	of := func(id payment.ID) reader.Delivery {
		t.Helper()
		all, err := looker.Deliveries(t.Context(), id)
		c.must(err)
		if len(all) != 1 || all[0].Endpoint != "shop" || !all[0].PausedAt.IsZero() {
			t.Fatalf("got %+v", all)
		}
		return all[0]
	}
	is := func(what string, got reader.Delivery, last, passed, waiting int) {
		t.Helper()
		if got.LastNo != last || got.PassedNo != passed || len(got.Waiting) != waiting {
			t.Errorf("%s: %+v, want row %d of %d passed, %d waiting", what, got, passed, last, waiting)
		}
	}
	is("before the first row", of(first), 0, 0, 0)
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	c.do(appended, [16]byte(second), 1, "FAILED", "", false)
	is("before the cursor has come to it", of(first), 1, 0, 0)
	due := c.isDue("at the beginning", "new first accepted 1, new second failed 1")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{waiting(due.Events[0], time.Hour)},
		Taken: true})
	got := of(first)
	is("while one waits", got, 1, 1, 1)
	if one := got.Waiting[0]; one.AttemptNo != 1 || one.Type != "payment.accepted" || one.Tries != 1 ||
		one.FailedAt.IsZero() || time.Until(one.NextAt) < 50*time.Minute || one.Status != "HTTP_500" {
		t.Errorf("what waits is %+v", one)
	}
	is("of the one that was taken", of(second), 1, 1, 0)
	c.do(appended, [16]byte(first), 2, "DISPATCHED", "", false)
	is("with a later row", of(first), 2, 1, 1)
	due = c.isDue("behind it", "behind first dispatched 2")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{
		{Event: due.Events[0].Event, Tries: 10, GivenUp: true, Status: "HTTP_410"}}})
	got = of(first)
	is("when the second is given up", got, 2, 2, 2)
	if one := got.Waiting[1]; !one.NextAt.IsZero() || one.Tries != 10 || one.Status != "HTTP_410" {
		t.Errorf("what is given up is %+v", one)
	}
}
