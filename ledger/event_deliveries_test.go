package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/events"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// courierDesk delivers to one endpoint by hand.
type courierDesk struct {
	*doorDesk
	events *events.Events
	lease  outbox.EndpointLease
}

func newCourierDesk(t *testing.T, beginning bool) *courierDesk {
	d := newDoorDesk(t)
	c := &courierDesk{doorDesk: d}
	events, err := events.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Events), Cell: d.Schema})
	d.must(err)
	t.Cleanup(events.Close)
	c.events = events
	c.take(beginning)
	return c
}

func (c *courierDesk) take(beginning bool) {
	c.t.Helper()
	var since time.Time
	if beginning {
		since = time.Unix(0, 0)
	}
	lease, err := c.events.Take(c.t.Context(), "shop", "worker-1", time.Minute, since)
	c.must(err)
	c.lease = lease
}

// due gives what is due as "kind instruction type number".
func (c *courierDesk) due() (told []string, due outbox.DueEvents) {
	c.t.Helper()
	c.settled()
	due, err := c.events.Due(c.t.Context(), c.lease, []string{"p1"}, nil, 100, 100)
	c.must(err)
	for _, e := range due.Events {
		kind := "new"
		if e.Retry {
			kind = "again"
		} else if e.Behind {
			kind = "behind"
		}
		told = append(told, fmt.Sprintf("%s %s %s %d", kind, e.InstructionID,
			strings.TrimPrefix(string(e.Type), "payment."), e.AttemptNo))
	}
	return told, due
}

func (c *courierDesk) note(note outbox.DeliveryNote) {
	c.t.Helper()
	if note.Notes == 0 { // by hand: of the row as it is
		note.Notes = c.notes()
	}
	c.must(c.events.Note(c.t.Context(), c.lease, time.Minute, note))
}

func (c *courierDesk) isDue(what, want string) outbox.DueEvents {
	c.t.Helper()
	told, due := c.due()
	same(c.t, what, strings.Join(told, ", "), want)
	return due
}

func (c *courierDesk) notes() (n int64) {
	c.t.Helper()
	c.must(c.super.QueryRow(c.t.Context(), `SELECT notes FROM railhead.payment_event_endpoints`).Scan(&n))
	return n
}

func waiting(e outbox.DueEvent, wait time.Duration) outbox.WaitingEvent {
	return outbox.WaitingEvent{Event: e.Event, Tries: e.Tries + 1, Status: "HTTP_500", Wait: wait}
}

// TestDeliveriesKeepTheirPlace: what is behind the place of an endpoint is delivered or waits, and
// what waits comes first.
func TestDeliveriesKeepTheirPlace(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	who := c.token(nil, "p1")
	first, second := c.order(who, "p1", "first"), c.order(who, "p1", "second")
	c.order(c.token(nil, "p2"), "p2", "another's")
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	c.do(appended, [16]byte(second), 1, "FAILED", "", false)
	due := c.isDue("what is due at the beginning", "new first accepted 1, new second failed 1")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{waiting(due.Events[0], time.Hour)},
		Taken: true})
	due = c.isDue("while one waits", "")
	same(t, "how many wait", due.Waiting, 1)
	same(t, "the oldest of them", due.OldestWaiting.Equal(due.OldestWaiting) && !due.OldestWaiting.IsZero(), true)
	c.do(appended, [16]byte(first), 2, "DISPATCHED", "", false)
	due = c.isDue("what comes behind it", "behind first dispatched 2")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{{Event: due.Events[0].Event}}})
	c.isDue("while the first waits still", "")
	c.note(outbox.DeliveryNote{Again: true})
	due = c.isDue("when the endpoint answers again", "again first accepted 1, again first dispatched 2")
	same(t, "tries of the first", due.Events[0].Tries, 1)
	same(t, "tries of what waited behind", due.Events[1].Tries, 0)
	c.note(outbox.DeliveryNote{Done: []payment.EventKey{due.Events[0].Key()},
		Waiting: []outbox.WaitingEvent{{Event: due.Events[1].Event, Tries: 10, GivenUp: true}}})
	due = c.isDue("after one is given up", "")
	same(t, "how many are given up", due.GivenUp, 1)

	all, err := c.operator().Reader().Endpoints(t.Context())
	c.must(err)
	same(t, "endpoints", fmt.Sprintln(len(all), all[0].Endpoint, all[0].Waiting, all[0].GivenUp, all[0].Worker),
		"1 shop 1 1 worker-1\n")
	same(t, "it took one", all[0].DeliveredAt.IsZero(), false)
	same(t, "read until", all[0].ReadUntil.IsZero(), false)

	operator := c.operator()
	waited, err := operator.Redeliver(t.Context(), "shop", time.Time{}, "a proof")
	c.must(err)
	same(t, "redelivered", waited, 1)
	_, err = c.events.Due(t.Context(), c.lease, nil, nil, 1, 1)
	same(t, "what the worker had in hand is not its own any more", errors.Is(err, outbox.ErrNotHeld), true)
	err = c.events.Note(t.Context(), c.lease, time.Minute, outbox.DeliveryNote{Notes: c.notes(), Place: due.Place})
	same(t, "nor is it noted", errors.Is(err, outbox.ErrNotHeld), true)
	c.take(false)
	c.isDue("after the operator asked", "again first dispatched 2")
	_, err = operator.Redeliver(t.Context(), "shop", time.Now().Add(-time.Hour), "a proof")
	c.must(err)
	c.take(false)
	c.isDue("everything of an hour", "again first dispatched 2, behind first accepted 1, new second failed 1, behind "+
		"first dispatched 2")
	_, err = operator.Redeliver(t.Context(), "nowhere", time.Time{}, "a proof")
	same(t, "an endpoint that is not known", errors.Is(err, outbox.ErrNotFound), true)
}

// TestEndpointIsOneWorkers: a second worker gets it once the lease is over, and what the first one
// notes after that is refused.
func TestEndpointIsOneWorkers(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, false)
	other, err := c.events.Take(t.Context(), "shop", "worker-2", time.Minute, time.Time{})
	c.must(err)
	same(t, "who has it", other.HeldBy, "worker-1")
	c.do(`UPDATE railhead.payment_event_endpoints SET lease_until = now() - interval '1 second'`)
	other, err = c.events.Take(t.Context(), "shop", "worker-2", time.Minute, time.Time{})
	c.must(err)
	same(t, "who has it then", other.HeldBy, "")
	same(t, "its epoch is another", other.Epoch > c.lease.Epoch, true)
	err = c.events.Note(t.Context(), c.lease, time.Minute, outbox.DeliveryNote{Notes: c.notes(), Taken: true})
	same(t, "the first one notes", errors.Is(err, outbox.ErrNotHeld), true)
	same(t, "the first one pauses", errors.Is(c.events.Pause(t.Context(), c.lease, "gone"), outbox.ErrNotHeld), true)
	c.must(c.events.Pause(t.Context(), other, "it answered 410 Gone"))
	again, err := c.events.Take(t.Context(), "shop", "worker-2", time.Minute, time.Time{})
	c.must(err)
	same(t, "why it is paused", again.PauseReason, "it answered 410 Gone")
	same(t, "the act is logged", c.text(`SELECT act || ' ' || subject || ' ' || reason FROM railhead.payment_operator_log
		ORDER BY acted_at DESC LIMIT 1`), "PAUSE_ENDPOINT shop it answered 410 Gone")
	_, err = c.operator().Redeliver(t.Context(), "shop", time.Time{}, "they are back")
	c.must(err)
	again, err = c.events.Take(t.Context(), "shop", "worker-2", time.Minute, time.Time{})
	c.must(err)
	same(t, "after the operator's word", again.PausedAt.IsZero(), true)
}

// TestNewEndpointBeginsNow: it is told of nothing that was told before it, and of what was held then.
func TestNewEndpointBeginsNow(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	first, second := d.order(who, "p1", "first"), d.order(who, "p1", "second")
	d.do(appended, [16]byte(first), 1, "DISPATCHED", "", false)
	d.settled()
	held, err := d.Conn(t, "").Begin(t.Context())
	d.must(err)
	defer held.Rollback(t.Context())
	_, err = held.Exec(t.Context(), appended, [16]byte(second), 1, "DISPATCHED", "", false)
	d.must(err)
	events, err := events.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Events), Cell: d.Schema})
	d.must(err)
	defer events.Close()
	c := &courierDesk{doorDesk: d, events: events}
	c.take(false)
	d.must(held.Commit(t.Context()))
	c.isDue("what a new endpoint is told", "new second dispatched 1")
}

// TestDeliveryIsForgotten: what waits and is not in the archive any more is given up on, and a
// place that a restore has forgotten leads back.
func TestDeliveryIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	who := c.token(nil, "p1")
	first, second := c.order(who, "p1", "first"), c.order(who, "p1", "second")
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	c.do(appended, [16]byte(second), 1, "ACCEPTED", "", false)
	due := c.isDue("at the beginning", "new first accepted 1, new second accepted 1")
	lost := payment.Event{AttemptID: payment.ID{1}, OutboxID: second, AttemptNo: 2, Type: payment.EventDispatched,
		CreatedAt: time.Now()}
	place := due.Place
	place.AttemptID[15] ^= 1 // of a row that is not there
	c.note(outbox.DeliveryNote{Place: place, Waiting: []outbox.WaitingEvent{{Event: lost}}})
	due = c.isDue("after rows were forgotten", "new first accepted 1, behind second accepted 1")
	same(t, "it went back", due.WentBack, true)
	same(t, "what waits is forgotten", fmt.Sprint(due.Forgotten), fmt.Sprint([]payment.EventKey{lost.Key()}))
	c.note(outbox.DeliveryNote{Place: due.Place, Done: due.Forgotten})
	c.isDue("then", "")
}

// TestDeliveriesAreBounded: while a thousand events wait, no more are read.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	first := c.order(c.token(nil, "p1"), "p1", "first")
	c.do(appended, [16]byte(first), 1, "DISPATCHED", "", false)
	c.do(`INSERT INTO railhead.payment_event_retries (endpoint_id, outbox_id, attempt_no, attempt_id, event_type, created_at, tries, next_at, last_status)
		SELECT 'shop', railhead.uuidv7(), 1, railhead.uuidv7(), 'payment.dispatched', now(), 1, now() + interval '1 hour', 'HTTP_500' FROM generate_series(1, 1000)`)
	due := c.isDue("with a thousand", "")
	same(t, "and nothing more is to be read", due.More, false)
	c.do(`DELETE FROM railhead.payment_event_retries WHERE ctid = (SELECT min(ctid) FROM railhead.payment_event_retries)`)
	c.isDue("with one less", "new first dispatched 1")
}

// TestRedeliverySkipsNothing: an operator who asks for what happened since a moment that is behind
// the place gets it; one who asks for a moment ahead of it moves nothing.
func TestRedeliverySkipsNothing(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	first := c.order(c.token(nil, "p1"), "p1", "first")
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	c.isDue("at the beginning", "new first accepted 1")
	_, err := c.operator().Redeliver(t.Context(), "shop", time.Now().Add(time.Hour), "a slip")
	c.must(err)
	c.take(false)
	c.isDue("after a moment that is to come", "new first accepted 1")
}

// TestWaitingIsOfTheFilter: what waits of a participant or a type that an endpoint is not told of any more is not told.
func TestWaitingIsOfTheFilter(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	first := c.order(c.token(nil, "p1"), "p1", "first")
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	due := c.isDue("at the beginning", "new first accepted 1")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{{Event: due.Events[0].Event}}})
	for what, ask := range map[string]func() (outbox.DueEvents, error){
		"participants": func() (outbox.DueEvents, error) {
			return c.events.Due(t.Context(), c.lease, []string{"p2"}, nil, 10, 10)
		},
		"types": func() (outbox.DueEvents, error) {
			return c.events.Due(t.Context(), c.lease, nil, []payment.EventType{payment.EventFailed}, 10, 10)
		},
	} {
		due, err := ask()
		c.must(err)
		same(t, what, fmt.Sprint(len(due.Events), len(due.Forgotten)), "0 1")
	}
	c.isDue("as it was", "again first accepted 1")
	// What waits is changed by a try, and not by being told again.
	event := payment.Event{OutboxID: first, AttemptNo: 1, AttemptID: due.Events[0].AttemptID,
		Type: payment.EventAccepted, CreatedAt: time.Now()}
	c.note(outbox.DeliveryNote{Waiting: []outbox.WaitingEvent{{Event: event, Tries: 10, GivenUp: true,
		Status: "HTTP_400"}}})
	c.note(outbox.DeliveryNote{Waiting: []outbox.WaitingEvent{{Event: event}}})
	c.note(outbox.DeliveryNote{Again: true})
	due = c.isDue("once it is given up", "")
	same(t, "given up", due.GivenUp, 1)
	c.do(appended, [16]byte(first), 2, "DISPATCHED", "", false)
	due = c.isDue("what follows", "behind first dispatched 2")
	c.note(outbox.DeliveryNote{Place: due.Place, Waiting: []outbox.WaitingEvent{{Event: due.Events[0].Event}}})
	discarded, err := c.operator().Discard(t.Context(), "shop", "they never take it")
	c.must(err)
	same(t, "discarded", discarded, 1)
	c.take(false)
	c.isDue("then", "again first dispatched 2")
}

// TestNoteOverAFailover: a note that was made of what a row said before a failover brought an
// earlier one back is refused.
func TestNoteOverAFailover(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	first, second := c.order(c.token(nil, "p1"), "p1", "first"), c.order(c.token(nil, "p1"), "p1", "second")
	c.do(appended, [16]byte(first), 1, "ACCEPTED", "", false)
	before := c.text(`SELECT row_to_json(e)::text FROM railhead.payment_event_endpoints e`)
	due := c.isDue("at the beginning", "new first accepted 1")
	c.note(outbox.DeliveryNote{Notes: due.Notes, Place: due.Place,
		Waiting: []outbox.WaitingEvent{waiting(due.Events[0], time.Hour)}})
	c.do(appended, [16]byte(second), 1, "ACCEPTED", "", false)
	due = c.isDue("then", "new second accepted 1")
	c.do(`DELETE FROM railhead.payment_event_retries`)
	c.do(`DELETE FROM railhead.payment_event_endpoints`)
	c.do(`INSERT INTO railhead.payment_event_endpoints SELECT *
		FROM json_populate_record(NULL::railhead.payment_event_endpoints, $1::json)`, before)
	err := c.events.Note(t.Context(), c.lease, time.Minute,
		outbox.DeliveryNote{Notes: due.Notes, Place: due.Place, Taken: true})
	same(t, "it is refused", errors.Is(err, outbox.ErrNotHeld), true)
	c.isDue("after the failover", "new first accepted 1, new second accepted 1")
}
