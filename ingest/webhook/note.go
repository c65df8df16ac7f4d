package webhook

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// note stores what a round has come to, where there is anything.
func (c *courier) note(ctx context.Context, r round, due outbox.DueEvents) (noted bool, err error) {
	note := c.noteOf(r, due)
	if note.IsEmpty() {
		return false, nil
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.StoreTimeout)
	defer cancel()
	began := time.Now()
	if err := c.store.Note(storing, c.lease, c.config.Lease, note); err != nil {
		return false, err
	}
	c.taken = began
	if !note.Place.IsZero() {
		c.place = note.Place
	}
	for _, each := range due.Forgotten {
		c.log.WarnContext(ctx, "an event that waited is delivered no more: it is not in the archive any more, or not for this endpoint", "outbox_id", each.OutboxID, "attempt_no", each.AttemptNo)
	}
	if due.WentBack && !note.Place.IsZero() {
		c.log.WarnContext(ctx, "a failover or a restore has forgotten what the endpoint was told last: events of the hour before are delivered again, with the ids that they had")
	}
	for _, each := range note.Waiting {
		if each.GivenUp {
			c.log.WarnContext(ctx, "an event is not tried any more by itself", "event_id", each.Name(), "outbox_id", each.OutboxID, "status", each.Status)
		}
	}
	if r.again {
		c.log.InfoContext(ctx, "the endpoint takes events again")
	} else if r.tried && !r.probe && c.down() {
		c.log.WarnContext(ctx, "the endpoint takes no events: it is tried with one at a time", "failures", c.failures)
	}
	return true, nil
}

// noteOf says what of a round is to be kept. Each event before the place is delivered or
// waits, each behind it is in the feed: nothing is missed, and of an instruction nothing
// overtakes.
func (c *courier) noteOf(r round, due outbox.DueEvents) outbox.DeliveryNote {
	note := outbox.DeliveryNote{Notes: due.Notes, Done: due.Forgotten, Taken: r.taken, Again: r.again}
	var fresh []int // of the feed
	again := make(map[payment.EventKey]bool)
	for n, each := range due.Events {
		again[each.Key()] = again[each.Key()] || each.Retry
		switch {
		case !each.Retry:
			fresh = append(fresh, n)
		case r.fates[n].kind == delivered:
			note.Done = append(note.Done, each.Key())
		case r.fates[n].kind == failed:
			note.Waiting = append(note.Waiting, waitingOf(each, r.fates[n]))
		}
	}
	cut := cutOf(r, due.Events, fresh)
	switch {
	case cut == len(fresh):
		note.Place = due.Place
	case cut > 0:
		note.Place = due.Events[fresh[cut-1]].At
	}
	if len(fresh) == 0 && note.Place == c.place {
		note.Place = outbox.Place{} // nothing has happened
	}
	for _, n := range fresh[:cut] {
		// What is in the feed again, and waits, has its fate.
		if r.fates[n].kind != delivered && !again[due.Events[n].Key()] {
			note.Waiting = append(note.Waiting, waitingOf(due.Events[n], r.fates[n]))
		}
	}
	return note
}

// cutOf is how many of the events of the feed are behind the endpoint from now on. Those
// that were not tried stay in the feed, where none after them was: what an endpoint does not
// take while it is down does not pile up. A place of the feed is never cut through.
func cutOf(r round, events []outbox.DueEvent, fresh []int) int {
	settled := 0 // up to the first that was not tried
	for settled < len(fresh) && r.fates[fresh[settled]].kind != untried {
		settled++
	}
	for n := settled; n < len(fresh); n++ {
		if kind := r.fates[fresh[n]].kind; kind == delivered || kind == failed {
			settled = n + 1
		}
	}
	for settled > 0 && settled < len(fresh) && !events[fresh[settled-1]].Last {
		settled++
	}
	return settled
}

// waitingOf is an event that waits from now on, and until when.
func waitingOf(e outbox.DueEvent, f fate) outbox.WaitingEvent {
	w := outbox.WaitingEvent{Event: e.Event, Tries: e.Tries, Status: f.status}
	if f.kind != failed {
		return w
	}
	if w.Tries++; f.excused {
		w.Tries = max(e.Tries, 1)
	}
	if w.Tries > len(ladder) {
		w.GivenUp = true
		return w
	}
	w.Wait = max(jittered(ladder[w.Tries-1]), f.wait)
	return w
}
