package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// moves moves the bucket of a participant to another cell, which learns it.
func (c *cellDesk) moves(other *cellDesk, participant string) {
	c.t.Helper()
	bucket, ctx := outbox.BucketOf(participant), c.t.Context()
	c.must(c.operator().FreezeBucket(ctx, bucket, other.name, "a test"))
	packed, err := c.operator().PackBucket(ctx, bucket)
	c.must(err)
	c.must(c.operator().Carry(ctx, other.operator(), bucket, packed, func(int64) {}))
	c.must(c.gives(other, bucket))
}

// TestKeysAreReadAfterTheAct: an operator's login gets the fingerprints of packed keys only once the operator log has
// who packed the bucket; in one transaction that row could be rolled back.
func TestKeysAreReadAfterTheAct(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.enqueue()
	bucket, ctx := outbox.BucketOf("participant"), t.Context()
	east.must(east.operator().FreezeBucket(ctx, bucket, west.name, "a test"))
	const read = `SELECT railhead.packed_keys(m.bucket, m.version, '', -1, '00000000-0000-0000-0000-000000000000', 100)::text
		FROM railhead.payment_bucket_moves m`
	tx, err := east.acts.Begin(ctx)
	east.must(err)
	_, err = tx.Exec(ctx, `SELECT railhead.pack_bucket($1)`, bucket)
	east.must(err)
	var keys string
	err = tx.QueryRow(ctx, read).Scan(&keys)
	wantRefused(t, "fingerprints in the transaction that packs, got "+keys, err, "RH020", "operator log")
	east.must(tx.Rollback(ctx))

	east.must(east.act(`SELECT railhead.pack_bucket($1)`, bucket))
	east.must(east.acts.QueryRow(ctx, read).Scan(&keys))
	if !strings.Contains(keys, "fingerprint") {
		t.Errorf("the keys of a packed bucket are %s", keys)
	}
	same(t, "acts of packing in the log", east.Int(`SELECT count(*) FROM railhead.payment_operator_log
		WHERE act = 'PACK_BUCKET' AND actor = $1`, celltest.Operator), 1)
}

// TestDigestIsReadAfterTheAct: the digest of a packed bucket covers the fingerprint of each key, so an operator who
// guesses a payload learns from it whether the guess is right. It is answered once the log has who froze the bucket:
// rolling the packing back does not take that back.
func TestDigestIsReadAfterTheAct(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.enqueue()
	bucket, ctx := outbox.BucketOf("participant"), t.Context()
	acts := func() int {
		return east.Int(`SELECT count(*) FROM railhead.payment_operator_log
			WHERE act = 'FREEZE_BUCKET' AND actor = $1 AND reason = 'a test'`, celltest.Operator)
	}
	pack := func(also string) (digest string, err error) {
		tx, err := east.acts.Begin(ctx)
		east.must(err)
		_, err = tx.Exec(ctx, also)
		east.must(err)
		err = tx.QueryRow(ctx, `SELECT digest FROM railhead.pack_bucket($1)`, bucket).Scan(&digest)
		east.must(tx.Rollback(ctx))
		return digest, err
	}
	for _, also := range []string{
		fmt.Sprintf("SELECT railhead.freeze_bucket(%d, '%s', 'a test')", bucket, west.name),
		fmt.Sprintf("SAVEPOINT s; SELECT railhead.freeze_bucket(%d, '%s', 'a test'); RELEASE s", bucket, west.name),
	} {
		digest, err := pack(also)
		wantRefused(t, "a digest in the transaction that freezes, got "+digest, err, "RH020", "operator log")
	}
	same(t, "acts in the log", acts(), 0)
	east.must(east.operator().FreezeBucket(ctx, bucket, west.name, "a test"))
	if digest, err := pack("SELECT 1"); err != nil || digest == "" {
		t.Errorf("a packing after the freeze: %q, %v", digest, err)
	}
	same(t, "acts in the log, once a digest was answered", acts(), 1)
}

// TestActsOnMovedParticipants: an operator goes on to pause and resume a moved participant, and to close and open its
// gate, in the cell where its payments wait; a name that never enqueued is still refused, if its bucket is the cell's.
func TestActsOnMovedParticipants(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	id := east.enqueue() // of "participant"
	east.moves(west, "participant")
	stranger := map[*cellDesk]string{
		east: stranger(outbox.BucketOf("participant") ^ 1), west: stranger(outbox.BucketOf("participant")),
	}

	for _, act := range []struct {
		what    string
		changes func(o *operator.Operator, name string) (bool, error)
	}{
		{"closing its gate", func(o *operator.Operator, name string) (bool, error) {
			return o.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: name}, "a test", time.Time{})
		}},
		{"opening its gate", func(o *operator.Operator, name string) (bool, error) {
			return o.OpenEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: name}, "a test")
		}},
		{"a pause", func(o *operator.Operator, name string) (bool, error) {
			return o.PauseParticipant(t.Context(), name, "a test", time.Time{})
		}},
	} {
		for where, cell := range map[string]*cellDesk{"the old": east, "the new": west} {
			if changed, err := act.changes(cell.operator(), "participant"); err != nil || !changed {
				t.Errorf("%s in %s cell: %t, %v", act.what, where, changed, err)
			}
			if _, err := act.changes(cell.operator(), stranger[cell]); !errors.Is(err, outbox.ErrNotFound) {
				t.Errorf("%s of a name that never enqueued, in %s cell: %v", act.what, where, err)
			}
		}
	}
	if claims := east.claim(lane("bank", 9, 9)); len(claims) != 0 {
		t.Errorf("a paused participant that has moved is claimed: %v", claims)
	}
	resumed, err := east.operator().ResumeParticipant(t.Context(), "participant", "a test")
	if err != nil || !resumed {
		t.Errorf("resuming it: %t, %v", resumed, err)
	}
	if claims := east.claim(lane("bank", 9, 9)); claims[id].OutboxID != id {
		t.Errorf("its payment is not claimed in the old cell: %v", claims)
	}
}

// TestRoutedAfterMove: a client that knows every cell gets a repeated call answered by the new one, and finds, and
// waits for, the payment in the old one.
func TestRoutedAfterMove(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	all := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	in := order(1)
	in.ParticipantID = "participant"
	first, err := all.Enqueue(t.Context(), in)
	wantReceipt(t, first, err, 1, false)
	east.moves(west, "participant")

	elsewhere := func(what string, receipt payment.Receipt, err error) {
		t.Helper()
		if err != nil || receipt.State != payment.Elsewhere || receipt.OutboxID != first.OutboxID || receipt.Differs != nil ||
			receipt.SequenceID != 1 || !receipt.CreatedAt.Equal(first.CreatedAt) || !receipt.Replayed {
			t.Errorf("%s: %+v, %v", what, receipt, err)
		}
	}
	again, err := all.Enqueue(t.Context(), in)
	if err != nil || !again.Replayed || again.State != "PENDING" {
		t.Errorf("a late retry by the old map: %+v, %v", again, err)
	}
	next := order(2)
	next.ParticipantID = in.ParticipantID
	receipt, err := all.Enqueue(t.Context(), next)
	wantReceipt(t, receipt, err, 2, false)
	again, err = all.Enqueue(t.Context(), in)
	elsewhere("a late retry", again, err)
	results, err := all.EnqueueBatch(t.Context(), []payment.Instruction{in})
	east.must(err)
	if results[0].Fault != nil {
		t.Fatal(results[0].Fault)
	}
	elsewhere("the same in a batch", results[0].Receipt, nil)
	tx, err := west.ingest.Begin(t.Context())
	east.must(err)
	again, err = all.EnqueueTx(t.Context(), tx, in)
	elsewhere("the same in the caller's transaction", again, err)
	east.must(tx.Commit(t.Context()))

	status, err := all.Status(t.Context(), keyOf(in))
	if err != nil || status.State != "PENDING" || status.OutboxID != first.OutboxID {
		t.Errorf("its status: %+v, %v", status, err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	rested := make(chan error, 1)
	go func() {
		status, err := all.Await(waiting, keyOf(in))
		if err == nil && status.State != "DISPATCHED" {
			err = errors.New("it is " + status.State)
		}
		rested <- err
	}()
	claim := east.claimOne(first.OutboxID)
	east.record(told(payment.Policy{}, claim, payment.ResultAccepted, "reference"))
	if err := <-rested; err != nil {
		t.Errorf("waiting for it: %v", err)
	}

	// A client of the new cell alone does not find it, and does not wait for it.
	alone := openRouted(t, west.URL(celltest.Ingest), nil)
	again, err = alone.Enqueue(t.Context(), in)
	elsewhere("a late retry at the new cell", again, err)
	if _, err := alone.Await(waiting, keyOf(in)); !errors.Is(err, outbox.ErrNotFound) || waiting.Err() != nil {
		t.Errorf("waiting for it in the new cell: %v", err)
	}
}

// TestFindMoved: in the new cell a payment of before the move is said to be in another one, and its numbers are not
// missing; at home again the participant has those of both.
func TestFindMoved(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	before := east.enqueue() // INV-1 of "participant"
	instruction := east.text(`SELECT instruction_id FROM railhead.payment_outbox_keys`)
	east.moves(west, "participant")
	there, here := openReader(t, east.Cell), openReader(t, west.Cell)
	says := `sequence 1 of participant "participant", was enqueued before the participant was moved to this one. ` +
		"Look in the cells that had it: east"
	for _, reference := range []string{before.String(), instruction} {
		found, err := here.Find(t.Context(), reference)
		if !errors.Is(err, outbox.ErrElsewhere) || !strings.Contains(err.Error(), says) || found != nil {
			t.Errorf("%s in the new cell: %+v, %v", reference, found, err)
		}
		if found, err = there.Find(t.Context(), reference); err != nil || len(found) != 1 || found[0].Elsewhere {
			t.Errorf("%s in the old cell: %+v, %v", reference, found, err)
		}
	}
	if _, err := here.Timeline(t.Context(), before); !errors.Is(err, outbox.ErrElsewhere) {
		t.Errorf("its timeline in the new cell: %v", err)
	}
	if _, err := here.Timeline(t.Context(), payment.NewID()); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("the timeline of no payment: %v", err)
	}

	pay := func(cell *cellDesk, participant, instruction string) payment.ID {
		t.Helper()
		in := order(7)
		in.ParticipantID, in.InstructionID, in.IdempotencyKey = participant, instruction, participant+instruction
		receipt, err := openIngest(t, cell.Cell, 1).Enqueue(t.Context(), in)
		cell.must(err)
		return receipt.OutboxID
	}
	east.must(east.gives(west, outbox.BucketOf("another")))
	same := pay(west, "another", instruction)
	found, err := here.Find(t.Context(), instruction)
	if err != nil || len(found) != 2 || found[0].OutboxID != before || !found[0].Elsewhere ||
		!slices.Equal(found[0].Cells, []string{"east"}) || found[1].OutboxID != same || found[1].Elsewhere {
		t.Errorf("one of two with an id is in another cell: %+v, %v", found, err)
	}

	pay(west, "participant", "INV-there")
	numbers := func(what string, r *reader.Reader, numbers, elsewhere int64) {
		t.Helper()
		p, err := r.Participant(t.Context(), "participant")
		if err != nil || p.Lowest != 1 || p.Highest != numbers || p.Numbers != numbers || p.Elsewhere != elsewhere ||
			p.Missing() != 0 {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	numbers("in the new cell", here, 2, 1)
	west.moves(east, "participant")
	pay(east, "participant", "INV-home")
	numbers("at home", there, 3, 1)
	if found, err = there.Find(t.Context(), before.String()); err != nil || len(found) != 1 || found[0].Elsewhere {
		t.Errorf("at home: %+v, %v", found, err)
	}
}

// TestUntakenBuckets: buckets whose participants no cell takes are counted by the cell that has them, while they are
// moved and until they have arrived, and by each while maps contradict each other.
func TestUntakenBuckets(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.enqueue() // of "participant"
	bucket := outbox.BucketOf("participant")
	untaken := func(when string, inEast, inWest int64) {
		t.Helper()
		for cell, want := range map[*cellDesk]int64{east: inEast, west: inWest} {
			r := openReader(t, cell.Cell)
			state, err := r.MapState(t.Context())
			gauges, failed := r.Gauges(t.Context(), reader.GaugeQuery{})
			if err != nil || failed != nil || state.Untaken != want || gauges.Untaken != want || !state.Confirmed {
				t.Errorf("%s, in %s: %+v, %d, %v, %v, want %d", when, cell.name, state, gauges.Untaken, err, failed, want)
			}
		}
	}
	untaken("at first", 0, 0)
	east.must(east.operator().FreezeBucket(t.Context(), bucket, "west", "a test"))
	untaken("while it is moved", 1, 0)
	packed, err := east.operator().PackBucket(t.Context(), bucket)
	east.must(err)
	east.must(east.act(`SELECT railhead.give_buckets(ARRAY[$1::integer], 'west', 'a test')`, bucket))
	east.must(west.learns(east))
	untaken("while its keys are away", 0, 1)
	east.must(east.operator().Carry(t.Context(), west.operator(), bucket, packed, func(int64) {}))
	east.must(west.learns(east))
	untaken("when it is taken", 0, 0)
	west.do(`UPDATE railhead.payment_buckets SET contradicted = true, mine = false WHERE bucket = 5`)
	untaken("while maps contradict each other", 0, 1)
}

// TestCarriedToACellThatHangs: no cell takes participants while they are carried, so the command ends where the new
// cell does not answer any more.
func TestCarriedToACellThatHangs(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"payment_arrived_participants", "payment_arrived_keys"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			east, west := twoCells(t)
			east.enqueue()
			bucket, ctx := outbox.BucketOf("participant"), t.Context()
			from, to := east.operator(), west.operator()
			_, err := to.BucketMove(ctx, bucket, 0) // has a connection, which has compared the schema
			west.must(err)
			west.do(`CREATE FUNCTION railhead.hang() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN PERFORM pg_sleep(120) FROM loaded LIMIT 1; RETURN NULL; END $$`)
			west.do(`CREATE TRIGGER hang AFTER INSERT ON railhead.` + table + `
				REFERENCING NEW TABLE AS loaded EXECUTE FUNCTION railhead.hang()`)
			east.must(from.FreezeBucket(ctx, bucket, west.name, "a test"))
			packed, err := from.PackBucket(ctx, bucket)
			east.must(err)
			began := time.Now()
			err = from.Carry(ctx, to, bucket, packed, func(int64) {})
			if took := time.Since(began); !errors.Is(err, operator.ErrNoAnswer) || took > 50*time.Second {
				t.Errorf("after %s: %v", took.Round(time.Second), err)
			}
		})
	}
}
