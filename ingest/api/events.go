package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ingest/event"
	"github.com/railhead-pay/railhead/payment"
)

// The bounds of events.
const (
	eventsPageMax    = 200  // events of one answer
	eventsPage       = 100  // unless the call says otherwise
	eventsPlacesMax  = 2000 // of the feed that one look takes
	fewPlaces        = 200  // that one look takes whose events are held while they are written
	eventsLooksMax   = 10   // of one answer, where most of the feed is others'
	progressEvery    = time.Second
	participantsMax  = 1000 // that one reader names
	eventsQueryBytes = 160 << 10
)

// eventPage is a page of events.
type eventPage struct {
	Items []event.Event `json:"items" nullable:"false"`
	Next  string        `json:"next" doc:"Give it as after for what follows, now or later"`
	More  bool          `json:"more" doc:"There are more now. A page may hold fewer than the limit, and none, while this is set"`
	// Repeats is set after a failover.
	Repeats bool `json:"repeats,omitempty" doc:"A failover or a restore had forgotten what after stood for: some events are told again, with the ids that they had"`
}

// listening is what a request for events asks for.
type listening struct {
	who    payment.Subscription
	from   payment.Place
	now    bool      // from what happens from now on
	since  time.Time // zero: the beginning
	limit  int
	stream bool
	until  time.Time // the reader's right ends; zero: with its token
}

// events answers GET /v1/events: a page, or a stream for those that accept one.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	l, problem := readListening(r)
	if problem != nil {
		problem.write(w)
		return
	}
	l.who.Bearer = bearer(r.Context())
	if narrow, ok := r.Context().Value(narrowKey{}).(narrowed); ok {
		if problem := narrow.narrows(&l); problem != nil {
			problem.write(w)
			return
		}
	}
	if l.stream {
		a.stream(w, r, l)
		return
	}
	page, err := a.page(r.Context(), l)
	if err != nil {
		a.refused(r.Context(), opEvents, err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(page) //nolint:errcheck // the caller has left
}

// page looks until there is a page, the feed ends, or most of it was others'.
func (a *API) page(ctx context.Context, l listening) (eventPage, error) {
	page := eventPage{Items: []event.Event{}, More: true}
	at := l.from
	most := max(2*l.limit, fewPlaces/4)
	for look := 0; look < eventsLooksMax && page.More && len(page.Items) == 0; look++ {
		heard, err := a.hub.alone(ctx, l, at, most)
		if err != nil {
			return page, err
		}
		most = min(2*most, eventsPlacesMax) // most of it is others'
		page.Repeats = page.Repeats || heard.WentBack
		page.More, at, l.since = heard.More, heard.Place, time.Time{}
		for n, each := range heard.Events {
			page.Items = append(page.Items, event.Of(each.Event))
			// A page ends where its reader can go on: with the last event of a place.
			if len(page.Items) >= l.limit && each.Last && n+1 < len(heard.Events) {
				page.More, at = true, each.At
				break
			}
		}
	}
	page.Next = at.String()
	return page, nil
}

// look asks the store for one reader.
func (a *API) look(ctx context.Context, l listening, at payment.Place, most int) (payment.Heard, error) {
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	heard, err := a.store.Events(asking, []payment.Subscription{l.who}, at, l.since, most)
	if err == nil {
		err = heard.Refused[0]
	}
	return heard, err
}

// readListening reads the query and the headers of a request for events.
func readListening(r *http.Request) (listening, *Problem) {
	l := listening{limit: eventsPage, stream: accepts(r, "text/event-stream")}
	if len(r.URL.RawQuery) > eventsQueryBytes {
		return l, kindTooLarge.saying("The query is too long.")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return l, kindBadRequest.saying("The query can not be read.")
	}
	bad := func(name, rule, detail string) *Problem { return kindBadRequest.of("query."+name, rule, detail) }
	after, once := "", true
	for name, values := range query {
		value := values[0]
		switch name {
		case "participant_id":
			l.who.Participants = sorted(values)
			if len(values) > participantsMax {
				return l, bad(name, "MAX", "At most 1,000 participants are named.")
			}
			continue
		case "types":
			for each := range strings.SplitSeq(strings.Join(values, ","), ",") {
				if l.who.Types = append(l.who.Types, payment.EventType(each)); !slices.Contains(payment.EventTypes(), payment.EventType(each)) {
					return l, bad(name, "FORM", fmt.Sprintf("types must be of %v.", payment.EventTypes()))
				}
			}
			l.who.Types = sorted(l.who.Types)
			continue
		case "after":
			after = value
		case "since":
			if l.since, err = time.Parse(time.RFC3339, value); err != nil || l.since.Year() < 2000 || l.since.Year() > 2200 {
				return l, bad(name, "FORM", "since must be a moment such as 2026-11-26T09:00:00Z.")
			}
		case "limit":
			if l.limit, err = strconv.Atoi(value); err != nil || l.limit < 1 || l.limit > eventsPageMax {
				return l, bad(name, "FORM", "limit must be 1 to 200.")
			}
		case tokenParameter:
		default:
			return l, bad(bounded(name, 64), "KNOWN", "There is no such parameter.")
		}
		once = once && len(values) == 1
	}
	if !once {
		return l, kindBadRequest.saying("A parameter other than participant_id and types is given once.")
	}
	// A browser that reconnects says where it was, whatever its address says.
	if last := r.Header.Values("Last-Event-ID"); l.stream && len(last) == 1 && last[0] != "" {
		after, l.since = last[0], time.Time{}
	}
	switch {
	case after != "" && !l.since.IsZero():
		return l, bad("since", "ALONE", "after and since do not go together.")
	case after != "":
		if l.from, err = payment.ParsePlace(after); err != nil {
			return l, bad("after", "FORM", "after must be the cursor next of an earlier page, or the id of an event of a stream.")
		}
	default:
		l.now = l.stream && l.since.IsZero()
	}
	return l, nil
}

// sorted gives each of a list once. What hears the same is told by one look.
func sorted[T ~string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// accepts reports whether a request wants a media type above all.
func accepts(r *http.Request, want string) bool {
	for _, header := range r.Header.Values("Accept") {
		first, _, _ := strings.Cut(header, ",")
		media, _, err := mime.ParseMediaType(strings.TrimSpace(first))
		return err == nil && media == want
	}
	return false
}

// stream answers with server-sent events (WHATWG HTML, section 9.2) until the caller leaves,
// is too slow, or may not hear more.
func (a *API) stream(w http.ResponseWriter, r *http.Request, l listening) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(a.draining, stop)()
	if !l.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.until)
		defer cancel()
	}
	// A stream ends some day, so that one whose caller has vanished does; to go on costs little.
	ctx, cancel := context.WithTimeout(ctx, a.config.StreamLife)
	defer cancel()
	known, err := a.tokens.find(ctx, l.who.Token)
	if err != nil {
		a.refused(ctx, opStream, err).write(w)
		return
	}
	share := 2 // of the streams there may be, for all of one token
	if !l.until.IsZero() {
		share = 4 // for those of browsers and partners
	}
	if a.draining.Err() != nil || !a.hub.enter(known, max(1, a.config.StreamsMax/share)) {
		problemUnavailable("").write(w)
		return
	}
	defer a.hub.leave(known)
	out := &eventWriter{control: http.NewResponseController(w), w: w, patience: a.config.IdleMax}
	s := &streaming{api: a, out: out, l: l, at: l.from}
	if err := s.begin(ctx); err != nil {
		a.refused(ctx, opStream, err).write(w)
		return
	}
	// The deadline for the request's bytes would end the stream, as if the caller had left.
	out.control.SetReadDeadline(time.Time{}) //nolint:errcheck // where there are none, there is none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of proxies
	if out.write("retry: 2000\n"+progress(s.at)) != nil {
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
	case errors.Is(err, payment.ErrToken), errors.Is(err, payment.ErrForbidden):
		problem = problemOf(err)
	}
	if problem != nil {
		text, _ := json.Marshal(problem)                        // it has no value that can't be written
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
	o.control.SetWriteDeadline(time.Now().Add(o.patience)) //nolint:errcheck // where there are none, the server has its own
	_, err := o.w.Write([]byte(text))
	if err == nil {
		err = o.control.Flush()
	}
	o.broken, o.wrote = o.broken || err != nil, time.Now()
	return err
}

// frame is an event as a stream has it. Its id is the place to resume from; one behind which
// others of its place follow has none, and the one before holds.
func frame(e payment.HeardEvent) string {
	text, _ := json.Marshal(event.Of(e.Event)) // it has no value that can't be written
	id := ""
	if e.Last {
		id = "id: " + e.At.String() + "\n"
	}
	return id + "event: " + string(e.Type) + "\ndata: " + string(text) + "\n\n"
}

// progress says how far the feed has been read, also where nothing of it was the caller's: one
// who resumes does not begin with all that again, nor from now on. Without data it is no event,
// and a sign of life.
func progress(at payment.Place) string {
	if at.IsZero() {
		return ":\n\n"
	}
	return "id: " + at.String() + "\n\n"
}

// streaming is one stream. It reads by itself until it is at the end of the feed, and is
// then told along with the others.
type streaming struct {
	api *API
	out *eventWriter
	l   listening
	at  payment.Place
	// history is the hub's, of before what was read last.
	history int
}

// begin finds the place to begin at, and whether the reader may hear anything at all.
func (s *streaming) begin(ctx context.Context) error {
	newest, err := s.api.newest(ctx, s.l.who)
	if s.l.now {
		s.at = newest
	}
	return err
}

func (a *API) newest(ctx context.Context, who payment.Subscription) (payment.Place, error) {
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

// catchUp tells what there is until the end of the feed.
func (s *streaming) catchUp(ctx context.Context) error {
	most := fewPlaces
	for more := true; more; {
		s.history = s.api.hub.now()
		heard, err := s.api.hub.alone(ctx, s.l, s.at, most)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, payment.ErrToken), errors.Is(err, payment.ErrForbidden):
			return err
		case err != nil:
			// The database is away: what is written to the caller shows that it is not forgotten.
			if err := s.out.write(":\n\n"); err != nil {
				return err
			}
			if !pause(ctx, time.Second) {
				return nil
			}
			continue
		}
		begun := time.Now()
		for _, each := range heard.Events {
			if err := s.out.write(frame(each)); err != nil {
				return err
			}
			if time.Since(begun) > s.out.patience {
				return errSlow
			}
		}
		s.at, s.l.since, more = heard.Place, time.Time{}, heard.More
		if most = fewPlaces; len(heard.Events) == 0 {
			most = eventsPlacesMax // others' alone: nothing is held
		}
		if time.Since(s.out.wrote) > progressEvery {
			if err := s.out.write(progress(s.at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow is told by the hub, until the caller leaves or has to read on by itself.
func (s *streaming) follow(ctx context.Context) error {
	ear := s.api.hub.join(s.l.who, s.at, s.history)
	defer s.api.hub.part(ear)
	beat := time.NewTicker(s.api.config.StreamBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case told, open := <-ear.tell:
			if !open {
				return ear.why
			}
			if err := s.out.write(told.text); err != nil {
				return err
			}
			if told.last {
				s.at = told.at
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

// pause waits, and reports whether the context goes on.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// allowOrigin lets pages of the origins that are configured read the answer.
func (a *API) allowOrigin(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(a.config.Origins, origin) {
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Vary", "Origin")
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Methods", "GET")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Last-Event-ID")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
}
