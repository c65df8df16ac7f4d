package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// refusals counts the server's refusals by SQLSTATE, those included that the
// ledger retries by itself.
type refusals struct {
	mu sync.Mutex
	n  map[string]int
}

func (r *refusals) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (r *refusals) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	r.count(data.Err)
}

// A turn is one batch, whose statements are no queries to a tracer.
func (r *refusals) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *refusals) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	r.count(data.Err)
}

func (r *refusals) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (r *refusals) count(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int{}
	}
	r.n[ledger.SQLState(err)]++
}

// showDeadlocks has the server look for deadlocks before a wait for a lock is over.
// Sessions that are open already don't know of it.
func (d *desk) showDeadlocks() {
	d.t.Helper()
	d.do(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''100ms''', current_database()); END $$`)
}

// TestEveryoneAppendsAtOnce lets claims, fast records, reapers' repairs and
// sixteen bringers of late evidence loose on the same few instructions.
func TestEveryoneAppendsAtOnce(t *testing.T) {
	t.Parallel()
	const instructions, rounds, bringers, workers, reapers = 6, 12, 16, 3, 2
	d := newDesk(t)
	d.showDeadlocks()
	seen := &refusals{}
	exec, err := executor.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Relayer), Cell: d.Schema, MaxConns: 20,
		Tracer: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	var ids []payment.ID
	for range instructions {
		ids = append(ids, d.enqueue())
	}
	crowd := &crowd{t: t, exec: exec, claims: map[payment.ID][]payment.Claim{}}
	crowd.work(1)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { crowd.work(rounds * 4) })
	}
	for range reapers {
		group.Go(func() { crowd.reap(rounds * 2) })
	}
	for n := range bringers {
		group.Go(func() { crowd.bring(rounds, n == 0) })
	}
	group.Wait()

	d.gapless()
	for state, n := range seen.n {
		if state == "55P03" { // many stand in one line: one that waits for too long comes again
			continue
		}
		t.Errorf("the server refused %d times with %q", n, state)
	}
	states := map[string]int{}
	for _, id := range ids {
		rows := d.rows(id)
		if d.text(`SELECT count(*)::text FROM railhead.payment_outbox_attempts
			WHERE outbox_id = $1`, [16]byte(id)) == "1" && d.waiting(id) == "" {
			t.Errorf("%s: %s", id, rows)
		}
		states[d.text(`SELECT railhead.payment_outbox_state($1)`, [16]byte(id))]++
	}
	t.Log("rows:", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`), "ends:", states, "verdicts:", crowd.verdicts)
	if len(crowd.verdicts) < 3 {
		t.Errorf("the crowd met too little: %v", crowd.verdicts)
	}
}

// crowd is all of them, and what they know of claims.
type crowd struct {
	t    *testing.T
	exec *executor.Executor

	mu       sync.Mutex
	claims   map[payment.ID][]payment.Claim
	verdicts map[payment.Verdict]int
}

// some is any claim that was ever made; false while there is none.
func (c *crowd) some() (payment.Claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.claims) == 0 {
		return payment.Claim{}, false
	}
	order := func(a, b payment.ID) int { return slices.Compare(a[:], b[:]) }
	ids := slices.SortedFunc(maps.Keys(c.claims), order)
	all := c.claims[ids[rand.IntN(len(ids))]]
	return all[rand.IntN(len(all))], true
}

// work claims and answers, by the fast path first.
func (c *crowd) work(turns int) {
	words := []payment.Result{payment.ResultRefusedTransient, payment.ResultUnknown, payment.ResultNotSent,
		payment.ResultUnknown}
	for range turns {
		result, err := c.exec.Turn(c.t.Context(), outbox.Turn{Claim: request(lane("bank", 3, 1))})
		if err != nil {
			c.t.Error(err)
			return
		}
		var outcomes []payment.Outcome
		c.mu.Lock()
		for _, claim := range result.Claims {
			c.claims[claim.OutboxID] = append(c.claims[claim.OutboxID], claim)
			o := told(stubborn, claim, words[rand.IntN(len(words))], "")
			if o.Decision.Requeue {
				o.Decision.Delay = 0
			}
			outcomes = append(outcomes, o)
		}
		c.mu.Unlock()
		c.record(outcomes)
	}
}

// reap repairs claims that are not stale at all.
func (c *crowd) reap(turns int) {
	for range turns {
		claim, ok := c.some()
		if ok {
			o := lost(stubborn, claim)
			if o.Decision.Requeue {
				o.Decision.Delay = 0
			}
			c.record([]payment.Outcome{o})
		}
	}
}

func (c *crowd) record(outcomes []payment.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	var result outbox.TurnResult
	err := insist(func() (err error) {
		result, err = c.exec.Turn(c.t.Context(), outbox.Turn{Outcomes: outcomes})
		return err
	})
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, o := range result.Late {
		c.late(o)
	}
}

// bring brings late evidence; the first bringer may bring proof of execution.
func (c *crowd) bring(turns int, mayEnd bool) {
	for n := range turns {
		claim, ok := c.some()
		if !ok {
			continue
		}
		kind := kinds[3+rand.IntN(3)]
		if mayEnd && n > turns/2 {
			kind = "executed"
		}
		c.late(evidence(sameKey, claim, kind, fmt.Sprintf("ref-%s", claim.OutboxID)))
	}
}

// insist does again, as every service does, what had to wait too long for a lock.
func insist(do func() error) error {
	for until := time.Now().Add(time.Minute); ; {
		if err := do(); !errors.Is(err, outbox.ErrLockTimeout) || time.Now().After(until) {
			return err
		}
	}
}

func (c *crowd) late(o payment.Outcome) {
	var verdict payment.Verdict
	err := insist(func() (err error) {
		verdict, err = c.exec.RecordLate(c.t.Context(), o)
		return err
	})
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verdicts == nil {
		c.verdicts = map[payment.Verdict]int{}
	}
	c.verdicts[verdict]++
}
