package ledger_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestRepeatDecides: while the transaction of an enqueue is open its payment is not found, whatever becomes of it. The
// same enqueue waits for its end, and has then found the payment or stored it, as docs/ingest.md says.
func TestRepeatDecides(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 6)
	type answer struct {
		payment.Receipt
		err error
	}
	for n, commits := range []bool{true, false} {
		in := order(n + 1)
		key := payment.Key{InstructionID: in.InstructionID, IdempotencyKey: in.IdempotencyKey}
		open, err := ingest.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first, err := ingest.EnqueueTx(t.Context(), open, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ingest.Status(t.Context(), key); !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("under way: %v, want that it is not found", err)
		}
		answers := make(chan answer, 1)
		go func() {
			var again answer
			again.err = pgx.BeginFunc(t.Context(), ingest.Pool(), func(tx pgx.Tx) (err error) {
				again.Receipt, err = ingest.EnqueueTx(t.Context(), tx, in)
				return err
			})
			answers <- again
		}()
		await(t, "the same enqueue waits", func() bool {
			return cell.Int(`SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`,
				open.Conn().PgConn().PID()) == 1
		})
		end := open.Rollback
		if commits {
			end = open.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := <-answers
		if again.err != nil || again.Replayed != commits || (again.OutboxID == first.OutboxID) != commits {
			t.Errorf("committed %v: the repetition was answered with %+v", commits, again)
		}
		if found, err := ingest.Status(t.Context(), key); err != nil || found.OutboxID != again.OutboxID {
			t.Errorf("committed %v: %+v, %v is found after the repetition", commits, found, err)
		}
	}
	wantStream(t, cell, 2)
}

// TestKeyWithAnotherInstructionID: by SQL a payment is known by its instruction id and its key together, so a caller
// who makes a new id for each try pays with each. The pages for callers say so; over HTTP it is refused
// (TestDoorKeyIsOfOneInstruction).
func TestKeyWithAnotherInstructionID(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	first, second := order(1), order(2)
	second.IdempotencyKey = first.IdempotencyKey
	for _, in := range []payment.Instruction{first, second} {
		receipt, err := ingest.Enqueue(t.Context(), in)
		if err != nil || receipt.Replayed {
			t.Errorf("%s under the key %s: %+v, %v, want a payment of its own",
				in.InstructionID, in.IdempotencyKey, receipt, err)
		}
	}
	if _, err := ingest.Enqueue(t.Context(), order(3)); err != nil {
		t.Fatal(err)
	}
	wantStream(t, cell, 3)
}
