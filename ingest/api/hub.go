package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// hub tells all streams that have come to the end of the feed what follows, by one look for
// all of them. In each look the database weighs each of their tokens again.
type hub struct {
	api  *API
	solo chan struct{} // looks of streams that read by themselves, at once

	mu      sync.Mutex
	streams int
	place   outbox.Place
	ears    map[*ear]bool // in the looks
	waiting []*ear        // to be taken into the next one
	running bool
	history int // goes up where the database has forgotten what was told
}

// ear is a stream that is told.
type ear struct {
	who  outbox.Subscription
	name string // the same for those who hear the same
	at   outbox.Place
	tell chan told // closed: it is told no more, for the reason why, or has to read on by itself
	why  error
	gone bool
	from int       // the history that it has read in
	beat time.Time // when it was told of progress
}

// told is an event on its way to a stream. All who hear it share its text.
type told struct {
	text string
	at   outbox.Place
	last bool // at is to resume from
}

const (
	earsMax = 128 // events that a stream may be behind
	soloMax = 4
	// streamsMost is how many readers a look at the database takes.
	streamsMost = 10_000
	hubEvery    = 250 * time.Millisecond // between two looks, and half a millisecond more for each subscription
	hubSlow     = time.Second            // at most
)

// errSlow ends a stream whose caller does not keep up. The id of the last event that it read is
// where it resumes.
var errSlow = errors.New("the caller of the stream does not keep up")

func newHub(a *API) *hub {
	return &hub{api: a, solo: make(chan struct{}, soloMax), ears: make(map[*ear]bool)}
}

// enter counts a stream, unless there are as many as may be.
// ofToken is how many of them may be one token's.
func (h *hub) enter(token *knownToken, ofToken int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= h.api.config.StreamsMax || !token.opens(ofToken) {
		return false
	}
	h.streams++
	h.api.watch.Streaming(1)
	return true
}

func (h *hub) leave(token *knownToken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token.closes()
	h.streams--
	h.api.watch.Streaming(-1)
}

// now is the history that a look which begins now reads in, or an earlier one.
func (h *hub) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.history
}

// alone looks for one reader.
func (h *hub) alone(ctx context.Context, l listening, at outbox.Place, most int) (outbox.Heard, error) {
	select {
	case h.solo <- struct{}{}:
		defer func() { <-h.solo }()
	case <-ctx.Done():
		return outbox.Heard{}, ctx.Err()
	}
	return h.api.look(ctx, l, at, most)
}

// join has a stream that has come to a place told what follows.
// History is that of before it read the last of it.
func (h *hub) join(who outbox.Subscription, at outbox.Place, history int) *ear {
	e := &ear{who: who, name: nameOf(who), at: at, tell: make(chan told, earsMax), from: history, beat: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, e)
	if !h.running {
		h.running = true
		go h.run()
	}
	return e
}

// part ends it.
func (h *hub) part(e *ear) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.gone = true
	delete(h.ears, e)
}

// end tells a stream no more. The mutex is held.
func (h *hub) end(e *ear, why error) {
	if !e.gone {
		e.gone, e.why = true, why
		close(e.tell)
	}
	delete(h.ears, e)
}

// nameOf is the same for subscriptions that hear the same.
func nameOf(who outbox.Subscription) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%x %x %t %q %q", who.Token, who.Certificate, who.Participants == nil, who.Participants, who.Types)
	return text.String()
}

// run looks while there is a stream.
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
			most = max(most/2, fewPlaces/4) // it may be too much for the time that a call has
			time.Sleep(hubSlow)
			continue
		}
		most = min(2*most, eventsPlacesMax)
		h.deliver(heard, of)
		if wait := min(hubEvery+time.Duration(len(all))*time.Millisecond/2, hubSlow); !heard.More {
			time.Sleep(wait - time.Since(begun))
		}
	}
}

// gather takes those in who wait, and gives the subscriptions of the next look, each once, and
// the streams of each. Without any the hub rests.
func (h *hub) gather() (all []outbox.Subscription, of [][]*ear, from outbox.Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.waiting {
		switch {
		case e.gone:
		case e.from != h.history:
			h.end(e, nil) // the rows that it has read may be forgotten
		case len(h.ears) == 0, !e.at.Before(h.place):
			if len(h.ears) == 0 {
				h.place = e.at
			}
			h.ears[e] = true
		default:
			h.end(e, nil) // the others are further
		}
	}
	h.waiting = nil
	index := make(map[string]int, len(h.ears))
	for e := range h.ears {
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

// deliver tells what was heard. One that does not take it up is told no more: it reads on by
// itself, at its own pace, and holds up no other.
func (h *hub) deliver(heard outbox.Heard, of [][]*ear) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, why := range heard.Refused {
		for _, e := range of[n] {
			h.end(e, why)
		}
	}
	h.place = heard.Place
	if heard.WentBack {
		// Each goes back by itself, as far as its own rows are forgotten.
		h.history++
		for _, each := range of {
			for _, e := range each {
				h.end(e, nil)
			}
		}
		return
	}
	for _, each := range heard.Events {
		one := told{text: frame(each), at: each.At, last: each.Last}
		for _, n := range each.For {
			for _, e := range of[n] {
				if e.at.Before(each.At) { // else it has read that by itself
					h.tell(e, one)
				}
			}
		}
	}
	now, one := time.Now(), told{text: progress(h.place), at: h.place, last: true}
	for _, each := range of {
		for _, e := range each {
			if e.at.Before(h.place) && now.Sub(e.beat) >= h.api.config.StreamBeat {
				e.beat = now
				h.tell(e, one)
			}
		}
	}
}

// tell puts an event on its way. The mutex is held.
func (h *hub) tell(e *ear, one told) {
	if e.gone {
		return
	}
	select {
	case e.tell <- one:
	default:
		h.end(e, nil)
	}
}
