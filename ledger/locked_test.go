package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// lockedFor locks a table, by a session of its own, until the test ends.
func lockedFor(t *testing.T, d *desk, table string) {
	t.Helper()
	elsewhere := d.Conn(t, "")
	mustExec(t, elsewhere, `BEGIN`)
	mustExec(t, elsewhere, `LOCK TABLE railhead.`+table+` IN ACCESS EXCLUSIVE MODE`)
}

// executorBy opens an executor of one connection, with a setting of pgx in its connection string.
func executorBy(t *testing.T, at, setting, value string) *executor.Executor {
	t.Helper()
	address := parse(t, at)
	query := address.Query()
	query.Set(setting, value)
	address.RawQuery = query.Encode()
	exec, err := executor.Open(t.Context(), ledger.Config{URL: address.String(), Cell: "railhead", MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Close)
	return exec
}

// TestLockOnATableOfTheClaim: a session that locks a table that only claims read stops them for a second, and keeps no
// outcome out of the archive, also on a connection that has not run a statement yet: the server waits for such a lock
// before it describes a statement.
func TestLockOnATableOfTheClaim(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			exec := executorBy(t, d.URL(celltest.Relayer), "default_query_exec_mode", mode)
			answer := told(sameKey, firstSend(d), payment.ResultExecuted, "ref")
			d.enqueue()

			lockedFor(t, d, "payment_paused_participants")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			turn := outbox.Turn{Outcomes: []payment.Outcome{answer}, Claim: request(lane("bank", 1, 0))}
			if _, err := exec.Turn(ctx, turn); !errors.Is(err, outbox.ErrLockTimeout) {
				t.Errorf("a turn that claims: %v, want %v", err, outbox.ErrLockTimeout)
			}
			turn.Claim = outbox.ClaimRequest{}
			if _, err := exec.Turn(ctx, turn); err != nil {
				t.Errorf("a turn that records: %v", err)
			}
		})
	}
}

// TestLockWithASmallCache: the same where the connection string has pgx forget statements that it has described.
func TestLockWithASmallCache(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	exec := executorBy(t, d.URL(celltest.Relayer), "statement_cache_capacity", "2")
	turn := func(turn outbox.Turn) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := exec.Turn(ctx, turn)
		return err
	}
	d.must(turn(outbox.Turn{Claim: request(lane("bank", 1, 0))}))
	answer := told(sameKey, firstSend(d), payment.ResultExecuted, "ref")
	d.must(turn(outbox.Turn{Outcomes: []payment.Outcome{answer}}))
	d.enqueue()
	lockedFor(t, d, "payment_paused_participants")
	if err := turn(outbox.Turn{Claim: request(lane("bank", 1, 0))}); !errors.Is(err, outbox.ErrLockTimeout) {
		t.Errorf("a turn that claims: %v, want %v", err, outbox.ErrLockTimeout)
	}
}

// TestReaderBehindALock: what reads ends by its own bound while another session locks a table.
func TestReaderBehindALock(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, err := reader.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Readonly), Cell: d.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	lockedFor(t, d, "payment_outbox_pending")
	lockedFor(t, d, "payment_rails")
	lockedFor(t, d, "payment_outbox_settings")
	everyCallEnds(t, map[string]func(ctx context.Context) error{
		"status": func(ctx context.Context) error { return second(r.Status(ctx)) },
		"rails":  func(ctx context.Context) error { return second(r.Rails(ctx)) },
		"budget": func(ctx context.Context) error { return second(r.TimeBudget(ctx)) },
	}, func(err error) bool { return ledger.SQLState(err) == "57014" })
}

// TestOperatorBehindALock: what an operator reads, or compares before an act, waits for a lock as long as an act does,
// and names who has it.
func TestOperatorBehindALock(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	o, err := operator.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Operator), Cell: d.Schema, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	for _, table := range []string{"payment_dead_letters", "payment_rails", "payment_outbox_settings"} {
		lockedFor(t, d, table)
	}
	seen := operator.Seen{OutboxID: id, LastAttempt: operator.AnyAttempt}
	everyCallEnds(t, map[string]func(ctx context.Context) error{
		"an act on what was seen": func(ctx context.Context) error {
			return second(o.CancelPayment(operator.IfUnchanged(ctx, seen), id, "a test"))
		},
		"rails":  func(ctx context.Context) error { return second(o.Rails(ctx)) },
		"budget": func(ctx context.Context) error { return second(o.TimeBudget(ctx)) },
	}, func(err error) bool {
		blocked, ok := errors.AsType[*operator.BlockedError](err)
		return ok && len(blocked.Blockers) > 0
	})
}

func second[T any](_ T, err error) error { return err }

// everyCallEnds makes calls at once, each of which has to end with an error, long before its caller ends it.
func everyCallEnds(t *testing.T, calls map[string]func(ctx context.Context) error, as func(err error) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for what, call := range calls {
		all.Go(func() {
			if err := call(ctx); !as(err) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
}

// TestRollbackIsBounded: a path that breaks between a refusal and the rollback holds nothing up without an end, neither
// a turn nor an act of an operator.
func TestRollbackIsBounded(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, d *desk) (do func() error, path *freezing){
		"turn": func(t *testing.T, d *desk) (func() error, *freezing) {
			path, address := before(t, d.URL(celltest.Relayer))
			exec := executorBy(t, address, "pool_max_conns", "1")
			return func() error {
				_, err := exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 0))})
				return err
			}, path
		},
		"act": func(t *testing.T, d *desk) (func() error, *freezing) {
			path, address := before(t, d.URL(celltest.Operator))
			o, err := operator.Open(t.Context(), ledger.Config{URL: address, Cell: d.Schema, MaxConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(o.Close)
			return func() error {
				_, err := o.PauseParticipant(t.Context(), "participant", "a test", time.Time{})
				return err
			}, path
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.enqueue()
			lockedFor(t, d, "payment_paused_participants")
			do, path := open(t, d)
			if err := do(); !errors.Is(err, outbox.ErrLockTimeout) {
				t.Fatalf("at first: %v, want %v", err, outbox.ErrLockTimeout)
			}
			broken := make(chan struct{})
			t.Cleanup(func() { close(broken) })
			path.each.Store(new(func(sent []byte) {
				if bytes.Contains(bytes.ToUpper(sent), []byte("ROLLBACK")) {
					<-broken
				}
			}))
			over := make(chan error, 1)
			go func() { over <- do() }()
			select {
			case err := <-over:
				if !errors.Is(err, outbox.ErrLockTimeout) {
					t.Errorf("then: %v, want %v", err, outbox.ErrLockTimeout)
				}
			case <-time.After(time.Minute):
				t.Error("it goes on")
			}
		})
	}
}
