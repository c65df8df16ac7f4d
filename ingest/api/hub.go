package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// hub sends new events to all streams that are at the end of the feed, by one read for all of them.
// In each read the database checks each of their tokens again.
type hub struct {
	api  *API
	cell string        // the setting of the cell whose feed it reads; empty: there is one
	solo chan struct{} // concurrent reads of streams that read by themselves

	mu          sync.Mutex
	place       outbox.Place
	subscribers map[*subscriber]bool // part of each read
	waiting     []*subscriber        // to join a read that begins at their place
	running     bool
	history     int // incremented if the database has forgotten events that were sent
}

// subscriber is a stream that gets events from the hub.
type subscriber struct {
	who   outbox.Subscription
	name  string // equal for subscribers with equal subscriptions
	at    outbox.Place
	queue chan message // closed: no more events come, for the reason why, or because it has to read by itself
	why   error
	gone  bool
	from  int       // the history in which it has read
	ahead bool      // has waited for a whole read of the hub, which was behind it
	beat  time.Time // time of its last progress message
}

// message is an event for a stream. All its receivers share the text.
type message struct {
	text string
	at   outbox.Place
	last bool // at is a place to resume from
}

const (
	queueMax = 128 // messages that a stream may be behind
	soloMax  = 4
	// streamsMost bounds the readers of one read of the database.
	streamsMost = 10_000
	hubEvery    = 250 * time.Millisecond // between two reads, plus half a millisecond for each subscription
	hubSlow     = time.Second            // at most
)

// errSlow ends a stream whose caller does not keep up. The caller resumes from the id of the last
// event that it read.
var errSlow = errors.New("the caller of the stream does not keep up")

func newHub(a *API, cell string) *hub {
	return &hub{api: a, cell: cell, solo: make(chan struct{}, soloMax), subscribers: make(map[*subscriber]bool)}
}

// streams counts those of all cells.
type streams struct {
	mu   sync.Mutex
	open int
}

// enter counts a stream, unless the bound is reached. At most ofToken streams may be one token's.
func (a *API) enter(token *knownToken, ofToken int) bool {
	a.streams.mu.Lock()
	defer a.streams.mu.Unlock()
	if a.streams.open >= a.config.StreamsMax || !token.opens(ofToken) {
		return false
	}
	a.streams.open++
	a.watch.Streaming(1)
	return true
}

func (a *API) leave(token *knownToken) {
	a.streams.mu.Lock()
	defer a.streams.mu.Unlock()
	token.closes()
	a.streams.open--
	a.watch.Streaming(-1)
}

// now returns the history for a read that begins now, and the hub's place; zero: no stream is there.
func (h *hub) now() (history int, place outbox.Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) > 0 {
		place = h.place
	}
	return h.history, place
}

// readOne reads for one reader.
func (h *hub) readOne(ctx context.Context, l listening, at outbox.Place, most int) (outbox.Heard, error) {
	heard, _, err := h.readUpTo(ctx, l, at, most, false)
	return heard, err
}

// readUpTo reads for one reader, if wanted up to the hub's place and no further: a stream that has read
// further can't join it. Without a failover the place is one of the feed that is read; after one the
// next read that begins there goes back. It also returns the history before the read.
func (h *hub) readUpTo(
	ctx context.Context, l listening, at outbox.Place, most int, wanted bool,
) (heard outbox.Heard, history int, err error) {
	select {
	case h.solo <- struct{}{}:
		defer func() { <-h.solo }()
	case <-ctx.Done():
		return outbox.Heard{}, 0, ctx.Err()
	}
	history, place := h.now() // not before the wait: the hub has moved on since
	heard, err = h.api.readEvents(ctx, l, at, most)
	if err != nil || !wanted || heard.WentBack || !at.Before(place) || !place.Before(heard.Place) {
		return heard, history, err
	}
	further := slices.IndexFunc(heard.Events, func(e outbox.HeardEvent) bool { return place.Before(e.At) })
	if further >= 0 {
		heard.Events = heard.Events[:further]
	}
	heard.Place, heard.More = place, false
	return heard, history, nil
}

// join subscribes a stream that has read up to a place. The history is the one before its last
// read.
func (h *hub) join(who outbox.Subscription, at outbox.Place, history int) *subscriber {
	e := &subscriber{who: who, name: nameOf(who), at: at, queue: make(chan message, queueMax), from: history,
		beat: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, e)
	if !h.running {
		h.running = true
		go h.run()
	}
	return e
}

// remove ends a subscription.
func (h *hub) remove(e *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.gone = true
	delete(h.subscribers, e)
}

// end closes the queue of a subscriber. The caller holds the mutex.
func (h *hub) end(e *subscriber, why error) {
	if !e.gone {
		e.gone, e.why = true, why
		close(e.queue)
	}
	delete(h.subscribers, e)
}

// nameOf returns the same name for equal subscriptions.
func nameOf(who outbox.Subscription) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%x %x %t %q %q", who.Token, who.Certificate, who.Participants == nil, who.Participants, who.Types)
	return text.String()
}

// run reads while there are subscribers.
func (h *hub) run() {
	most := eventsPlacesMax
	for {
		all, of, from := h.gather()
		if len(all) == 0 {
			return
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), h.api.config.StoreTimeout)
		heard, err := h.api.store.Events(ctx, all, from, time.Time{}, most)
		cancel()
		if err != nil {
			h.api.log.Warn("events can't be read", "streams", len(of), "error", err)
			most = max(most/2, fewPlaces/4) // it may be too much for the time limit of a call
			h.turnAway(false)
			time.Sleep(hubSlow)
			continue
		}
		most = min(2*most, eventsPlacesMax)
		h.deliver(heard, of)
		h.turnAway(heard.More)
		if wait := min(hubEvery+time.Duration(len(all))*time.Millisecond/2, hubSlow); !heard.More {
			time.Sleep(wait - time.Since(begun))
		}
	}
}

// gather admits the waiting subscribers that are at the hub's place, and returns the subscriptions of
// the next read, each once, with the subscribers of each. Without subscribers the hub stops.
//
// It is the same row for all, which the database looks for in each read. A failover that has forgotten a
// row further on, up to which one has read, has not forgotten the hub's: no read would go back, and the
// rows in its place would be withheld from that one as known.
func (h *hub) gather() (all []outbox.Subscription, of [][]*subscriber, from outbox.Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := h.waiting[:0]
	for _, e := range h.waiting {
		switch {
		case e.gone:
		case e.from != h.history:
			h.end(e, nil) // the rows that it has read may be forgotten
		case len(h.subscribers) == 0, e.at == h.place:
			h.place = e.at
			h.subscribers[e] = true
		default:
			e.ahead = true
			waiting = append(waiting, e)
		}
	}
	clear(h.waiting[len(waiting):])
	h.waiting = waiting
	index := make(map[string]int, len(h.subscribers))
	for e := range h.subscribers {
		n, known := index[e.name]
		if !known {
			n = len(all)
			index[e.name] = n
			all, of = append(all, e.who), append(of, nil)
		}
		of[n] = append(of[n], e)
	}
	h.running = len(all) > 0
	return all, of, h.place
}

// turnAway ends those of the waiting that the next read can't begin with: they read by themselves up to
// the hub's place, and have the time until that read for it. One that is ahead waits for one read, which
// comes to its row unless a failover has forgotten that; more: it has not come to the end of the feed.
func (h *hub) turnAway(more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.waiting {
		if e.at != h.place && (e.at.Before(h.place) || e.ahead && !more) {
			h.end(e, nil)
		}
	}
}

// deliver sends what was read. A subscriber whose queue is full is removed: its stream reads by
// itself, at its own pace, and delays no other.
func (h *hub) deliver(heard outbox.Heard, of [][]*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, why := range heard.Refused {
		for _, e := range of[n] {
			h.end(e, why)
		}
	}
	h.place = heard.Place
	if heard.WentBack {
		// Each stream goes back by itself, at its own pace.
		h.history++
		for _, each := range of {
			for _, e := range each {
				h.end(e, nil)
			}
		}
		return
	}
	for _, each := range heard.Events {
		one := message{text: h.frame(each), at: each.At, last: each.Last}
		for _, n := range each.For {
			for _, e := range of[n] {
				h.send(e, one)
			}
		}
	}
	now, one := time.Now(), message{text: h.progress(h.place), at: h.place, last: true}
	for _, each := range of {
		for _, e := range each {
			if e.at.Before(h.place) && now.Sub(e.beat) >= h.api.config.StreamBeat {
				e.beat = now
				h.send(e, one)
			}
		}
	}
}

// send queues a message. The caller holds the mutex.
func (h *hub) send(e *subscriber, one message) {
	if e.gone {
		return
	}
	select {
	case e.queue <- one:
	default:
		h.end(e, nil)
	}
}
