package ledger_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
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

// TestDeliveriesAreToldTruly: what is said of an event that no try of has failed, of one that an operator has asked
// for again, and of one from before its endpoint was made, is true of the rows.
func TestDeliveriesAreToldTruly(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	looker := openReader(t, c.Cell)
	who := c.token(nil, "p1")
	first, second := c.order(who, "p1", "first"), c.order(who, "p1", "second")
	// says requires that the lines of an endpoint contain one text, and another one nowhere.
	says := func(what string, id payment.ID, endpoint, has, hasNot string) {
		t.Helper()
		all, err := looker.Deliveries(t.Context(), id)
		c.must(err)
		var text strings.Builder
		for _, d := range all {
			for _, line := range explain.DeliveryLines(d) {
				if d.Endpoint == endpoint {
					text.WriteString(line.Text + "\n")
				}
			}
		}
		if !strings.Contains(text.String(), has) || strings.Contains(text.String(), hasNot) {
			t.Errorf("%s: %q; want %q in it, and not %q", what, text.String(), has, hasNot)
		}
	}
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	c.do(appended, [16]byte(second), 1, "FAILED", "", false)
	due := c.isDue("at the beginning", "new first accepted 1, new second failed 1")
	// The round is cut before the second is tried, and a later one was.
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{
		waiting(due.Events[0], time.Hour), {Event: due.Events[1].Event}}})
	const earlier = "comes after an earlier one"
	says("one that failed", first, "shop", "was not accepted in one try", earlier)
	says("one that was not tried", second, "shop", "failed of row 1 waits; no try of it has failed; it is due since ",
		earlier)
	_, err := c.operator().Redeliver(t.Context(), "shop", time.Time{}, why)
	c.must(err)
	says("one that is asked for again", first, "shop",
		"HTTP_500; an operator has asked for it again since; it is due since ", earlier)
	c.do(appended, [16]byte(first), 2, "DISPATCHED", "", false)
	c.take(true)
	_, due = c.due()
	for _, e := range due.Events {
		if e.OutboxID == first && e.AttemptNo == 2 {
			c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{{Event: e.Event}}})
		}
	}
	says("one behind it", first, "shop", "dispatched of row 2 waits; no try of it has failed; it "+earlier, "row 2 was")
	_, err = c.events.Take(t.Context(), "later", "worker-1", time.Minute, time.Time{})
	c.must(err)
	says("of an endpoint from now on", first, "later", "or is from before the endpoint was to begin", "not come to")
}

// TestNeededFrom: the query of docs/operations.md says from when on an endpoint needs the archive, by its place and by
// what waits for it.
func TestNeededFrom(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	page, err := os.ReadFile("../docs/operations.md")
	c.must(err)
	query := ""
	for _, block := range strings.Split(string(page), "```sql\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.Contains(text, "payment_event_endpoints") {
			query = text
		}
	}
	path, query, found := strings.Cut(query, ";\n")
	if !found {
		t.Fatal("docs/operations.md does not set the path before it asks")
	}
	c.do(path)
	who := c.token(nil, "p1")
	first := c.order(who, "p1", "first")
	time.Sleep(5 * time.Millisecond) // ids have the millisecond of their making
	second := c.order(who, "p1", "second")
	needs := func(what string, id *payment.ID) {
		t.Helper()
		var endpoint string
		var paused, lease, from *time.Time
		c.must(c.super.QueryRow(t.Context(), query).Scan(&endpoint, &paused, &lease, &from))
		var want *time.Time
		if id != nil {
			c.must(c.super.QueryRow(t.Context(), `SELECT railhead.uuidv7_time($1)`, [16]byte(*id)).Scan(&want))
		}
		if endpoint != "shop" || (from == nil) != (want == nil) || from != nil && !from.Equal(*want) {
			t.Errorf("%s: %s needs the archive from %v, want %v", what, endpoint, from, want)
		}
	}
	needs("before a row", nil)
	c.do(appended, [16]byte(second), 1, "FAILED", "", false)
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	needs("before both", &first)
	_, due := c.due()
	for _, e := range due.Events {
		if e.OutboxID == second {
			c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{waiting(e, time.Hour)}})
		}
	}
	needs("while the second waits", &second)
	c.note(outbox.DeliveryNote{Done: []payment.EventKey{{OutboxID: second, AttemptNo: 1}}})
	needs("when both are delivered", nil)
}
