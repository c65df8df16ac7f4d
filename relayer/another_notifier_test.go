package relayer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// notifyHolders counts the sessions that have armed the notifier.
const notifyHolders = `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
	AND d.datname = current_database()
	WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1`

// awaitHolder waits until a session has armed the notifier, or until none has.
func (w *world) awaitHolder(n int) {
	w.t.Helper()
	for w.cell.Int(notifyHolders) != n {
		if !sleepFor(w.t.Context(), 2*time.Millisecond) {
			w.t.Fatalf("waiting for %d sessions that have armed the notifier", n)
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// seconds is far below the poll of these tests, and leaves room for a busy machine.
const seconds = 5 * time.Second

func (w *world) dispatchedSoon(what string, enqueue func() payment.ID) {
	w.t.Helper()
	begun := time.Now()
	w.awaitStates(enqueue(), "DISPATCHING DISPATCHED")
	if took := time.Since(begun); took > seconds {
		w.t.Errorf("%s took %s, with a poll of %s", what, took, slowest)
	}
}

const slowest = 20 * time.Second

// TestDisarmedByAnother tests that a relayer that waited while another session had armed the
// notifier notices that the session disarms it.
func TestDisarmedByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	another, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL("railhead_relayer_login"), Cell: w.cell.Schema},
		w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close(t.Context())
	if notifies, _, err := another.Arm(t.Context()); err != nil || !notifies {
		t.Fatal(notifies, err)
	}
	config := config()
	config.Poll = slowest
	w.run(config)
	for n := range 3 {
		w.dispatchedSoon("while another session has armed the notifier",
			func() payment.ID { return w.enqueue(fmt.Sprintf("late-%d", n)) })
	}
	if err := another.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.dispatchedSoon("after it disarmed the notifier", func() payment.ID { return w.enqueue("after") })
}

// TestTwoRelayersOfDifferentRails tests that a payment of one relayer's rail does not wait for its
// poll while the other relayer is under load and enqueues do not notify.
func TestTwoRelayersOfDifferentRails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.cell.ApplyProfile("other", w.profile)
	config1, config2 := config(), config()
	config1.Poll, config2.Poll = slowest, slowest
	w.run(config1) // of the bank's rail alone
	w.awaitHolder(1)
	w.runServing(config2, "other")
	w.dispatchedSoon("without load", func() payment.ID { return w.enqueueOn("other", "single") })
	w.awaitHolder(1)

	stop, ended := make(chan struct{}), make(chan error, 1)
	stream := w.cell.Conn(t, "railhead_ingest_login")
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			items := make([]string, 40)
			for i := range items {
				name := fmt.Sprintf("stream-%d-%d", n, i)
				items[i] = `{"instruction_id": "` + name + `", "participant_id": "streams", "idempotency_key": "` + name + `", "rail_type": "bank",
					"payload": {"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}}`
			}
			_, err = stream.Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox_batch($1)`,
				"["+strings.Join(items, ",")+"]")
			sleepFor(t.Context(), 40*time.Millisecond)
		}
		ended <- err
	}()
	w.awaitHolder(0) // the first relayer is under load
	for n := range 3 {
		w.dispatchedSoon("under load", func() payment.ID { return w.enqueueOn("other", fmt.Sprintf("other-%d", n)) })
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// runServing runs a relayer of one rail, whose every send goes to the bank.
func (w *world) runServing(config relayer.Config, rail string) {
	w.t.Helper()
	open := func(profile rails.Profile) (rails.Rail, error) {
		if profile.RailType != rail {
			return nil, relayer.ErrNotServed
		}
		profile.RailType = "bank"
		return w.open(profile)
	}
	r, err := relayer.New(config, w.store, w.notifier(), open, w.seen, w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("relayer of %s: %v", rail, err)
		}
	})
}
