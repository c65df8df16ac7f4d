package api

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// placeAt is the place of a row of this transaction.
func placeAt(xact uint64) outbox.Place {
	return outbox.Place{System: 1, Xact: xact, OutboxID: payment.ID{1}, AttemptNo: 1, AttemptID: payment.ID{byte(xact)}}
}

// hubOf is a hub of which no look is made by itself.
func hubOf() *hub {
	h := newHub(&API{config: Config{StreamBeat: time.Hour}})
	h.running = true
	return h
}

// hears is what a stream was told since, by transaction, and whether it is told more.
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

// TestHubTellsWhatIsNew: a stream that has read further than the hub by itself is told what comes
// behind that alone, and one that has not come so far reads on by itself.
func TestHubTellsWhatIsNew(t *testing.T) {
	t.Parallel()
	h := hubOf()
	first, further := h.join(outbox.Subscription{}, placeAt(3), 0), h.join(outbox.Subscription{}, placeAt(6), 0)
	_, of, from := h.gather()
	if from != placeAt(3) {
		t.Fatalf("looks from %+v", from)
	}
	h.deliver(heardAt(8, 4, 6, 7), of)
	behind := h.join(outbox.Subscription{}, placeAt(7), 0)
	h.gather()
	for what, c := range map[string]struct {
		ear  *subscriber
		told []uint64
		more bool
	}{"the first": {first, []uint64{4, 6, 7}, true}, "one that is further": {further, []uint64{7}, true},
		"one that is behind": {behind, nil, false}} {
		told, more := hears(c.ear)
		if len(told) != len(c.told) || len(told) > 0 && told[0] != c.told[0] || more != c.more || c.ear.why != nil {
			t.Errorf("%s: told %v, more %t, %v", what, told, more, c.ear.why)
		}
	}
}

// TestHubOverAFailover: those who are told, and one that has read in rows that may be forgotten and
// joins afterwards, read back by themselves.
func TestHubOverAFailover(t *testing.T) {
	t.Parallel()
	h := hubOf()
	told := h.join(outbox.Subscription{}, placeAt(9), h.now())
	_, of, _ := h.gather()
	read := h.now() // of one that reads by itself meanwhile
	went := heardAt(4, 3, 4)
	went.WentBack = true
	h.deliver(went, of)
	joins, back := h.join(outbox.Subscription{}, placeAt(9), read), h.join(outbox.Subscription{}, placeAt(4), h.now())
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
