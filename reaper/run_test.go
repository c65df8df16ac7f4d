package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// quiet is a ledger without a database and without work. It records when it was asked for stale
// claims.
type quiet struct {
	mu      sync.Mutex
	up      time.Time // since when the server runs
	away    bool
	unsafe  bool
	asked   []time.Time
	status  string
	expired int // that are due to be ended
	beats   []time.Time
	stale   time.Duration // heartbeat_stale of the cell; 0: the default
	slow    func()        // runs in each turn, after its heartbeat
}

func (q *quiet) CheckServer(context.Context) (outbox.Server, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.unsafe:
		return outbox.Server{}, fmt.Errorf("%w: in a test", outbox.ErrUnsafeServer)
	case q.away:
		return outbox.Server{}, errors.New("away")
	}
	return outbox.Server{StartedAt: q.up, Now: time.Now(), AcceptedAt: time.Now()}, nil
}

func (q *quiet) Recall(context.Context, string, outbox.Remembered) (outbox.Recall, error) {
	return outbox.Recall{}, nil
}

func (q *quiet) Suspend(context.Context, string, outbox.SuspensionCause, string, time.Time) error {
	return nil
}

func (q *quiet) Heartbeat(_ context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status, q.beats = beat.Kind+" "+beat.Status, append(q.beats, time.Now())
	budget := outbox.DefaultTimeBudget()
	if q.stale > 0 {
		budget.HeartbeatStale = q.stale
	}
	return outbox.Pulse{Beats: int64(len(q.beats)), Budget: budget}, nil
}

func (q *quiet) StaleClaims(context.Context, outbox.StaleQuery) ([]outbox.StaleClaim, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, time.Now())
	return nil, nil
}

func (q *quiet) Rails(context.Context) ([]outbox.RailRow, error) {
	q.mu.Lock()
	slow := q.slow
	q.mu.Unlock()
	if slow != nil {
		slow()
	}
	return nil, nil
}
func (q *quiet) Turn(context.Context, outbox.Turn) (outbox.TurnResult, error) {
	return outbox.TurnResult{}, nil
}
func (q *quiet) RecordLate(context.Context, payment.Outcome) (payment.Verdict, error) { return "", nil }
func (q *quiet) CloseClaims(context.Context, []payment.ID) (int64, error)             { return 0, nil }
func (q *quiet) Expire(_ context.Context, _ string, limit int) ([]outbox.Expired, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(q.expired, limit)
	q.expired -= n
	return make([]outbox.Expired, n), nil
}
func (q *quiet) ExpiredIDs(context.Context, int) ([]payment.ID, error) { return nil, nil }
func (q *quiet) ExpireOnly(context.Context, string, payment.ID) ([]outbox.Expired, error) {
	return nil, nil
}
func (q *quiet) Quarantine(context.Context, []payment.ID, string) ([]payment.ID, error) {
	return nil, nil
}
func (q *quiet) ReopenLetters(context.Context, int) ([]payment.ID, error)       { return nil, nil }
func (q *quiet) ForgetHeartbeats(context.Context, time.Duration) (int64, error) { return 0, nil }
func (q *quiet) EndPauses(context.Context) ([]string, error)                    { return nil, nil }
func (q *quiet) EnsurePartitions(context.Context, int) ([]string, time.Time, error) {
	return nil, time.Time{}, nil
}

func (q *quiet) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// looks counts how often stale claims were asked for.
func (q *quiet) looks() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.asked)
}

// longestSilence returns the longest time without a heartbeat until now.
func (q *quiet) longestSilence() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var longest time.Duration
	for n, at := range q.beats {
		until := time.Now()
		if n+1 < len(q.beats) {
			until = q.beats[n+1]
		}
		longest = max(longest, until.Sub(at))
	}
	return longest
}

func runQuiet(t *testing.T, q *quiet) *reaper.Reaper {
	return runQuietEvery(t, q, 0)
}

func runQuietEvery(t *testing.T, q *quiet, every time.Duration) *reaper.Reaper {
	t.Helper()
	r, err := reaper.New(reaper.Config{WorkerID: "reaper", Every: every}, q, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestExpiryHurries tests that the next turn follows at once while a whole batch has expired in a
// turn.
func TestExpiryHurries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{up: time.Now().Add(-time.Hour), expired: 7*500 + 3}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go runQuiet(t, q).Run(ctx)
		<-time.After(time.Second)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.expired != 0 || len(q.asked) != 8 {
			t.Errorf("%d are left after %d turns within a second, want none after 8", q.expired, len(q.asked))
		}
	})
}

// running runs a reaper until the function that it returns is called, which waits for its end.
func running(t *testing.T, r *reaper.Reaper) func() {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	return func() { cancel(); <-ended }
}

// TestHealthyReaperIsNeverStale tests that the last heartbeat of a reaper that works is never as old as the cell's
// heartbeat_stale: not between turns that are minutes apart, nor during a long one.
func TestHealthyReaperIsNeverStale(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every, stale, turn time.Duration
	}{
		"turns every minute":        {every: time.Minute},
		"turns every ten minutes":   {every: 10 * time.Minute},
		"a short heartbeat_stale":   {stale: 3 * time.Second},
		"turns that take long":      {turn: 25 * time.Second},
		"rare turns, and long ones": {every: time.Minute, turn: 25 * time.Second, stale: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &quiet{up: time.Now().Add(-time.Hour), stale: c.stale, slow: func() { time.Sleep(c.turn) }}
				r := runQuietEvery(t, q, c.every)
				defer running(t, r)()
				for range 24 {
					<-time.After(time.Minute)
					synctest.Wait()
					if err := r.Ready(); err != nil {
						t.Fatalf("not ready: %v", err)
					}
				}
				stale := c.stale
				if stale == 0 {
					stale = outbox.DefaultTimeBudget().HeartbeatStale
				}
				if longest := q.longestSilence(); longest >= stale {
					t.Errorf("%s without a heartbeat, and stale after %s", longest, stale)
				}
			})
		})
	}
}

// TestHungReaperIsStale tests that a reaper whose turn ignores its timeout is soon without heartbeats, and not ready.
// It beats again once the turn has ended.
func TestHungReaperIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		q := &quiet{up: time.Now().Add(-time.Hour)}
		r := runQuiet(t, q)
		defer running(t, r)()
		<-time.After(12 * time.Second)
		q.set(func() { q.slow = func() { <-end } })
		<-time.After(70 * time.Second)
		synctest.Wait()
		if silent := q.longestSilence(); silent < 20*time.Second || r.Ready() == nil {
			t.Errorf("the longest silence is %s after a turn has hung for over a minute, ready: %v", silent, r.Ready())
		}
		q.set(func() { q.slow = nil })
		close(end)
		<-time.After(15 * time.Second)
		synctest.Wait()
		if err := r.Ready(); err != nil {
			t.Errorf("not ready after the turn has ended: %v", err)
		}
	})
}

// TestNoHeartbeatBeforeTheServerIsCompared tests that the first heartbeat is that of a turn that has compared the
// server with the memory: one before it could hide that some are missing.
func TestNoHeartbeatBeforeTheServerIsCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{up: time.Now().Add(-time.Hour), away: true}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go runQuiet(t, q).Run(ctx)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := len(q.beats); n != 0 {
			t.Errorf("%d heartbeats on a server that was never compared", n)
		}
	})
}

// TestGrace tests that a reaper waits after a server start, and after a gap between its own turns,
// so that workers can record what they hold. The turns are every 5 s, and the grace is 20 s.
func TestGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upFor time.Duration
		wait  time.Duration // until the first repair
	}{
		"a server that runs for long":     {time.Hour, 0},
		"one that started just now":       {0, 20 * time.Second},
		"one that started a while before": {13 * time.Second, 20 * time.Second}, // counted from our own start, too
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				q := &quiet{up: begun.Add(-c.upFor)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go runQuiet(t, q).Run(ctx)
				<-time.After(time.Minute) // the bubble's time
				synctest.Wait()
				if waited := q.asked[0].Sub(begun); waited != c.wait {
					t.Errorf("waited %s, want %s", waited, c.wait)
				}
			})
		})
	}
}

func TestGraceAfterAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{up: time.Now().Add(-time.Hour)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := runQuiet(t, q)
		go r.Run(ctx)
		<-time.After(30 * time.Second)
		synctest.Wait()
		before := q.looks()
		if before < 5 || r.Ready() != nil {
			t.Errorf("%d looks, ready: %v", before, r.Ready())
		}
		q.set(func() { q.away = true })
		<-time.After(time.Minute)
		synctest.Wait()
		if r.Ready() == nil {
			t.Error("ready without a database")
		}
		back := time.Now()
		q.set(func() { q.away = false })
		<-time.After(time.Minute)
		synctest.Wait()
		if waited := q.asked[before].Sub(back); waited < 20*time.Second || waited > 31*time.Second {
			t.Errorf("repairs began %s after the link was back, want a grace of 20 s and at most two turns", waited)
		}
	})
}

// TestShortGapNeedsNoGrace tests that one or two failed turns change nothing.
func TestShortGapNeedsNoGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{up: time.Now().Add(-time.Hour)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go runQuiet(t, q).Run(ctx)
		<-time.After(11 * time.Second)
		q.set(func() { q.away = true })
		<-time.After(5 * time.Second)
		before, back := q.looks(), time.Now()
		q.set(func() { q.away = false })
		<-time.After(30 * time.Second)
		synctest.Wait()
		if waited := q.asked[before].Sub(back); waited > 6*time.Second {
			t.Errorf("repairs began %s after the link was back", waited)
		}
	})
}

// TestRunEnds tests that an unsafe server ends Run with an error, and the context without one; the
// last heartbeat has status stopped.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{up: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runQuiet(t, q).Run(ctx) }()
		<-time.After(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		same(t, "heartbeat", q.status, "reaper stopped")

		q.unsafe = true
		if err := runQuiet(t, q).Run(t.Context()); !errors.Is(err, outbox.ErrUnsafeServer) {
			t.Errorf("run: %v", err)
		}
	})
}

// TestRunOnARealServer tests that Run leaves nothing behind. It runs alone, before the parallel
// tests.
func TestRunOnARealServer(t *testing.T) {
	y := newYard(t, sameKey)
	y.claimOne("worker")
	y.age(time.Minute)
	before := goleak.IgnoreCurrent()
	store := y.executor()
	r := y.reaperOn(store, func(c *reaper.Config) { c.Every = 20 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for y.inFlight() > 0 {
		<-tick.C
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	same(t, "heartbeat", y.text(`SELECT kind || ' ' || status FROM railhead.outbox_heartbeats`), "reaper stopped")
	store.Close()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestConfiguration tests that every fault is returned at once.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	_, err := reaper.New(reaper.Config{Every: time.Hour, MonthsAhead: 1, Batch: -1, ForgetAfter: 23 * time.Hour},
		nil, nil, nil)
	for _, want := range []string{"worker id", "every is", "months ahead", "batch is", "forget after is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of %q", err, want)
		}
	}
}
