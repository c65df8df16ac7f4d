package relayer_test

import (
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// witness is an observer of a relayer, so that tests wait for events.
type witness struct {
	mu    sync.Mutex
	heard chan struct{}
	n     map[string]int
	busy  time.Time // when something happened last
}

func newWitness() *witness { return &witness{heard: make(chan struct{}, 1), n: map[string]int{}} }

func (s *witness) note(what string) {
	s.mu.Lock()
	s.n[what]++
	s.busy = time.Now()
	s.mu.Unlock()
	select {
	case s.heard <- struct{}{}:
	default:
	}
}

func (s *witness) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[what]
}

// patience is how long a test waits for an event that may never come: shorter under -failfast.
func patience() time.Duration {
	if flag.Lookup("test.failfast").Value.String() == "true" {
		return 8 * time.Second
	}
	return time.Minute
}

// await checks after every event, and from time to time for what makes none.
func (s *witness) await(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(patience())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-s.heard:
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// quietFor reports whether no event has come for d.
func (s *witness) quietFor(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.busy); since < d {
		return fmt.Errorf("something happened %s ago", since)
	}
	return nil
}

// awaitMore waits until an event has come n more times.
func (s *witness) awaitMore(t *testing.T, what string, n int) {
	t.Helper()
	s.awaitCount(t, what, s.count(what)+n)
}

// awaitCount waits until an event has come n times in all.
func (s *witness) awaitCount(t *testing.T, what string, n int) {
	t.Helper()
	s.await(t, func() error {
		if got := s.count(what); got < n {
			return fmt.Errorf("%s: %d times of %d", what, got, n)
		}
		return nil
	})
}

func (s *witness) Notified()                                 { s.note("notifier") }
func (s *witness) Poll()                                     { s.note("poll") }
func (s *witness) NotifierTested(lost bool)                  { s.note(fmt.Sprintf("lost %v", lost)) }
func (s *witness) Claimed([]payment.Claim)                   { s.note("claimed") }
func (s *witness) Turn(int, time.Duration)                   { s.note("turn") }
func (s *witness) TurnFailed(kind relayer.Failure)           { s.note("failed " + string(kind)) }
func (s *witness) CommitUnknown()                            { s.note("commit unknown") }
func (s *witness) Recorded(payment.Outcome)                  { s.note("recorded") }
func (s *witness) Late(_ payment.Outcome, v payment.Verdict) { s.note("late " + string(v)) }
func (s *witness) Called(call relayer.Call)                  { s.note("called " + string(call.Result)) }
func (s *witness) Breaker(_ string, to rails.BreakerState)   { s.note("breaker " + string(to)) }

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
