package api

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// placeAt is the place of a row of this transaction.
func placeAt(xact uint64) outbox.Place {
	return outbox.Place{System: 1, Xact: xact, OutboxID: payment.ID{1}, AttemptNo: 1, AttemptID: payment.ID{byte(xact)}}
}

// hubOf returns a hub that makes no reads by itself.
func hubOf() *hub {
	h := newHub(&API{config: Config{StreamBeat: time.Hour}}, "")
	h.running = true
	return h
}

// hears returns the messages of a subscriber, by transaction, and whether more may come.
func hears(e *subscriber) (told []uint64, more bool) {
	for {
		select {
		case one, open := <-e.queue:
			if !open {
				return told, false
			}
			told = append(told, one.at.Xact)
		default:
			return told, true
		}
	}
}

func heardAt(end uint64, xacts ...uint64) outbox.Heard {
	heard := outbox.Heard{Place: placeAt(end)}
	for _, xact := range xacts {
		heard.Events = append(heard.Events, outbox.HeardEvent{For: []int{0}, At: placeAt(xact), Last: true})
	}
	return heard
}

// TestHubTellsWhatIsNew tests that a stream that has read further than the hub joins it at its row, and gets
// only later events; that one whose row the hub passes, and one that is behind, read by themselves.
func TestHubTellsWhatIsNew(t *testing.T) {
	t.Parallel()
	h := hubOf()
	join := func(at uint64) *subscriber { return h.join(outbox.Subscription{}, placeAt(at), 0) }
	first, further, passed := join(3), join(6), join(5)
	_, of, from := h.gather()
	if from != placeAt(3) {
		t.Fatalf("looks from %+v", from)
	}
	h.deliver(heardAt(6, 4, 6), of)
	h.turnAway(false)
	behind, meanwhile := join(5), join(9)
	_, of, _ = h.gather()
	h.deliver(heardAt(8, 7), of)
	h.turnAway(true) // more: the read of the one that joined meanwhile is not over
	for what, c := range map[string]struct {
		ear  *subscriber
		told []uint64
		more bool
	}{"the first": {first, []uint64{4, 6, 7}, true}, "one that is further": {further, []uint64{7}, true},
		"one that is passed": {passed, nil, false}, "one that is behind": {behind, nil, false},
		"one that joined meanwhile": {meanwhile, nil, true}} {
		told, more := hears(c.ear)
		if !slices.Equal(told, c.told) || more != c.more || c.ear.why != nil {
			t.Errorf("%s: told %v, more %t, %v", what, told, more, c.ear.why)
		}
	}
}

// TestHubBehindAFailover tests that a stream which has read rows that a failover forgets, while the hub's row is
// still there, reads by itself: no row that has their numbers is withheld from it as known.
func TestHubBehindAFailover(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]func(h *hub, at outbox.Place) *subscriber{
		"before the read": func(h *hub, at outbox.Place) *subscriber {
			e := h.join(outbox.Subscription{}, at, 0)
			_, of, _ := h.gather()
			h.deliver(heardAt(5, 4, 5), of)
			return e
		},
		"during the read": func(h *hub, at outbox.Place) *subscriber {
			_, of, _ := h.gather()
			e := h.join(outbox.Subscription{}, at, 0)
			h.deliver(heardAt(5, 4, 5), of)
			h.turnAway(false)
			_, of, _ = h.gather()
			h.deliver(heardAt(5), of)
			return e
		},
		"at the same number": func(h *hub, at outbox.Place) *subscriber {
			at.Xact = 3 // the row of the hub has another id
			e := h.join(outbox.Subscription{}, at, 0)
			_, of, _ := h.gather()
			h.deliver(heardAt(5, 4, 5), of)
			return e
		},
	} {
		h := hubOf()
		h.join(outbox.Subscription{}, placeAt(3), 0)
		h.gather()
		e := joins(h, placeAt(6))
		h.turnAway(false)
		if h.subscribers[e] {
			t.Errorf("%s: it is told by the hub", name)
		}
		if told, more := hears(e); len(told) > 0 || more {
			t.Errorf("%s: told %v, and not sent back: rows 4 and 5 are withheld", name, told)
		}
	}
}

// TestHubOverAFailover tests that subscribers, and a stream that has read rows that may be
// forgotten and joins afterwards, go back by themselves.
func TestHubOverAFailover(t *testing.T) {
	t.Parallel()
	h := hubOf()
	now := func() int { history, _ := h.now(); return history }
	told := h.join(outbox.Subscription{}, placeAt(9), now())
	_, of, _ := h.gather()
	read := now() // of one that reads by itself meanwhile
	went := heardAt(4, 3, 4)
	went.WentBack = true
	h.deliver(went, of)
	joins, back := h.join(outbox.Subscription{}, placeAt(9), read), h.join(outbox.Subscription{}, placeAt(4), now())
	h.gather()
	for what, c := range map[string]struct {
		ear  *subscriber
		more bool
	}{"was told": {told, false}, "has read before": {joins, false}, "has read back": {back, true}} {
		if events, more := hears(c.ear); len(events) > 0 || more != c.more || c.ear.why != nil {
			t.Errorf("%s: told %v, more %t, %v", what, events, more, c.ear.why)
		}
	}
}
