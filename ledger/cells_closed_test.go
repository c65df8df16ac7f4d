package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// stranger is a participant of a bucket, who has enqueued nowhere.
func stranger(bucket int) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("stranger-%d", n); outbox.BucketOf(name) == bucket {
			return name
		}
	}
}

// TestClosedBeforeItIsSettled: before the bucket of a lost cell is settled for another one, enqueue of its participants
// is closed there, although that cell has never seen them: a repeated call of what the lost cell has stored would be a
// new payment. A name of a bucket that the cell takes is still refused, if it has never enqueued.
func TestClosedBeforeItIsSettled(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	bucket := outbox.BucketOf("p1")
	east.must(east.gives(west, bucket))
	receipt, err := openIngest(t, west.Cell, 4).Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)

	// West is lost.
	o := east.operator()
	closes := func(name string) (bool, error) {
		return o.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: name}, why, time.Time{})
	}
	wasOpen, err := closes("p1")
	if err != nil || !wasOpen {
		t.Fatalf("closing enqueue of a participant of the lost cell: %t, %v", wasOpen, err)
	}
	if _, err = closes(stranger(bucket ^ 1)); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("of a name of an own bucket: %v", err)
	}
	east.must(east.act(`SELECT railhead.settle_buckets(ARRAY[$1::integer], '{4}', 'east', 'west is lost', '[]')`, bucket))
	same(t, "what it takes", east.text(`SELECT mine::text FROM railhead.payment_buckets WHERE bucket = $1`, bucket), "true")

	atEast := openIngest(t, east.Cell, 4)
	_, err = atEast.Enqueue(t.Context(), order(1))
	wantClosed(t, "the repeated call", err, "participant_id", "enqueue is closed for participant p1 by ")
	results, err := atEast.EnqueueBatch(t.Context(), []payment.Instruction{order(1)})
	east.must(err)
	wantClosed(t, "the same in a batch", results[0].Fault, "participant_id", "enqueue is closed for participant p1 by ")
	if _, err = closes(stranger(bucket)); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("of another name of the bucket, once it is taken: %v", err)
	}
	// The gate that is closed is known, though nothing was stored behind it.
	if wasOpen, err = closes("p1"); err != nil || wasOpen {
		t.Errorf("closing it again: %t, %v", wasOpen, err)
	}
	wasClosed, err := o.OpenEnqueue(t.Context(), theP1, why)
	if err != nil || !wasClosed {
		t.Errorf("opening it: %t, %v", wasClosed, err)
	}
	receipt, err = atEast.Enqueue(t.Context(), order(2))
	wantReceipt(t, receipt, err, 1, false)
}

// TestGateLeftByAnAssignment: a bucket is not given away while a gate of it is closed, or a pause in force, which would
// not hold in the other cell: neither by an assignment, which moves no participants, nor at the end of a move. It can
// be given to the cell whose gate it is.
func TestGateLeftByAnAssignment(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	bucket := outbox.BucketOf("p1")
	closes := func(c *cellDesk) {
		t.Helper()
		_, err := c.operator().CloseEnqueue(t.Context(), theP1, why, time.Time{})
		c.must(err)
	}
	opens := func(c *cellDesk) {
		t.Helper()
		_, err := c.operator().OpenEnqueue(t.Context(), theP1, why)
		c.must(err)
	}
	const closed = "can't be moved now: its gate is closed here, and would not be there: open it first"
	named := fmt.Sprintf("participant 'p1' of bucket %d ", bucket)
	closes(west)
	east.must(east.gives(west, bucket))
	wantRefused(t, "given away by the cell whose gate it is", west.gives(east, bucket), "RH020", named+closed)
	wantRefused(t, "with others", west.act(`SELECT railhead.give_buckets($1, 'east', 'a test')`, []int{bucket ^ 1, bucket}),
		"RH020", "this cell does not take 1 of the buckets")
	wantRefused(t, "frozen", west.act(`SELECT railhead.freeze_bucket($1, 'east', 'a test')`, bucket), "RH020", named+closed)
	same(t, "frozen", west.text(`SELECT (leaving IS NULL)::text FROM railhead.payment_buckets WHERE bucket = $1`, bucket),
		"true")
	opens(west)
	west.must(west.gives(east, bucket))

	// Nor at the end of a move.
	receipt, err := openIngest(t, east.Cell, 4).Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	east.must(east.operator().FreezeBucket(t.Context(), bucket, "west", why))
	packed, err := east.operator().PackBucket(t.Context(), bucket)
	east.must(err)
	east.must(east.operator().Carry(t.Context(), west.operator(), bucket, packed, func(int64) {}))
	closes(east)
	err = east.gives(west, bucket)
	wantRefused(t, "a gate that was closed after it was packed", err, "RH020", named+closed)
	if fault, ok := errors.AsType[*pgconn.PgError](err); !ok ||
		!strings.Contains(fault.Hint, "railhead cell move --cancel") {
		t.Errorf("the hint of %v does not say how the move ends", err)
	}
	opens(east)
	east.must(east.act(`SELECT railhead.pause_participant('p1', 'a test')`))
	wantRefused(t, "a pause", east.gives(west, bucket), "RH020",
		named+"can't be moved now: it is paused here, and would not be there: resume it first")
	east.must(east.act(`SELECT railhead.resume_participant('p1', 'a test')`))
	east.must(east.gives(west, bucket))
}
