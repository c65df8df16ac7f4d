package api

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ingest/event"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// The bounds of events.
const (
	eventsPageMax    = 200  // events of one answer
	eventsPage       = 100  // the default
	eventsPlacesMax  = 2000 // places of the feed that one read covers
	fewPlaces        = 200  // places of one read whose events are kept while they are sent
	eventsReadsMax   = 10   // reads for one answer, if most of the feed is others'
	progressEvery    = time.Second
	participantsMax  = 1000 // that one reader may list
	eventsQueryBytes = 160 << 10
)

// eventPage is a page of events.
type eventPage struct {
	Items []event.Event `json:"items" nullable:"false"`
	Next  string        `json:"next" doc:"The value of after for the events that follow, now or later"`
	More  bool          `json:"more" doc:"More events exist now. A page may have fewer events than the limit, or none, while this is set"`
	// Repeats is set after a failover.
	Repeats bool `json:"repeats,omitempty" doc:"A failover or a restore had forgotten the place of after: some events are repeated, with the same ids"`
}

// listening is the content of a request for events.
type listening struct {
	who    outbox.Subscription
	after  string // the text of from, until locate has read it
	from   outbox.Place
	now    bool      // only events from now on
	since  time.Time // zero: the beginning
	limit  int
	stream bool
	until  time.Time // end of the reader's permission; zero: that of its token
}

// events serves GET /v1/events: a page, or a stream for callers that accept one.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	l, problem := readListening(r, len(a.config.Cells) > 0)
	if problem != nil {
		problem.write(w)
		return
	}
	l.who.Bearer = bearer(r.Context())
	if narrow, ok := r.Context().Value(narrowKey{}).(narrowed); ok {
		if problem := narrow.narrows(&l, len(a.config.Cells) > 0); problem != nil {
			problem.write(w)
			return
		}
	}
	if problem := a.locate(&l); problem != nil {
		problem.write(w)
		return
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
	json.NewEncoder(w).Encode(page) //nolint:errcheck // the caller has disconnected
}

// page reads until there is an event, the feed ends, or the reads are used up by events of others.
func (a *API) page(ctx context.Context, l listening) (eventPage, error) {
	page := eventPage{Items: []event.Event{}, More: true}
	at := l.from
	most := max(2*l.limit, fewPlaces/4)
	for read := 0; read < eventsReadsMax && page.More && len(page.Items) == 0; read++ {
		heard, err := a.hubs[l.who.Cell].readOne(ctx, l, at, most)
		if err != nil {
			return page, err
		}
		most = min(2*most, eventsPlacesMax) // most of the feed is others'
		page.Repeats = page.Repeats || heard.WentBack
		page.More, at, l.since = heard.More, heard.Place, time.Time{}
		for n, each := range heard.Events {
			page.Items = append(page.Items, event.Of(each.Event))
			// A page ends with the last event of a place, from which its reader can continue.
			if len(page.Items) >= l.limit && each.Last && n+1 < len(heard.Events) {
				page.More, at = true, each.At
				break
			}
		}
	}
	page.Next = cursorOf(l.who.Cell, at)
	return page, nil
}

// readEvents reads the events of one reader from the store.
func (a *API) readEvents(ctx context.Context, l listening, at outbox.Place, most int) (outbox.Heard, error) {
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	heard, err := a.store.Events(asking, []outbox.Subscription{l.who}, at, l.since, most)
	if err == nil {
		err = heard.Refused[0]
	}
	return heard, err
}

// readListening parses the query and the headers of a request for events; cell is a parameter if there are
// several.
func readListening(r *http.Request, several bool) (listening, *Problem) {
	l := listening{limit: eventsPage, stream: accepts(r, "text/event-stream")}
	if len(r.URL.RawQuery) > eventsQueryBytes {
		return l, kindTooLarge.saying("The query is too long.")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return l, kindBadRequest.saying("The query can not be read.")
	}
	bad := func(name, rule, detail string) *Problem { return kindBadRequest.of("query."+name, rule, detail) }
	once := true
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
				if l.who.Types = append(l.who.Types, payment.EventType(each)); !slices.Contains(payment.EventTypes(),
					payment.EventType(each)) {
					return l, bad(name, "FORM", fmt.Sprintf("types must be of %v.", payment.EventTypes()))
				}
			}
			l.who.Types = sorted(l.who.Types)
			continue
		case "after":
			l.after = value
		case "cell":
			if l.who.Cell = value; !several {
				return l, bad(name, "KNOWN", "There is no such parameter: this process serves one cell.")
			}
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
			return l, bad(bounded(name), "KNOWN", "There is no such parameter.")
		}
		once = once && len(values) == 1
	}
	if !once {
		return l, kindBadRequest.saying("A parameter other than participant_id and types is given once.")
	}
	// A browser that reconnects sends its last place, which takes precedence over its address.
	last := r.Header.Values("Last-Event-ID")
	if l.stream && len(last) > 1 { // one of them would be missed, and the stream begin now
		return l, kindBadRequest.saying("The header Last-Event-ID is given once.")
	}
	if l.stream && len(last) == 1 && last[0] != "" {
		l.after, l.since = last[0], time.Time{}
	}
	if l.after != "" && !l.since.IsZero() {
		return l, bad("since", "ALONE", "after and since do not go together.")
	}
	l.now = l.stream && l.after == "" && l.since.IsZero()
	return l, nil
}

// sorted returns the values of a list in order, each once. Readers with equal lists then share one
// read.
func sorted[T ~string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// accepts reports whether a request prefers a media type to all others.
func accepts(r *http.Request, want string) bool {
	for _, header := range r.Header.Values("Accept") {
		first, _, _ := strings.Cut(header, ",")
		media, _, err := mime.ParseMediaType(strings.TrimSpace(first))
		return err == nil && media == want
	}
	return false
}

// allowOrigin lets pages of the configured origins read the answer.
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
