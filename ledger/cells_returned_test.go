package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/proofs"
)

// returned leaves p1 at home after it was moved to west and back: one payment was enqueued before, and one in west.
func returned(t *testing.T) (east, west *cellDesk, bucket int) {
	t.Helper()
	east, west = twoCells(t)
	for n, cell := range []*cellDesk{east, west} {
		receipt, err := openIngest(t, cell.Cell, 1).Enqueue(t.Context(), order(n+1))
		wantReceipt(t, receipt, err, int64(n+1), false)
		cell.moves([]*cellDesk{west, east}[n], "p1")
	}
	return east, west, outbox.BucketOf("p1")
}

// forgetMoves undoes every move of a bucket, as a restore to a time before them does.
func (c *cellDesk) forgetMoves(bucket int) {
	for _, table := range []string{
		"payment_packed_participants", "payment_arrived_participants", "payment_arrived_keys", "payment_arrivals",
	} {
		c.do(`ALTER TABLE railhead.` + table + ` DISABLE TRIGGER ALL`)
		c.do(`DELETE FROM railhead.`+table+` WHERE bucket = $1`, bucket)
		c.do(`ALTER TABLE railhead.` + table + ` ENABLE TRIGGER ALL`)
	}
	c.do(`UPDATE railhead.payment_buckets SET leaving = NULL WHERE bucket = $1`, bucket)
	c.do(`ALTER TABLE railhead.payment_bucket_moves DISABLE TRIGGER ALL`)
	c.do(`DELETE FROM railhead.payment_bucket_moves WHERE bucket = $1`, bucket)
	c.do(`UPDATE railhead.participant_outbox_sequences s SET moved_in = false, next_sequence_id = (SELECT max(k.sequence_id) + 1
		FROM railhead.payment_outbox_keys k WHERE k.participant_id = s.participant_id)`)
}

// TestReturnedBucket: a bucket went to another cell and came home, and the cell is restored to a time before that. What
// it takes until it knows the map may be enqueued in the other cell, too, and is not sent before an operator has
// compared it, although the bucket is the cell's own.
func TestReturnedBucket(t *testing.T) {
	t.Parallel()
	east, west, bucket := returned(t)
	id, cells, _ := west.directory()
	eastID := east.id()
	east.forgetMoves(bucket)
	east.forgetMap()
	east.unsettle()
	receipt, err := openIngest(t, east.Cell, 1).Enqueue(t.Context(), order(2)) // which is in west
	wantReceipt(t, receipt, err, 2, false)
	other := order(3)
	other.ParticipantID = stranger(bucket ^ 1)
	_, err = openIngest(t, east.Cell, 1).Enqueue(t.Context(), other)
	east.must(err)

	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'restored', $1, $2, $3)`, id, cells, eastID))
	east.must(east.learns(west))
	same(t, "whose bucket it is", east.text(`SELECT concat_ws(' ', cell, version, mine) FROM railhead.payment_buckets
		WHERE bucket = $1`, bucket), "east 3 f")
	same(t, "participants that another cell had", east.text(`SELECT railhead.foreign_participants()::text`), "1")
	east.must(east.confirms(west))
	const says = "2 payments that are pending or claimed are of participants of other cells, or of ones that another " +
		"cell had meanwhile, " +
		"such as 'p1'"
	wantRefused(t, "accepting", east.accepts(), "RH020", says)

	report, err := proofs.Run(t.Context(), east.Conn(t, ""), proofs.Options{Cell: "railhead", Names: []string{"guards"}})
	east.must(err)
	named := fmt.Sprintf("2 pending payments are of participants of bucket %d, which is another cell's, or was", bucket)
	if first := strings.Join(report.Proofs[0].First, "\n"); !strings.Contains(first, named) {
		t.Errorf("the proof of the guards says %s, and not %s", first, named)
	}

	east.must(east.act(`SELECT railhead.pause_participant('p1', 'compared with west')`))
	east.must(east.accepts())
	east.must(east.act(`SELECT railhead.cancel_payment($1, 'it is in west')`, receipt.OutboxID))
}

// TestReturnedWhileASnapshotRan: a snapshot of before the moves was put back, and its cell took what it had already
// given away until that was noticed. The bucket stays its own all the while.
func TestReturnedWhileASnapshotRan(t *testing.T) {
	t.Parallel()
	east, west, bucket := returned(t)
	move, err := west.operator().BucketMove(t.Context(), bucket, 3)
	east.must(err)
	east.forgetMoves(bucket)
	east.forget(bucket)
	receipt, err := openIngest(t, east.Cell, 1).Enqueue(t.Context(), order(2)) // which is in west
	wantReceipt(t, receipt, err, 2, false)

	// The keys arrive before it learns of the return.
	east.must(west.operator().Carry(t.Context(), east.operator(), bucket, move.Packed, func(int64) {}))
	east.must(east.learns(west))
	same(t, "whose bucket it is", east.text(`SELECT concat_ws(' ', cell, version, mine) FROM railhead.payment_buckets
		WHERE bucket = $1`, bucket), "east 3 t")
	east.unsettle()
	east.must(east.confirms(west))
	wantRefused(t, "accepting", east.accepts(), "RH020",
		"2 payments that are pending or claimed are of participants of other cells")
}

// TestReturnedLongAgo: a failover that forgot nothing holds up no payment of a bucket that has come home: what was
// enqueued before had its key go along, and what was enqueued since is of this cell alone.
func TestReturnedLongAgo(t *testing.T) {
	t.Parallel()
	east, west, _ := returned(t)
	receipt, err := openIngest(t, east.Cell, 1).Enqueue(t.Context(), order(3))
	wantReceipt(t, receipt, err, 3, false)
	same(t, "what is pending", east.Int(`SELECT count(*) FROM railhead.payment_outbox_pending`), 2)
	same(t, "participants that another cell has", east.text(`SELECT railhead.foreign_participants()::text`), "0")
	east.unsettle()
	east.must(east.confirms(west))
	east.must(east.accepts())
	// Nor does one of the cell that had it meanwhile, and of one to which it was given.
	west.unsettle()
	west.must(west.confirms(east))
	west.must(west.accepts())
}

// TestSettledBack: the cell to which a bucket was moved is lost, and it is settled for the one that gave it. A later
// failover holds up no payment of that one, whose keys the lost cell had.
func TestSettledBack(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	receipt, err := openIngest(t, east.Cell, 4).Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	east.moves(west, "p1")
	east.must(east.act(`SELECT railhead.settle_buckets(ARRAY[$1::integer], '{4}', 'east', 'west is lost', '[]')`,
		outbox.BucketOf("p1")))
	same(t, "whose bucket it is", east.text(`SELECT concat_ws(' ', cell, version, mine) FROM railhead.payment_buckets
		WHERE bucket = $1`, outbox.BucketOf("p1")), "east 4 t")
	east.unsettle()
	east.must(east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{west}', 'west is lost')`))
	east.must(east.accepts())
}
