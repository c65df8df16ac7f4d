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

// TestHubTellsWhatIsNew tests that a stream that has read further than the hub gets only later
// events, and that one that is behind reads by itself.
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

// TestHubOverAFailover tests that subscribers, and a stream that has read rows that may be
// forgotten and joins afterwards, go back by themselves.
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
