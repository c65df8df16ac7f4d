package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// hold opens a transaction that enqueues in for its participant and stays open.
func hold(t *testing.T, cell *celltest.Cell, ingest *ingest.Ingest, in payment.Instruction) pgx.Tx {
	t.Helper()
	tx, err := cell.Conn(t, celltest.Ingest).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.EnqueueTx(t.Context(), tx, in); err != nil {
		t.Fatal(err)
	}
	return tx
}

func know(t *testing.T, ingest *ingest.Ingest, n int, participants ...string) {
	t.Helper()
	for i, p := range participants {
		if _, err := ingest.Enqueue(t.Context(), of(n+i, p, celltest.Bank)); err != nil {
			t.Fatal(err)
		}
	}
}

// pile starts one lone call of a held participant, and, within its patience, the others, in their order unless the
// machine is too slow for that.
func pile(t *testing.T, ingest *ingest.Ingest, lone func(), others ...func()) {
	t.Helper()
	go lone()
	time.Sleep(700 * time.Microsecond)
	base := ingest.Gathering().Waiting
	for n, f := range others {
		go f()
		for deadline := time.Now().Add(2 * time.Millisecond); ingest.Gathering().Waiting < base+n+1; {
			if time.Now().After(deadline) {
				break
			}
		}
	}
}

// rowsWaitedFor counts the calls that wait for a participant's row by a call of their own: one that skips the row waits
// for a millisecond.
const rowsWaitedFor = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
	AND wait_event_type = 'Lock'
	AND query_start < clock_timestamp() - interval '100 ms'`

// TestWhoLeftIsNotSent: the instruction of a caller who left while another transaction held the participant is not
// enqueued after that, and what the caller does with its payload is no matter.
func TestWhoLeftIsNotSent(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 8)
	know(t, ingest, 0, "held", "held3", "p9")
	tx1 := hold(t, cell, ingest, of(10, "held", celltest.Bank))
	tx2 := hold(t, cell, ingest, of(11, "newone", celltest.Bank))
	tx3 := hold(t, cell, ingest, of(12, "held3", celltest.Bank))
	var all sync.WaitGroup
	all.Add(4)
	enqueue := func(ctx context.Context, in payment.Instruction, said *error) func() {
		return func() {
			defer all.Done()
			_, *said = ingest.Enqueue(ctx, in)
		}
	}
	left := make(chan error, 1)
	ctxB, cancelB := context.WithCancel(t.Context())
	defer cancelB()
	b := of(102, "held", celltest.Bank)
	b.Payload = []byte(`{"amount": "10.50", "currency": "EUR"}`)
	var errs [4]error
	pile(t, ingest,
		enqueue(t.Context(), of(99, "held3", celltest.Bank), &errs[0]),
		enqueue(t.Context(), of(100, "newone", celltest.Bank), &errs[1]),
		enqueue(t.Context(), of(101, "held", celltest.Bank), &errs[2]),
		func() { _, err := ingest.Enqueue(ctxB, b); left <- err },
		enqueue(t.Context(), of(103, "held", celltest.Bank), &errs[3]),
	)
	await(t, "taken, or behind the three that wait for their rows", func() bool {
		stats := ingest.Gathering()
		return stats.Waiting == 0 || stats.Busy > 0 || cell.Int(rowsWaitedFor) == 3
	})
	time.Sleep(20 * time.Millisecond)
	cancelB()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("left with %v", err)
	}
	copy(b.Payload, `{"amount": "99.99"`) // the caller's buffer is the caller's again
	time.Sleep(time.Second)
	for _, tx := range []pgx.Tx{tx1, tx2, tx3} {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	time.Sleep(200 * time.Millisecond)
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys
		WHERE instruction_id = 'instruction-102'`); n != 0 {
		var amount string
		cell.QueryRow(`SELECT payload ->> 'amount' FROM railhead.v_outbox_pending
			WHERE instruction_id = 'instruction-102'`, nil, &amount)
		t.Errorf("B went in after its caller left, with amount %s", amount)
	}
}

// TestFreedParticipantGoesOn: a participant that is free again is not kept by those that wait for others.
func TestFreedParticipantGoesOn(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "p1", "p2", "p3", "p4")
	tx1 := hold(t, cell, ingest, of(10, "p1", celltest.Bank))
	tx2 := hold(t, cell, ingest, of(11, "p2", celltest.Bank))
	tx3 := hold(t, cell, ingest, of(12, "p3", celltest.Bank))
	var all sync.WaitGroup
	for n, p := range []string{"p1", "p2"} {
		all.Go(func() {
			if _, err := ingest.Enqueue(t.Context(), of(20+n, p, celltest.Bank)); err != nil {
				t.Error(err)
			}
		})
		await(t, p+" waits for its row", func() bool {
			return cell.Int(rowsWaitedFor) == n+1
		})
	}
	before := ingest.Gathering().Busy
	done := make(chan error, 1)
	go func() { _, err := ingest.Enqueue(t.Context(), of(30, "p3", celltest.Bank)); done <- err }()
	await(t, "p3 is busy", func() bool { return ingest.Gathering().Busy > before })
	if err := tx3.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Enqueue(t.Context(), of(31, "p4", celltest.Bank)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		mustBe(t, err)
	case <-time.After(5 * time.Second):
		t.Errorf("p3 is free again, and waits for 5 s: %+v", ingest.Gathering())
	}
	mustBe(t, tx1.Rollback(t.Context()))
	mustBe(t, tx2.Rollback(t.Context()))
	all.Wait()
}

// TestWaitingBatchWaits: a batch that waits is refused for no participant that another call makes at the same time.
func TestWaitingBatchWaits(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "p1")
	held := hold(t, cell, ingest, of(10, "p1", celltest.Bank))
	made := hold(t, cell, ingest, of(11, "p0", celltest.Bank))
	type said struct {
		all []outbox.ReceiptOrFault
		err error
	}
	done := make(chan said, 1)
	go func() {
		all, err := ingest.EnqueueBatch(t.Context(),
			[]payment.Instruction{of(20, "p1", celltest.Bank), of(21, "p0", celltest.Bank)})
		done <- said{all, err}
	}()
	waitsFor := func(tx pgx.Tx) {
		t.Helper()
		await(t, "it waits", func() bool {
			return cell.Int(`SELECT count(*) FROM pg_stat_activity a WHERE $1 = ANY (pg_blocking_pids(a.pid))`, tx.Conn().PgConn().PID()) == 1
		})
	}
	waitsFor(made)
	mustBe(t, made.Rollback(t.Context()))
	waitsFor(held)
	mustBe(t, held.Rollback(t.Context()))
	answered := <-done
	mustBe(t, answered.err)
	for _, r := range answered.all {
		if r.Fault != nil {
			t.Errorf("a batch that waits says %v", r.Fault)
		}
	}
}

// TestEveryItemIsAnswered: a key that comes in while a batch is answered leaves no item without an answer.
func TestEveryItemIsAnswered(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "p1")
	named := func(i, p, k string) payment.Instruction {
		in := order(0)
		in.InstructionID, in.ParticipantID, in.IdempotencyKey = i, p, k
		return in
	}
	other := hold(t, cell, ingest, named("i", "p9", "k2"))
	type said struct {
		all []outbox.ReceiptOrFault
		err error
	}
	done := make(chan said, 1)
	go func() {
		all, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{
			of(0, "p1", celltest.Bank), // a repetition
			named("i", "p2", "k1"), named("i", "p1", "k1"), named("i", "p1", "k2"),
		})
		done <- said{all, err}
	}()
	await(t, "it waits", func() bool { return waitsForRow(cell) })
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := <-done
	if s.err != nil {
		t.Fatal(s.err)
	}
	for n, r := range s.all {
		if r.Fault == nil && r.Receipt.OutboxID.IsZero() {
			t.Errorf("item %d is a success with no instruction", n)
		}
	}
	if last := s.all[len(s.all)-1].Fault; last == nil || last.SQLState != "RH001" {
		t.Errorf("of the key that came in it is said: %+v", s.all[len(s.all)-1])
	}
}

// TestTooLargeIsNotBusy: what no wait makes smaller is not told to come again.
func TestTooLargeIsNotBusy(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	in := of(1, "p1", celltest.Bank)
	in.Payload = fmt.Appendf(nil, `{"amount": "1", "currency": "EUR", "note": "%s"}`, strings.Repeat("x", 17<<20))
	_, err := ingest.Enqueue(t.Context(), in)
	wantFault(t, err, "RH005", outbox.ErrInvalid)
}

// TestArraysNeverWaitForAKey: nor does it wait for the key of what comes twice in it.
func TestArraysNeverWaitForAKey(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	in := order(0)
	in.InstructionID, in.ParticipantID, in.IdempotencyKey = "i", "p9", "k2"
	other := hold(t, cell, ingest, in)
	conn := cell.Conn(t, celltest.Ingest)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `SELECT * FROM railhead.enqueue_payment_outbox_arrays(ARRAY['i','i','i'], ARRAY['p2','p1','p1'], ARRAY['k1','k1','k2'],
			array_fill('bank'::text, ARRAY[3]), array_fill('{"amount": "1", "currency": "EUR"}'::jsonb, ARRAY[3]))`)
		done <- err
	}()
	select {
	case err := <-done:
		if ledger.SQLState(err) != "55P03" {
			t.Errorf("while the key is enqueued: %v", err)
		}
	case <-time.After(2 * time.Second):
		t.Errorf("waits for 2 s")
	}
	mustBe(t, other.Rollback(t.Context()))
}

// TestNewParticipantsOfAnother: one long transaction that makes many participants keeps no caller of another.
func TestNewParticipantsOfAnother(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 8)
	know(t, ingest, 0, "free", "held")
	tx, err := cell.Conn(t, celltest.Ingest).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const many = 60
	for n := range many {
		if _, err := ingest.EnqueueTx(t.Context(), tx, of(1000+n, fmt.Sprintf("new%d", n), celltest.Bank)); err != nil {
			t.Fatal(err)
		}
	}
	tx3 := hold(t, cell, ingest, of(12, "held", celltest.Bank))
	var all sync.WaitGroup
	all.Add(many + 1)
	var others []func()
	for n := range many {
		others = append(others, func() {
			defer all.Done()
			_, _ = ingest.Enqueue(t.Context(), of(2000+n, fmt.Sprintf("new%d", n), celltest.Bank))
		})
	}
	took := make(chan time.Duration, 1)
	others = append(others, func() {
		began := time.Now()
		if _, err := ingest.Enqueue(t.Context(), of(3000, "free", celltest.Bank)); err != nil {
			t.Error(err)
		}
		took <- time.Since(began)
	})
	pile(t, ingest, func() { defer all.Done(); ingest.Enqueue(t.Context(), of(99, "held", celltest.Bank)) }, others...)
	d := <-took
	// 60 waits of 10 ms each, on a busy machine; without the bound of a wait it takes as long as the transaction
	if d > 3*time.Second {
		t.Errorf("a free participant's took %s", d)
	}
	if _, err := ingest.Enqueue(t.Context(), of(3001, "free", celltest.Bank)); err != nil {
		t.Error(err)
	}
	mustBe(t, tx.Rollback(t.Context()))
	mustBe(t, tx3.Rollback(t.Context()))
	all.Wait()
}

// TestNothingWasSent: a caller who leaves before there is a connection knows that nothing was enqueued.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	conn, err := ingest.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = ingest.Enqueue(ctx, of(1, "p1", celltest.Bank))
		cancel()
		if errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("%v", err)
		}
	}
}

// TestArraysKeepTheSettings: the lock_timeout of the caller is what it was after each call.
func TestArraysKeepTheSettings(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	held := order(1)
	held.InstructionID, held.ParticipantID, held.IdempotencyKey = "a", "another", "k"
	hold(t, cell, ingest, held) // the key is in another transaction
	conn := cell.Conn(t, celltest.Ingest)
	call := func(participant, more string) string {
		return `SELECT count(*) FROM railhead.enqueue_payment_outbox_arrays(ARRAY['a'], ARRAY['` + participant + `'], ARRAY['k'], ARRAY['bank'], ARRAY['{"amount": "1", "currency": "EUR"}'::jsonb]` + more + `)`
	}
	free := strings.Replace(call("p1", ""), "ARRAY['a']", "ARRAY['b']", 1)
	tx, err := conn.Begin(t.Context())
	mustBe(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL lock_timeout = '7s'")
	mustBe(t, err)
	within := func(what, sql, state string, undo bool) {
		t.Helper()
		inner, err := tx.Begin(t.Context())
		mustBe(t, err)
		began := time.Now()
		_, err = inner.Exec(t.Context(), sql)
		if ledger.SQLState(err) != state || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s, want %q", what, err, time.Since(began), state)
		}
		if err != nil || undo {
			mustBe(t, inner.Rollback(t.Context()))
		} else {
			mustBe(t, inner.Commit(t.Context()))
		}
		var v string
		mustBe(t, tx.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&v))
		if v != "7s" {
			t.Errorf("%s: lock_timeout %s", what, v)
		}
	}
	within("a refusal", call("p1", ""), "55P03", false)
	within("waits is null", call("p1", ", waits => NULL"), "55P03", false)
	within("undone", free, "", true)
	within("taken", free, "", false)
	within("repeated", free, "", false)
	within("a refusal that is caught", `DO $x$ BEGIN PERFORM `+strings.TrimPrefix(call("p1", ""), "SELECT ")+`; EXCEPTION WHEN lock_not_available THEN NULL; END $x$`, "", false)
	mustBe(t, tx.Rollback(t.Context()))
}

func mustBe(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBatchesOfTheSameKeys: batches of other participants with the same keys take them in one order.
func TestBatchesOfTheSameKeys(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "p1", "p2", "p3", "p4", "p5")
	in := order(0)
	in.InstructionID, in.ParticipantID, in.IdempotencyKey = "m", "p9", "k"
	t3 := hold(t, cell, ingest, in)
	batch := func(said chan error, instructions, participants string) {
		_, err := cell.Conn(t, celltest.Ingest).Exec(t.Context(), `SELECT * FROM railhead.enqueue_payment_outbox_arrays($1::text[], $2::text[], array_fill('k'::text, ARRAY[cardinality($1::text[])]),
			array_fill('bank'::text, ARRAY[cardinality($1::text[])]), array_fill('{"amount": "1", "currency": "EUR"}'::jsonb, ARRAY[cardinality($1::text[])]), waits => true)`, instructions, participants)
		said <- err
	}
	a, b := make(chan error, 1), make(chan error, 1)
	go batch(a, "{z,m,a}", "{p1,p2,p3}")
	await(t, "a waits", func() bool { return waitsForRow(cell) })
	go batch(b, "{a,z}", "{p4,p5}")
	await(t, "b waits", func() bool {
		return cell.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`) == 2
	})
	mustBe(t, t3.Rollback(t.Context()))
	ea, eb := <-a, <-b
	if ledger.SQLState(ea) == "40P01" || ledger.SQLState(eb) == "40P01" {
		t.Errorf("two batches deadlock")
	}
}

// TestGatheredInEveryMode: what is sent together is sent in every mode that a connection string may ask for.
func TestGatheredInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			cell := celltest.New(t)
			url := cell.URL(celltest.Ingest)
			join := "?"
			if strings.Contains(url, "?") {
				join = "&"
			}
			if !strings.Contains(url, "://") {
				url += " default_query_exec_mode=" + mode
			} else {
				url += join + "default_query_exec_mode=" + mode
			}
			ingest, err := ingest.Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema, MaxConns: 4})
			if err != nil {
				t.Fatal(err)
			}
			defer ingest.Close()
			_, err = ingest.Enqueue(t.Context(), order(0))
			mustBe(t, err)
			gather(50, func(n int) {
				in := of(100+n, fmt.Sprintf("p%d", n%7), celltest.Bank)
				in.NotBefore = time.Now().Add(time.Hour)
				if _, err := ingest.Enqueue(t.Context(), in); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGatheredStorm: callers leave, sessions are ended, transactions hold participants: every answer is true.
func TestGatheredStorm(t *testing.T) {
	t.Parallel()
	sizes := []int32{1, 2, 3, 4, 8}
	if testing.Short() {
		sizes = []int32{2}
	}
	for _, conns := range sizes {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			cell := celltest.New(t)
			ingest := openIngest(t, cell, conns)
			stop := make(chan struct{})
			var noise sync.WaitGroup
			noise.Go(func() {
				conn := cell.Conn(t, celltest.Ingest)
				r := rand.New(rand.NewPCG(1, 2))
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					tx, err := conn.Begin(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					for range 3 {
						ingest.EnqueueTx(t.Context(), tx, of(5_000_000+r.IntN(1_000_000), fmt.Sprintf("p%d", r.IntN(40)), celltest.Bank))
					}
					time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
					if r.IntN(2) == 0 {
						tx.Commit(t.Context())
					} else {
						mustBe(t, tx.Rollback(t.Context()))
					}
				}
			})
			noise.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(120 * time.Millisecond):
						cell.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
							AND application_name = 'ingest of a test' AND random() < 0.3`)
					}
				}
			})
			var taken, unknown, nothing, faults, other sync.Map
			var answered atomic.Int64
			gather(80, func(caller int) {
				r := rand.New(rand.NewPCG(uint64(caller), 7))
				for n := range 60 {
					in := of(caller*1000+n, fmt.Sprintf("p%d", r.IntN(40)), celltest.Bank)
					if r.IntN(30) == 0 {
						in.Payload = []byte(`{"amount": "1", "currency": "EUR", "note": 1e140000}`)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(60))*time.Millisecond)
					if r.IntN(3) == 0 {
						cancel()
						ctx, cancel = context.WithTimeout(t.Context(), 60*time.Second)
					}
					receipt, err := ingest.Enqueue(ctx, in)
					cancel()
					answered.Add(1)
					var fault *outbox.Fault
					switch {
					case err == nil:
						taken.Store(in.InstructionID, receipt)
					case errors.Is(err, outbox.ErrCommitUnknown):
						unknown.Store(in.InstructionID, err)
					case errors.As(err, &fault):
						faults.Store(in.InstructionID, err)
					case errors.Is(err, context.DeadlineExceeded):
						nothing.Store(in.InstructionID, err)
					default:
						other.Store(in.InstructionID, err)
					}
				}
			})
			close(stop)
			noise.Wait()
			await(t, "nothing waits", func() bool { return ingest.Gathering().Waiting == 0 })
			time.Sleep(500 * time.Millisecond)
			known := map[string]int64{}
			conn := cell.Conn(t, "")
			rows, err := conn.Query(t.Context(), `SELECT instruction_id, sequence_id FROM railhead.payment_outbox_keys`)
			if err != nil {
				t.Fatal(err)
			}
			var id string
			var no int64
			if _, err := pgx.ForEachRow(rows, []any{&id, &no}, func() error { known[id] = no; return nil }); err != nil {
				t.Fatal(err)
			}
			taken.Range(func(k, v any) bool {
				if known[k.(string)] != v.(payment.Receipt).SequenceID {
					t.Errorf("%v has %d, not %+v", k, known[k.(string)], v)
				}
				return true
			})
			for what, m := range map[string]*sync.Map{"nothing": &nothing, "fault": &faults, "other": &other} {
				m.Range(func(k, v any) bool {
					if known[k.(string)] != 0 {
						t.Errorf("%s: %v is there: %v", what, k, v)
					}
					return true
				})
			}
			wantStream(t, cell, len(known))
		})
	}
}

// TestArraysOfOtherShapes: arrays of other shapes, and with nulls, leave no gap.
func TestArraysOfOtherShapes(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	good := `'{"amount": "1", "currency": "EUR"}'::jsonb`
	for name, test := range map[string]struct{ args, want string }{
		"two dimensions": {`ARRAY[['a','b'],['c','d']], ARRAY[['p','p'],['p','q']], ARRAY[['k','k'],['k','k']], ARRAY['bank','bank','bank','bank'], ARRAY[` + good + `,` + good + `,` + good + `,` + good + `]`, `1:/ 2:/ 3:/ 4:/`},
		"lower bound":    {`'[5:6]={e,f}'::text[], '[0:1]={p,p}'::text[], '{k,k}', '{bank,bank}', ARRAY[` + good + `,` + good + `]`, `1:/ 2:/`},
		"null elements":  {`ARRAY[NULL,'g','h','i','j']::text[], ARRAY['p',NULL,'p','p','p'], ARRAY['k','k',NULL,'k','k'], ARRAY['bank','bank','bank',NULL,'bank'], ARRAY[` + good + `,` + good + `,` + good + `,` + good + `,NULL]`, `1:RH002/instruction_id 2:RH002/participant_id 3:RH002/idempotency_key 4:RH003/rail_type 5:RH002/payload`},
		"null optionals": {`ARRAY['l'], ARRAY['p'], ARRAY['k'], ARRAY['bank'], ARRAY[` + good + `], ARRAY[NULL]::timestamptz[], ARRAY[NULL]::timestamptz[], ARRAY[NULL]::int[], ARRAY[NULL]::jsonb[]`, `1:RH002/headers`},
	} {
		rows, err := conn.Query(t.Context(), `SELECT format('%s:%s/%s', item, error_code, error_field)
			FROM railhead.enqueue_payment_outbox_arrays(`+test.args+`)`)
		if err != nil {
			t.Error(name, err)
			continue
		}
		said, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || strings.Join(said, " ") != test.want {
			t.Errorf("%s: %v, %v; want %s", name, said, err, test.want)
		}
	}
	wantStream(t, cell, cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`))
}

// TestArraysOfOtherCollations: arguments may have a collation of their own.
func TestArraysOfOtherCollations(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	for n, collation := range []string{"", `COLLATE "C"`, `COLLATE "POSIX"`, `COLLATE "ucs_basic"`} {
		for _, twice := range []bool{false, true} {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`SELECT * FROM railhead.enqueue_payment_outbox_arrays(ARRAY['a%d'] %s, ARRAY['p%[1]d'] %[2]s, ARRAY['k'] %[2]s, ARRAY['bank'] %[2]s,
				ARRAY['{"amount": "1", "currency": "EUR"}'::jsonb])`, n, collation))
			if err != nil {
				t.Errorf("%q %t: %v", collation, twice, err)
			}
		}
	}
}

// TestBatchIsCreatedInItsOrder: the moments of a participant are in the order of its numbers.
func TestBatchIsCreatedInItsOrder(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	for round := range 3 {
		var all []payment.Instruction
		for n := range 2000 {
			all = append(all, of(round*10000+n, fmt.Sprintf("p%d", n%37), celltest.Bank))
		}
		if _, err := ingest.EnqueueBatch(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	bad := cell.Int(`SELECT count(*) FROM (SELECT created_at < lag(created_at) OVER w AS bad
		FROM railhead.payment_outbox_keys WINDOW w AS (PARTITION BY participant_id ORDER BY sequence_id)) x WHERE bad`)
	if bad != 0 {
		t.Errorf("%d are earlier than the one before", bad)
	}
}
