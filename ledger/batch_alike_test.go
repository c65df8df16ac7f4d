package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// drawnItem is an item of a batch of few instructions, keys and participants, so that they share them.
func drawnItem(draw *rand.Rand, participant string) payment.Instruction {
	in := orderOf(1, participant)
	in.InstructionID, in.IdempotencyKey = fmt.Sprintf("i%d", draw.IntN(4)), fmt.Sprintf("k%d", draw.IntN(3))
	amount := []string{"1.00", "1.00", "1.00", "1.00", "1.00", "1.00", "2.00", "0"}[draw.IntN(8)]
	in.Payload = fmt.Appendf(nil, `{"amount": %q, "currency": "EUR"}`, amount)
	if draw.IntN(6) == 0 {
		in.ExpiresAt = time.Now().Add(-time.Hour)
	}
	return in
}

// alike enqueues a batch, and each item of another batch alone, and compares the answers.
func alike(t *testing.T, to *ingest.Ingest, batch, alone []payment.Instruction) {
	t.Helper()
	results, err := to.EnqueueBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for n := range batch {
		by := outbox.ReceiptOrFault{}
		by.Receipt, err = to.Enqueue(t.Context(), alone[n])
		if err != nil {
			var ok bool
			if by.Fault, ok = errors.AsType[*outbox.Fault](err); !ok {
				t.Fatal(err)
			}
		}
		got, want := answerOf(results[n]), answerOf(by)
		fmt.Fprintf(&said, "\n%s %s %s %s expires %v: %s, alone %s", batch[n].InstructionID, batch[n].ParticipantID,
			batch[n].IdempotencyKey, batch[n].Payload, !batch[n].ExpiresAt.IsZero(), got, want)
		// Of two reasons the batch may name the other one: what is wrong with the item itself, or that its
		// instruction has another key, in place of that its key has other content.
		if got != want && (want != "RH001 idempotency_key SAME_CONTENT" || !slices.Contains(otherReasons, got)) {
			t.Errorf("a batch:%s", said.String())
			return
		}
	}
}

var otherReasons = []string{"RH002 payload.amount ZERO", "RH006 expires_at EXPIRED", "RH007 idempotency_key ONE_KEY"}

// TestBatchIsAsItsItems: a batch in which participants share instructions and keys, with unsound items and items of
// other content, is answered as its items are if each is enqueued alone, in their order, and leaves no gap.
func TestBatchIsAsItsItems(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	in := openIngest(t, cell, 4)
	draw := rand.New(rand.NewPCG(7, 9))
	for round := range 250 {
		var batch, alone []payment.Instruction
		for range 2 + draw.IntN(7) {
			one := drawnItem(draw, fmt.Sprintf("p%d", draw.IntN(2)))
			batch, alone = append(batch, inRound(one, round, "batch")), append(alone, inRound(one, round, "alone"))
		}
		alike(t, in, batch, alone)
	}
}

func inRound(in payment.Instruction, round int, how string) payment.Instruction {
	in.InstructionID += fmt.Sprintf("-%d-%s", round, how)
	in.ParticipantID += fmt.Sprintf("-%d-%s", round, how)
	return in
}

// TestBatchOfMovedParticipants: as TestBatchIsAsItsItems, where two of three participants were moved to this cell with
// what they had enqueued in another one, and where they have come back.
func TestBatchOfMovedParticipants(t *testing.T) {
	t.Parallel()
	const rounds = 60
	east, west := twoCells(t)
	toEast, toWest := openIngest(t, east.Cell, 2), openIngest(t, west.Cell, 4)
	east.must(east.gives(west, (outbox.BucketOf("participant")+1)%outbox.Buckets))
	name := func(in payment.Instruction, round int, how string) payment.Instruction {
		in.InstructionID += fmt.Sprintf("-%d-%s", round, how)
		bucket := outbox.BucketOf("participant")
		if in.ParticipantID == "native" {
			bucket = (bucket + 1) % outbox.Buckets
		}
		in.ParticipantID = inBucket(bucket, fmt.Sprintf("%s-%d-%s-", in.ParticipantID, round, how))
		return in
	}
	draw := rand.New(rand.NewPCG(7, 9))
	for round := range rounds {
		for range 1 + draw.IntN(4) {
			in := drawnItem(draw, fmt.Sprintf("mover%d", draw.IntN(2)))
			in.ExpiresAt = time.Time{}
			for _, how := range []string{"batch", "alone"} {
				if _, err := toEast.Enqueue(t.Context(), name(in, round, how)); err != nil {
					if _, refused := errors.AsType[*outbox.Fault](err); !refused {
						t.Fatal(err)
					}
				}
			}
		}
	}
	batches := func(to *ingest.Ingest, participants ...string) {
		for round := range rounds {
			var batch, alone []payment.Instruction
			for range 2 + draw.IntN(7) {
				one := drawnItem(draw, participants[draw.IntN(len(participants))])
				batch, alone = append(batch, name(one, round, "batch")), append(alone, name(one, round, "alone"))
			}
			alike(t, to, batch, alone)
		}
	}
	east.moves(west, "participant")
	batches(toWest, "mover0", "mover1", "native")
	west.moves(east, "participant")
	batches(toEast, "mover0", "mover1")
}

// inBucket is a participant of a bucket, whose name begins with a text.
func inBucket(bucket int, begin string) string {
	for n := 0; ; n++ {
		if name := begin + strconv.Itoa(n); outbox.BucketOf(name) == bucket {
			return name
		}
	}
}

// TestCarriedBeforeAnother: a moved participant's repetition is answered by its own call in the other cell, not by a
// later item of the batch that has the same key.
func TestCarriedBeforeAnother(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	toEast, toWest := openIngest(t, east.Cell, 2), openIngest(t, west.Cell, 2)
	bucket := (outbox.BucketOf("participant") + 1) % outbox.Buckets
	east.must(east.gives(west, bucket))
	_, err := toEast.Enqueue(t.Context(), orderOf(1, "participant"))
	east.must(err)
	east.moves(west, "participant")
	other := inBucket(bucket, "other-")
	results, err := toWest.EnqueueBatch(t.Context(), []payment.Instruction{orderOf(1, "participant"), orderOf(1, other),
		orderOf(2, other), orderOf(3, "participant")})
	east.must(err)
	said, numbers := saidOf(results)
	same(t, "the batch", said+fmt.Sprint(numbers), "ELSEWHERE 1, new, new, new[1 2 2]")
}

// TestRefusedByACarriedKey: an item that is refused because another participant used its key in the other cell is not
// the first one of its instruction: what follows it is numbered in its order.
func TestRefusedByACarriedKey(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	toEast, toWest := openIngest(t, east.Cell, 2), openIngest(t, west.Cell, 2)
	twin := inBucket(outbox.BucketOf("participant"), "twin-")
	for _, in := range []payment.Instruction{orderOf(1, twin), orderOf(9, "participant")} {
		_, err := toEast.Enqueue(t.Context(), in)
		east.must(err)
	}
	east.moves(west, "participant")
	second := orderOf(1, "participant")
	second.IdempotencyKey = "another key"
	results, err := toWest.EnqueueBatch(t.Context(),
		[]payment.Instruction{orderOf(1, "participant"), second, orderOf(2, "participant")})
	east.must(err)
	said, numbers := saidOf(results)
	same(t, "the batch", said+fmt.Sprint(numbers), "RH001, new, new[2 3]")
}

// TestExpiredRepetitionInABatch: an item that has expired is answered as the repetition that it is, also if what it
// repeats is decided behind others of the batch.
func TestExpiredRepetitionInABatch(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	shared, own := orderOf(1, "p2"), orderOf(2, "p2")
	shared.InstructionID, shared.IdempotencyKey = orderOf(1, "p1").InstructionID, orderOf(1, "p1").IdempotencyKey
	again := own
	again.ExpiresAt = time.Now().Add(-time.Hour)
	results, err := openIngest(t, cell, 4).EnqueueBatch(t.Context(),
		[]payment.Instruction{orderOf(1, "p1"), shared, own, again})
	if err != nil {
		t.Fatal(err)
	}
	said, numbers := saidOf(results)
	same(t, "the batch", said+fmt.Sprint(numbers), "new, RH001, new, PENDING 1[1 1]")
	if got := results[3].Receipt.Differs; !slices.Equal(got, []string{"expires_at"}) {
		t.Errorf("it differs by %v", got)
	}
}

// answerOf is what a caller is told of an item, without what differs by the time of the call.
func answerOf(r outbox.ReceiptOrFault) string {
	if r.Fault != nil {
		return r.Fault.SQLState + " " + r.Fault.Field + " " + r.Fault.Rule
	}
	return fmt.Sprintf("number %d, replayed %v", r.Receipt.SequenceID, r.Receipt.Replayed)
}

// TestBusyBehindNothing: an item whose participant another transaction has locked is busy, also if an item behind it
// has taken its key.
func TestBusyBehindNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueue()
	elsewhere := d.Conn(t, "")
	mustExec(t, elsewhere, `BEGIN`)
	mustExec(t, elsewhere, `SELECT FROM railhead.participant_outbox_sequences FOR UPDATE`)
	var said string
	d.must(d.ingest.QueryRow(t.Context(), `SELECT string_agg(coalesce(e.error_code, e.state), ' ' ORDER BY e.item)
		FROM railhead.enqueue_payment_outbox_arrays('{i,i}', '{participant,another}', '{k,k}', '{bank,bank}',
			array_fill('{"amount": "1.00", "currency": "EUR"}'::jsonb, '{2}')) e`).Scan(&said))
	same(t, "the batch", said, "RH015 PENDING")
}
