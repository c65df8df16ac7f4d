package callback_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/payment"
)

// slowStore has few connections, on which a recording takes long, as on a busy server.
type slowStore struct {
	conns chan struct{}
	takes time.Duration
}

func (s slowStore) ByRailKey(context.Context, payment.ID) (payment.ID, error) {
	return payment.NewID(), nil
}

func (s slowStore) RecordLate(ctx context.Context, _ payment.Outcome) (payment.Verdict, error) {
	select {
	case s.conns <- struct{}{}:
		defer func() { <-s.conns }()
	case <-ctx.Done():
		return "", fmt.Errorf("getting a connection: %w", context.Cause(ctx))
	}
	select {
	case <-time.After(s.takes):
		return payment.VerdictIn, nil
	case <-ctx.Done():
		return "", fmt.Errorf("recording: %w", context.Cause(ctx))
	}
}

// TestCrowd tests more callbacks at once than are recorded concurrently. One that waited for its
// turn has the whole timeout for its recording: if it were cut off, its connection would be lost,
// the next one would start on a new one, which takes longer, and none would ever be recorded.
func TestCrowd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.there = slowStore{make(chan struct{}, callback.Recordings), recordingTimeout * 6 / 10}
	var all sync.WaitGroup
	for n := range 2 * callback.Recordings {
		all.Go(func() {
			answer := w.post(w.rail, fmt.Sprintf("evt_%d", n), saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1"))
			if answer.StatusCode != http.StatusNoContent {
				t.Errorf("callback %d: %s", n, answer.Status)
			}
		})
	}
	all.Wait()
}

// TestCrowdTooLarge tests that a callback without a turn within the timeout is asked for again.
func TestCrowdTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.there = slowStore{make(chan struct{}, callback.Recordings), recordingTimeout * 6 / 10}
	var all sync.WaitGroup
	answers := make(chan int, 4*callback.Recordings)
	for n := range cap(answers) {
		all.Go(func() {
			answer := w.post(w.rail, fmt.Sprintf("evt_%d", n), saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1"))
			if answers <- answer.StatusCode; answer.StatusCode == http.StatusServiceUnavailable &&
				answer.Header.Get("Retry-After") == "" {
				t.Error("it is not said when to send it again")
			}
		})
	}
	all.Wait()
	close(answers)
	count := make(map[int]int)
	for status := range answers {
		count[status]++
	}
	if count[http.StatusNoContent] != 2*callback.Recordings ||
		count[http.StatusServiceUnavailable] != 2*callback.Recordings {
		t.Errorf("answers %v, want %d of each of two", count, 2*callback.Recordings)
	}
}
