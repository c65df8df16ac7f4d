package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/payment"
)

// TestOneKeyFiftyCallers sends one key from fifty callers at each isolation
// level, before and after the first one was claimed away from pending. However
// many of them lose their transaction, there is one instruction and one number.
func TestOneKeyFiftyCallers(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) { // one after the other: each takes fifty connections
			cell := celltest.New(t)
			ingest := openIngest(t, cell, 50)
			ids := fiftyCallers(t, ingest, level)
			claimAll(t, openExecutor(t, cell))
			for id := range fiftyCallers(t, ingest, level) {
				ids[id] = true
			}
			if len(ids) != 1 {
				t.Errorf("fifty callers made %d instructions of one key", len(ids))
			}
			wantStream(t, cell, 1)
			if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending"); n != 0 {
				t.Errorf("a repetition put the claimed instruction back into pending")
			}
		})
	}
}

// fiftyCallers take their snapshots first and enqueue when all have one. One that
// loses to another begins a new transaction, as its contract says.
func fiftyCallers(t *testing.T, ingest *ingest.Ingest, level pgx.TxIsoLevel) map[payment.ID]bool {
	const callers, tries = 50, 60
	var mu sync.Mutex
	ids := make(map[payment.ID]bool)
	var ready, done sync.WaitGroup
	ready.Add(callers)
	for range callers {
		done.Go(func() {
			for try := range tries {
				err := pgx.BeginTxFunc(t.Context(), ingest.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					if try == 0 {
						_, err := tx.Exec(t.Context(), "SELECT 1")
						ready.Done()
						ready.Wait()
						if err != nil {
							return err
						}
					}
					receipt, err := ingest.EnqueueTx(t.Context(), tx, order(1))
					if err == nil {
						mu.Lock()
						ids[receipt.OutboxID] = true
						mu.Unlock()
					}
					return err
				})
				switch state := ledger.SQLState(err); {
				case err == nil:
					return
				case state != "40001" && state != "40P01":
					t.Errorf("%s: %v", level, err)
					return
				}
			}
			t.Errorf("%s: a caller lost %d times", level, tries)
		})
	}
	done.Wait()
	return ids
}

// lostRaces counts the deadlocks that retries would hide.
type lostRaces struct{ deadlocks atomic.Int64 }

func (l *lostRaces) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (l *lostRaces) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if ledger.SQLState(data.Err) == "40P01" {
		l.deadlocks.Add(1)
	}
}

// openRacing opens the ingest of a cell, and counts what its calls lose.
func openRacing(t *testing.T, cell *celltest.Cell, conns int32) (*ingest.Ingest, *lostRaces) {
	t.Helper()
	lost := new(lostRaces)
	ingest, err := ingest.Open(t.Context(), ledger.Config{
		URL: cell.URL(celltest.Ingest), Cell: cell.Schema, MaxConns: conns, Tracer: lost,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ingest.Close)
	return ingest, lost
}

// TestConcurrentBatches runs sixteen batches of a thousand at once, all over
// the same participants and partly of the same keys, in orders of their own. The
// server has room for about 6,400 locks: an advisory lock per key would exhaust it.
func TestConcurrentBatches(t *testing.T) {
	t.Parallel()
	const batches, size, participants, shared = 16, 1000, 40, 100
	cell := celltest.New(t)
	ingest, lost := openRacing(t, cell, batches)
	var group sync.WaitGroup
	begin := time.Now()
	for b := range batches {
		group.Go(func() {
			all := make([]payment.Instruction, 0, size)
			for n := range size {
				in := order(b*size + n)
				if n < shared {
					in = order(n) // the same keys in every batch
				}
				in.ParticipantID = fmt.Sprintf("p%d", n%participants)
				all = append(all, in)
			}
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			results, err := ingest.EnqueueBatch(t.Context(), all)
			if err != nil {
				t.Error(err)
				return
			}
			for _, result := range results {
				if result.Fault != nil {
					t.Error(result.Fault)
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d batches of %d took %v", batches, size, time.Since(begin))
	wantStream(t, cell, batches*(size-shared)+shared)
	if n := lost.deadlocks.Load(); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestConcurrentFirstCalls: a batch that makes a participant waits for an
// open transaction that makes another. A second batch of both must wait behind it
// with nothing in its hands that the first one still needs.
func TestConcurrentFirstCalls(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, lost := openRacing(t, cell, 6)
	calls := 0
	of := func(participant string) payment.Instruction {
		calls++
		in := order(calls)
		in.ParticipantID = participant
		return in
	}
	open := func(participant string) pgx.Tx {
		tx, err := ingest.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ingest.EnqueueTx(t.Context(), tx, of(participant)); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	waiting := func(n int) {
		t.Helper()
		await(t, fmt.Sprintf("%d sessions wait", n), func() bool {
			return cell.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock'`) == n
		})
	}
	commit := func(tx pgx.Tx) {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	batch := func(all ...payment.Instruction) {
		group.Go(func() {
			results, err := ingest.EnqueueBatch(t.Context(), all)
			if err != nil {
				t.Error(err)
				return
			}
			for _, result := range results {
				if result.Fault != nil {
					t.Error(result.Fault)
				}
			}
		})
	}
	second, third := open("second"), open("third")
	batch(of("first"), of("second"), of("third")) // makes first, and waits for second
	waiting(1)
	commit(second) // it waits for third
	await(t, "the batch waits for the other transaction", func() bool {
		return cell.Int(`SELECT count(*) FROM pg_stat_activity a WHERE $1 = ANY (pg_blocking_pids(a.pid))`, third.Conn().PgConn().PID()) == 1
	})
	batch(of("first"), of("second"))
	waiting(2)
	commit(third)
	group.Wait()
	wantStream(t, cell, calls)
	if n := lost.deadlocks.Load(); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestCounterSetBack: a number that is taken is never given again, whatever
// became of the counter; and no caller is told to retry without end.
func TestCounterSetBack(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	enqueue := func(name string) error {
		_, err := ingest.Enqueue(t.Context(), payment.Instruction{
			InstructionID: name, ParticipantID: "p", IdempotencyKey: name, RailType: "bank", Payload: []byte(`{"amount": "1.00", "currency": "EUR"}`),
		})
		return err
	}
	if err := enqueue("first"); err != nil {
		t.Fatal(err)
	}
	cell.Exec("UPDATE railhead.participant_outbox_sequences SET next_sequence_id = 1")
	if err := enqueue("second"); ledger.SQLState(err) != "23505" {
		t.Errorf("with a counter that was set back: %v", err)
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_keys"); n != 1 {
		t.Errorf("%d keys", n)
	}
}
