package webhook

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// note stores the results of a round, if there are any.
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
		c.log.WarnContext(ctx,
			"a waiting event will not be delivered: it has left the archive, or is no longer for this endpoint",
			"outbox_id", each.OutboxID, "attempt_no", each.AttemptNo)
	}
	if due.WentBack && !note.Place.IsZero() {
		c.log.WarnContext(ctx, "a failover or a restore has forgotten the last deliveries to the endpoint: "+
			"events of the hour before are delivered again, with the same ids")
	}
	c.refused(ctx, r, due)
	for _, each := range note.Waiting {
		if each.GivenUp {
			c.log.WarnContext(ctx, "an event is given up: it is tried again only if an operator asks",
				"event_id", each.Name(), "outbox_id", each.OutboxID, "status", each.Status)
		}
	}
	if r.again {
		c.log.InfoContext(ctx, "the endpoint accepts events again")
	} else if r.tried && !r.probe && c.down() {
		c.log.WarnContext(ctx, "the endpoint accepts no events: one at a time is tried", "failures", c.failures)
	}
	return true, nil
}

// Lines of the log that name events which are not accepted: so many within refusedEvery.
const (
	refusedMost  = 10
	refusedEvery = time.Minute
)

// refused logs the first try of each event that the endpoint did not accept, a few of them at a time: until it is given
// up after days nothing else names it.
func (c *courier) refused(ctx context.Context, r round, due outbox.DueEvents) {
	for n, each := range due.Events {
		if each.Retry || r.fates[n].kind != failed {
			continue
		}
		if time.Since(c.refusedAt) >= refusedEvery {
			c.refusedAt, c.refusals = time.Now(), 0
		}
		if c.refusals++; c.refusals > refusedMost {
			continue
		}
		c.log.WarnContext(ctx,
			"an event is not accepted: it is tried again, and later ones of its instruction wait behind it",
			"event_id", each.Name(), "outbox_id", each.OutboxID, "status", r.fates[n].status)
	}
}

// noteOf returns what to store of a round. Each event before the place is delivered or waits, and
// each event after it is in the feed: none is missed, and none overtakes another of its
// instruction.
func (c *courier) noteOf(r round, due outbox.DueEvents) outbox.DeliveryNote {
	note := outbox.DeliveryNote{Notes: due.Notes, Done: due.Forgotten, Taken: r.taken, Again: r.again}
	var fresh []int // indexes of events of the feed
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
		note.Place = outbox.Place{} // nothing has changed
	}
	for _, n := range fresh[:cut] {
		// An event that is in the feed again, and waits, has its fate from the retry.
		if r.fates[n].kind != delivered && !again[due.Events[n].Key()] {
			note.Waiting = append(note.Waiting, waitingOf(due.Events[n], r.fates[n]))
		}
	}
	return note
}

// cutOf returns how many of the events of the feed count as handled. Events that were not tried
// stay in the feed if none after them was tried: events that an endpoint does not accept while it
// is down do not pile up. A place of the feed is never divided.
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

// waitingOf returns an event that waits from now on, with the time until its next try.
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
