package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/railhead-pay/railhead/ingest/event"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// stream answers with server-sent events (WHATWG HTML, section 9.2) until the caller disconnects,
// is too slow, or may not read more.
func (a *API) stream(w http.ResponseWriter, r *http.Request, l listening) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(a.draining, stop)()
	if !l.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.until)
		defer cancel()
	}
	// A stream has a limited life, so that one whose caller has vanished ends; to reconnect costs
	// little.
	ctx, cancel := context.WithTimeout(ctx, a.config.StreamLife)
	defer cancel()
	known, err := a.tokens.find(ctx, l.who.Token)
	if err != nil {
		a.refused(ctx, opStream, err).write(w)
		return
	}
	share := 2 // the share of all streams that one token may use
	if !l.until.IsZero() {
		share = 4 // for browsers and partners
	}
	if a.draining.Err() != nil || !a.enter(known, max(1, a.config.StreamsMax/share)) {
		problemUnavailable("").write(w)
		return
	}
	defer a.leave(known)
	out := &eventWriter{control: http.NewResponseController(w), w: w, patience: a.config.IdleMax}
	s := &streaming{api: a, hub: a.hubs[l.who.Cell], out: out, l: l, at: l.from}
	if err := s.begin(ctx); err != nil {
		a.refused(ctx, opStream, err).write(w)
		return
	}
	// The read deadline of the request would end the stream as if the caller had disconnected.
	out.control.SetReadDeadline(time.Time{}) //nolint:errcheck // without deadlines there is none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of proxies
	if out.write("retry: 2000\n"+s.hub.progress(s.at)) != nil {
		return
	}
	err = s.run(ctx)
	var problem *Problem
	switch {
	case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
		a.watch.StreamCut()
		return
	case err == nil || out.broken:
		return
	case errors.Is(err, outbox.ErrToken), errors.Is(err, outbox.ErrForbidden):
		problem = problemOf(err)
	}
	if problem != nil {
		text, _ := json.Marshal(problem)                        // it has no value that can't be encoded
		out.write("event: end\ndata: " + string(text) + "\n\n") //nolint:errcheck // the stream ends
	}
}

// eventWriter writes to a caller, each part within the patience.
type eventWriter struct {
	control  *http.ResponseController
	w        http.ResponseWriter
	patience time.Duration
	broken   bool
	wrote    time.Time
}

func (o *eventWriter) write(text string) error {
	o.control.SetWriteDeadline(time.Now().Add(o.patience)) //nolint:errcheck // without deadlines the server has its own
	_, err := o.w.Write([]byte(text))
	if err == nil {
		err = o.control.Flush()
	}
	o.broken, o.wrote = o.broken || err != nil, time.Now()
	return err
}

// frame returns an event in the form of a stream. Its id is the place to resume from. An event that
// is followed by others of its place has no id, and the id before it remains valid.
func (h *hub) frame(e outbox.HeardEvent) string {
	text, _ := json.Marshal(event.Of(e.Event)) // it has no value that can't be encoded
	id := ""
	if e.Last {
		id = "id: " + cursorOf(h.cell, e.At) + "\n"
	}
	return id + "event: " + string(e.Type) + "\ndata: " + string(text) + "\n\n"
}

// progress returns the place up to which the feed was read, even if no event was the caller's. A
// caller that resumes then does not start before all that, nor from now on. Without data it is not
// an event, and serves as a keep-alive.
func (h *hub) progress(at outbox.Place) string {
	if at.IsZero() {
		return ":\n\n"
	}
	return "id: " + cursorOf(h.cell, at) + "\n\n"
}

// streaming is one stream. It reads by itself until it is at the end of the feed, and then gets
// events from the hub with the others.
type streaming struct {
	api *API
	hub *hub // of its cell
	out *eventWriter
	l   listening
	at  outbox.Place
	// history is the hub's history before the last read.
	history int
}

// begin finds the place to start from, and returns an error if the caller may not read at all.
func (s *streaming) begin(ctx context.Context) error {
	newest, err := s.api.newest(ctx, s.l.who)
	if s.l.now {
		s.at = newest
	}
	return err
}

func (a *API) newest(ctx context.Context, who outbox.Subscription) (outbox.Place, error) {
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	return a.store.Newest(asking, who)
}

func (s *streaming) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		if err := s.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// catchUp sends the events up to the end of the feed.
func (s *streaming) catchUp(ctx context.Context) error {
	most := fewPlaces
	for more := true; more; {
		heard, history, err := s.hub.readUpTo(ctx, s.l, s.at, most, true)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, outbox.ErrToken), errors.Is(err, outbox.ErrForbidden):
			return err
		case err != nil:
			// The database is unavailable. A keep-alive shows the caller that the stream is still
			// open.
			if err := s.out.write(":\n\n"); err != nil {
				return err
			}
			if !service.Sleep(ctx, time.Second) {
				return nil
			}
			continue
		}
		begun := time.Now()
		for _, each := range heard.Events {
			if err := s.out.write(s.hub.frame(each)); err != nil {
				return err
			}
			if time.Since(begun) > s.out.patience {
				return errSlow
			}
		}
		s.at, s.history, s.l.since, more = heard.Place, history, time.Time{}, heard.More
		if most = fewPlaces; len(heard.Events) == 0 {
			most = eventsPlacesMax // only events of others: none is kept in memory
		}
		if time.Since(s.out.wrote) > progressEvery {
			if err := s.out.write(s.hub.progress(s.at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow sends the events from the hub, until the caller disconnects or the stream has to read by
// itself.
func (s *streaming) follow(ctx context.Context) error {
	sub := s.hub.join(s.l.who, s.at, s.history)
	defer s.hub.remove(sub)
	beat := time.NewTicker(s.api.config.StreamBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case next, open := <-sub.queue:
			if !open {
				return sub.why
			}
			if err := s.out.write(next.text); err != nil {
				return err
			}
			if next.last {
				s.at = next.at
			}
		case <-beat.C:
			if time.Since(s.out.wrote) < s.api.config.StreamBeat/2 {
				continue
			}
			if err := s.out.write(":\n\n"); err != nil {
				return err
			}
		}
	}
}
