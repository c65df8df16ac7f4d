package faults

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
)

// sink is an endpoint of a caller that loses some of its answers: half of them before it
// has noted the event, half after. It keeps a journal of what it has noted, in order.
type sink struct {
	server *httptest.Server
	lost   float64

	mu      sync.Mutex
	draws   *rand.Rand
	journal []delivery
	losses  int
	closed  bool // it refuses every delivery
}

// sinkSecret signs what is delivered to the sink.
const sinkSecret = "a secret of the endpoint for runs"

// delivery is one event as the sink has noted it.
type delivery struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		OutboxID  string `json:"outbox_id"`
		AttemptNo int    `json:"attempt_no"`
		State     string `json:"state"`
	} `json:"data"`
}

func newSink(seed uint64, lost float64) *sink {
	s := &sink{lost: lost, draws: rand.New(rand.NewPCG(seed, fold("sink")))}
	s.server = httptest.NewServer(s)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	var d delivery
	mac := hmac.New(sha256.New, []byte(sinkSecret))
	mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
	signed := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if err != nil || json.Unmarshal(body, &d) != nil || r.Header.Get("webhook-id") != d.ID ||
		r.Header.Get("webhook-signature") != signed {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	drawn := s.draws.Float64()
	if drawn >= s.lost/2 {
		s.journal = append(s.journal, d)
	}
	if drawn < s.lost {
		s.losses++
	}
	s.mu.Unlock()
	if drawn < s.lost {
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	w.WriteHeader(http.StatusNoContent)
}

// close makes the sink refuse every delivery, or accept deliveries again.
func (s *sink) close(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = is
}

// noted returns the deliveries that the sink has noted so far.
func (s *sink) noted() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal[:len(s.journal):len(s.journal)]
}
