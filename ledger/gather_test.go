package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// gather runs f on n goroutines, and waits for them.
func gather(n int, f func(n int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// TestGathered enqueues by many goroutines at once: shared keys, conflicts, invalid ones and closed gates among them.
// Each gets the answer of a call of its own, numbers have no gap and follow the calls.
func TestGathered(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	const callers, each, participants = 64, 30, 5
	var taken, replayed, conflicts, invalid, second, unreadable atomic.Int64
	gather(callers, func(caller int) {
		var last int64
		for n := range each {
			in := of(caller*each+n, fmt.Sprintf("p%d", caller%participants), celltest.Bank)
			switch n % 6 {
			case 1: // one key of all callers of the participant
				in = of(1_000_000+n*participants+caller%participants, in.ParticipantID, celltest.Bank)
			case 2:
				in = of(2_000_000+n*participants+caller%participants, in.ParticipantID, celltest.Bank)
				in.Payload = fmt.Appendf(nil, `{"amount": "%d.00", "currency": "EUR"}`, caller+1)
			case 3:
				in.Payload = []byte(`{"amount": "0", "currency": "EUR"}`)
			case 4:
				in = of(3_000_000+n*participants+caller%participants, in.ParticipantID, celltest.Bank)
				in.IdempotencyKey = fmt.Sprintf("key of %d", caller)
			case 5:
				in.Payload = []byte(`{"amount": "1", "currency": "EUR", "note": 1e140000}`)
			}
			receipt, err := ingest.Enqueue(t.Context(), in)
			switch {
			case err == nil && receipt.Replayed:
				replayed.Add(1)
			case err == nil:
				taken.Add(1)
				if n%6 == 0 && receipt.SequenceID <= last {
					t.Errorf("caller %d got %d after %d", caller, receipt.SequenceID, last)
				}
				last = receipt.SequenceID
			case errors.Is(err, outbox.ErrConflict):
				conflicts.Add(1)
			default:
				fault, ok := errors.AsType[*outbox.Fault](err)
				switch {
				case !ok:
					t.Errorf("%+v: %v", in, err)
				case fault.SQLState == "RH007":
					second.Add(1)
				case fault.SQLState == "RH005":
					unreadable.Add(1)
				case fault.Field == "payload.amount":
					invalid.Add(1)
				default:
					t.Errorf("%+v: %v", in, err)
				}
			}
		}
	})
	// Of each shared key one is taken, of each participant.
	shared := int64(each / 6 * participants)
	own := int64(callers * each / 6)
	for what, pair := range map[string][2]int64{
		"taken": {taken.Load(), own + 3*shared}, "replayed": {replayed.Load(), own - shared}, "conflicts": {conflicts.Load(), own - shared},
		"second keys": {second.Load(), own - shared}, "invalid": {invalid.Load(), own}, "unreadable": {unreadable.Load(), own},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%d %s, want %d", pair[0], what, pair[1])
		}
	}
	wantStream(t, cell, int(taken.Load()))
	stats := ingest.Gathering()
	if stats.Waiting != 0 || stats.Batches == 0 || stats.Items < 2*stats.Batches {
		t.Errorf("gathered %+v", stats)
	}
}

// TestLoneEnqueueGoesAlone: what nothing else waits with goes by the single call.
func TestLoneEnqueueGoesAlone(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	for n := range 5 {
		receipt, err := ingest.Enqueue(t.Context(), order(n))
		wantReceipt(t, receipt, err, int64(n+1), false)
	}
	if stats := ingest.Gathering(); stats != (ledger.Gathering{Single: 5}) {
		t.Errorf("gathered %+v", stats)
	}
}

// TestLongTransactionKeepsItsOwn: callers of a participant that another transaction enqueues for
// wait, those of others do not; and all are answered when it ends.
func TestLongTransactionKeepsItsOwn(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"known": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			ingest := openIngest(t, cell, 4)
			numbers := 0
			if known {
				know(t, ingest, 0, "held")
				numbers++
			}
			tx := hold(t, cell, ingest, of(1, "held", celltest.Bank))
			var held sync.WaitGroup
			var answered atomic.Int64
			for n := range 20 {
				held.Go(func() {
					receipt, err := ingest.Enqueue(t.Context(), of(100+n, "held", celltest.Bank))
					if err != nil || receipt.Replayed {
						t.Errorf("a held one: %+v, %v", receipt, err)
					}
					answered.Add(1)
				})
				if n == 0 { // it went alone
					await(t, "the first one waits for the row", func() bool { return waitsForRow(cell) })
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			gather(16, func(caller int) {
				for n := range 10 {
					if _, err := ingest.Enqueue(ctx, of(1000+caller*10+n, fmt.Sprintf("free%d", caller), celltest.Bank)); err != nil {
						t.Errorf("a free one: %v", err)
					}
				}
			})
			if n := answered.Load(); n != 0 {
				t.Errorf("%d of the held ones were answered", n)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			held.Wait()
			wantStream(t, cell, numbers+1+20+160)
		})
	}
}

// TestGatheredCallerLeaves: who leaves before the instruction is sent has enqueued nothing, and is told so; who leaves
// after that does not know, and the others are answered.
func TestGatheredCallerLeaves(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	know(t, ingest, 0, "held")
	tx := hold(t, cell, ingest, of(1, "held", celltest.Bank))
	ctx, cancel := context.WithCancel(t.Context())
	var sent, never sync.WaitGroup
	sent.Go(func() {
		if _, err := ingest.Enqueue(ctx, of(10, "held", celltest.Bank)); !errors.Is(err, context.Canceled) ||
			!errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("left after it was sent: %v", err)
		}
	})
	await(t, "the first one waits for the row", func() bool { return waitsForRow(cell) })
	for n := range 3 {
		never.Go(func() {
			if _, err := ingest.Enqueue(ctx, of(11+n, "held", celltest.Bank)); !errors.Is(err, context.Canceled) ||
				errors.Is(err, outbox.ErrCommitUnknown) {
				t.Errorf("left before it was sent: %v", err)
			}
		})
	}
	await(t, "three wait here", func() bool { return ingest.Gathering().Waiting == 3 })
	cancel()
	sent.Wait()
	never.Wait()
	if stats := ingest.Gathering(); stats.Waiting != 0 {
		t.Errorf("gathered %+v", stats)
	}
	if _, err := ingest.Enqueue(ctx, of(20, "held", celltest.Bank)); !errors.Is(err, context.Canceled) ||
		errors.Is(err, outbox.ErrCommitUnknown) {
		t.Errorf("gone before: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The one whose end is not known may have gone in when the row was free.
	receipt, err := ingest.Enqueue(t.Context(), of(30, "held", celltest.Bank))
	if err != nil || receipt.SequenceID != 3 && receipt.SequenceID != 4 {
		t.Errorf("afterwards: %+v, %v", receipt, err)
	}
	wantStream(t, cell, int(receipt.SequenceID))
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys
		WHERE instruction_id IN ('instruction-11', 'instruction-12', 'instruction-13', 'instruction-20')`); n != 0 {
		t.Errorf("%d of whom was told that nothing was enqueued", n)
	}
}

// waitsForRow reports whether one session of the cell's database waits for another.
func waitsForRow(cell *celltest.Cell) bool {
	return cell.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock'`) == 1
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestGatheredInTheOrderOfCalls: what is enqueued for a participant gets its numbers in the order of the calls, also
// while another transaction holds the participant, and others come and go.
func TestGatheredInTheOrderOfCalls(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "held")
	tx := hold(t, cell, ingest, of(1, "held", celltest.Bank))
	const calls = 150
	numbers := make([]int64, calls)
	var all sync.WaitGroup
	for n := range calls {
		all.Go(func() {
			receipt, err := ingest.Enqueue(t.Context(), of(10+n, "held", celltest.Bank))
			if err != nil {
				t.Error(err)
			}
			numbers[n] = receipt.SequenceID
		})
		if n == 0 {
			await(t, "the first one waits for the row", func() bool { return waitsForRow(cell) })
			continue
		}
		await(t, "it waits here", func() bool { return ingest.Gathering().Waiting == n })
		if n%10 == 0 {
			if _, err := ingest.Enqueue(t.Context(), of(1000+n, "free", celltest.Bank)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for n, number := range numbers {
		if number != int64(n+3) {
			t.Fatalf("numbers in the order of the calls: %v", numbers)
		}
	}
}

// TestBusyWithTooMuch: what waits is bounded, and who comes after that is refused with nothing enqueued.
func TestBusyWithTooMuch(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	know(t, ingest, 0, "held")
	tx := hold(t, cell, ingest, of(1, "held", celltest.Bank))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var refused atomic.Int64
	call := func(n int) {
		all.Go(func() {
			in := of(10+n, "held", celltest.Bank)
			in.Payload = fmt.Appendf(nil, `{"amount": "1", "currency": "EUR", "note": "%s"}`, strings.Repeat("x", 60_000))
			_, err := ingest.Enqueue(ctx, in)
			if errors.Is(err, outbox.ErrBusy) {
				refused.Add(1)
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("with much waiting: %v", err)
			}
		})
	}
	const callers = 400
	call(0)
	await(t, "the first one waits for the row", func() bool { return waitsForRow(cell) })
	for n := 1; n < callers; n++ {
		call(n)
	}
	await(t, "all wait or are refused, but for the one that waits for the participant", func() bool {
		return int(refused.Load())+ingest.Gathering().Waiting >= callers-1
	})
	// One by one until no more fits: then nothing moves.
	for n := callers; ; n++ {
		if n == 2*callers {
			t.Fatal("as much as one likes may wait")
		}
		before, waiting := refused.Load(), ingest.Gathering().Waiting
		call(n)
		await(t, "it waits or is refused", func() bool {
			return refused.Load() > before ||
				ingest.Gathering().Waiting > waiting
		})
		if refused.Load() > before {
			break
		}
	}
	_, err := ingest.Enqueue(ctx, func() payment.Instruction {
		in := of(2000, "free", celltest.Bank)
		in.Payload = fmt.Appendf(nil, `{"amount": "1", "currency": "EUR", "note": "%s"}`, strings.Repeat("x", 62_000))
		return in
	}())
	if !errors.Is(err, outbox.ErrBusy) || !strings.Contains(err.Error(), "wait in this process to be enqueued") {
		t.Errorf("one more: %v", err)
	}
	cancel()
	all.Wait()
	if stats := ingest.Gathering(); stats.Waiting != 0 {
		t.Errorf("gathered %+v", stats)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
