package relayer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// counted is a store that counts the turns of a relayer.
type counted struct {
	relayer.Store
	mu                         sync.Mutex
	turns, recordings, claimed int
	both                       int // recorded and claimed
}

func (c *counted) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	result, err := c.Store.Turn(ctx, turn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns++
	c.claimed += len(result.Claims)
	if len(turn.Claim.Lanes) == 0 {
		c.recordings++
	}
	if len(turn.Outcomes) > 0 && len(result.Claims) > 0 {
		c.both++
	}
	return result, err
}

func (c *counted) look() (turns, recordings, claimed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns, c.recordings, c.claimed
}

// promptRail accepts everything at once.
type promptRail struct{}

func (promptRail) RenderVersion() string { return "prompt/1" }
func (promptRail) Send(_ context.Context, s rails.Send) rails.Result {
	return rails.Result{Result: payment.ResultAccepted, Reference: s.OutboxID.String()}
}

// TestAnAnswerIsRecordedWithoutALook tests that an outcome alone causes no scan while every enqueue
// notifies.
func TestAnAnswerIsRecordedWithoutALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	store := &counted{Store: w.store}
	config := config()
	config.Poll = time.Minute
	w.runWith(config, store, w.notifier())
	w.seen.awaitMore(t, "notifier", 1)
	for n := range 3 {
		w.asleep()
		w.awaitStates(w.enqueue(fmt.Sprint(n)), "DISPATCHING DISPATCHED")
	}
	if _, recordings, _ := store.look(); recordings == 0 {
		t.Error("every turn scanned for due instructions")
	}
}

// TestANotificationDuringThePauseIsTakenAlong tests that a payment whose notification arrives while
// a turn that only records waits for its time is claimed by that turn, and not by another one after
// another pause.
func TestANotificationDuringThePauseIsTakenAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.wrap = func(rails.Rail) rails.Rail { return promptRail{} }
	store := &counted{Store: w.store}
	config := config()
	config.Poll, config.RefreshEvery, config.Pace, config.Loops = time.Minute, time.Minute, 500*time.Millisecond, 1
	w.runWith(config, store, w.notifier())
	w.seen.awaitMore(t, "notifier", 1)
	w.seen.await(t, func() error { return w.seen.quietFor(2 * config.Pace) })
	first := w.enqueue("first")
	w.awaitStates(first, "DISPATCHING")
	second := w.enqueue("second")
	w.awaitStates(first, "DISPATCHING DISPATCHED")
	w.awaitStates(second, "DISPATCHING DISPATCHED")
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.both != 1 {
		t.Errorf("of %d turns %d recorded the first payment and claimed the second", store.turns, store.both)
	}
}

// TestAStreamSharesTurns tests that many enqueues in a row are claimed by few turns, that nothing
// is left, and that the relayer arms the notifier again afterwards.
func TestAStreamSharesTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.wrap = func(rails.Rail) rails.Rail { return promptRail{} }
	store := &counted{Store: w.store}
	config := config()
	config.Poll, config.Coalesce, config.Loops = time.Minute, 100*time.Millisecond, 1
	w.runWith(config, store, w.notifier())
	const transactions, each = 40, 10
	w.ingesting()
	begun := time.Now()
	for i := range transactions {
		_, err := w.ingest.Exec(t.Context(), `SELECT FROM generate_series(1, $2::integer) n, railhead.enqueue_payment_outbox($1 || n, 'participant', $1, 'bank',
			'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}')`, fmt.Sprintf("%d/", i), each)
		if err != nil {
			t.Fatal(err)
		}
	}
	w.nothingLeft()
	turns, _, claimed := store.look()
	same(t, "claimed", claimed, transactions*each)
	if most := 30 + int(time.Since(begun)/config.Coalesce); turns > most {
		t.Errorf("%d turns for %d transactions in %s, want at most %d", turns, transactions, time.Since(begun), most)
	}
	w.awaitText("1", `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
		AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	w.awaitStates(w.enqueue("later"), "DISPATCHING DISPATCHED")
}

// TestABurstGoesAtOnce tests a lane in which little was due, of which a turn takes few
// instructions. What it leaves of a burst waits neither for the poll nor for an answer of a slow
// rail.
func TestABurstGoesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 64,
		"timeouts": {"connect": "500ms", "tls": "100ms", "write": "300ms", "response_header": "15s", "body": "300ms"}`))
	slow := newHesitant()
	w.wrap = slow.around
	config := config()
	config.Poll = time.Minute
	w.run(config)
	defer close(slow.goOn)
	w.seen.awaitMore(t, "notifier", 1)
	w.asleep()
	const burst = 30
	w.ingesting()
	_, err := w.ingest.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('instruction-' || n, 'participant', 'key', 'bank', '{"amount": "1.00", "currency": "EUR"}')
		FROM generate_series(1, $1::int) n`, burst)
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(8 * time.Second)
	for n := range burst {
		select {
		case <-slow.arrived:
		case <-late:
			t.Fatalf("after 8 s %d of %d are being sent", n, burst)
		}
	}
}
