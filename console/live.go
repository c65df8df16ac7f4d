package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
)

// streamPath is the address of the live stream of a cell.
const streamPath = "/live"

// isStream reports whether a request is for the live stream of a cell.
func (s *Site) isStream(r *http.Request) bool {
	return slices.ContainsFunc(s.consoles, func(c *Console) bool { return r.URL.Path == c.base+streamPath })
}

// The times of a stream.
const (
	streamBeat  = 10 * time.Second // the longest silence of a stream
	streamWrite = 10 * time.Second // for one event to be taken
	streamRetry = time.Minute      // after which a page that was turned away asks again
)

// streamsEach is the most streams of one session: a browser has six connections to a host, and pages need
// some of them.
const streamsEach = 4

// streams counts the streams under way. It is safe for concurrent use.
type streams struct {
	most int
	over chan struct{} // closed by end
	once sync.Once

	mu  sync.Mutex
	all int
	of  map[digest]int
}

func newStreams(most int) *streams {
	return &streams{most: most, over: make(chan struct{}), of: make(map[digest]int)}
}

// end ends every stream.
func (s *streams) end() { s.once.Do(func() { close(s.over) }) }

// enter counts a stream of a session, until leave is called. It is refused beyond the bounds.
func (s *streams) enter(session digest) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.of[session] >= streamsEach {
		return nil, false
	}
	s.all++
	s.of[session]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[session]--; s.of[session] == 0 {
			delete(s.of, session)
		}
	}, true
}

// news is what every page shows of the state of the cell, and the newest point of the charts. It has no
// text from outside.
type news struct {
	At      string `json:"at"` // the database clock
	Stale   bool   `json:"stale"`
	Letters string `json:"letters"` // open dead letters
	Open    bool   `json:"open"`    // whether there are any
	Point   point  `json:"point"`
}

// news returns the state that was read last; nil: none was.
func (c *Console) news() *news {
	seen := c.state.seen.Load()
	if seen == nil {
		return nil
	}
	return &news{
		At: explain.Clock(seen.Now), Stale: seen.Stale(), Letters: count(seen.Letters()) + plus(seen.More),
		Open: seen.Letters() > 0, Point: pointOf(seen.Status),
	}
}

// stateNow answers with what a stream would send, for pages without one.
func (c *Console) stateNow(w http.ResponseWriter, _ *http.Request, _ Person) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.news()) // a client that is gone needs no answer
}

// stream sends the state of the cell whenever it was read, and at least every streamBeat. It ends with its
// session, of which it is no use, and with the console.
func (c *Console) stream(w http.ResponseWriter, r *http.Request, _ Person) {
	secret := c.secretOf(r)
	leave, ok := c.streams.enter(digestOf(secret))
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(streamRetry.Seconds())))
		http.Error(w, "There are as many live pages as may be. This one asks for the state every few seconds instead.",
			http.StatusServiceUnavailable)
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	// The server bounds how long a request is read; this one stays.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		c.log.WarnContext(r.Context(), "a live stream can't stay open", "error", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy must not keep events back
	send := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(streamWrite)) != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send("retry: 3000\n\n") {
		return
	}
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		changed := c.state.changed()
		beat.Reset(streamBeat)
		ended, ok := c.sessions.lasts(secret)
		if !ok {
			send("event: ended\ndata: {}\n\n")
			return
		}
		if now := c.news(); now != nil {
			text, err := json.Marshal(now)
			if err != nil || !send("event: state\ndata: "+string(text)+"\n\n") {
				return
			}
		} else if !send(": nothing was read yet\n\n") {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-ended:
		case <-c.streams.over:
			return
		case <-r.Context().Done():
			return
		}
	}
}
