package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// awayURL leads to a port on which nothing listens.
const awayURL = "postgres://away@127.0.0.1:1/none"

func openRouted(t *testing.T, home string, settings map[string]string) *ingest.Routed {
	t.Helper()
	r, err := ingest.OpenRouted(t.Context(), ledger.Config{URL: home, Cell: "railhead", MaxConns: 4,
		ConnectTimeout: time.Second}, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// halved are two cells, of which west has the upper half of the buckets.
func halved(t *testing.T) (east, west *cellDesk) {
	t.Helper()
	east, west = twoCells(t)
	var upper []int
	for n := outbox.Buckets / 2; n < outbox.Buckets; n++ {
		upper = append(upper, n)
	}
	east.must(east.gives(west, upper...))
	return east, west
}

// someOf returns instructions of n participants, and how many of them are west's.
func someOf(n int, prefix string) (all []payment.Instruction, west int) {
	for i := range n {
		in := order(i)
		in.ParticipantID = fmt.Sprintf("%s-%d", prefix, i)
		in.InstructionID, in.IdempotencyKey = "i-"+in.ParticipantID, "k-"+in.ParticipantID
		if outbox.BucketOf(in.ParticipantID) >= outbox.Buckets/2 {
			west++
		}
		all = append(all, in)
	}
	return all, west
}

func keyOf(in payment.Instruction) ingest.Key {
	return ingest.Key{InstructionID: in.InstructionID, IdempotencyKey: in.IdempotencyKey}
}

// TestRouted: instructions go to the cells of their participants, one by one and in batches, and are found there; a
// router with an old map reads it again, and waits for a bucket that no cell takes for a moment.
func TestRouted(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	r := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	all, atWest := someOf(20, "one")
	var keys []ingest.Key
	for _, in := range all {
		receipt, err := r.Enqueue(t.Context(), in)
		wantReceipt(t, receipt, err, 1, false)
		keys = append(keys, keyOf(in))
	}
	batch, more := someOf(30, "batch")
	results, err := r.EnqueueBatch(t.Context(), batch)
	east.must(err)
	for _, result := range results {
		if result.Fault != nil {
			t.Fatal(result.Fault)
		}
		wantReceipt(t, result.Receipt, nil, 1, false)
	}
	if atWest == 0 || atWest == len(all) || more == 0 || more == len(batch) {
		t.Fatal("all participants are of one cell: nothing was tried")
	}
	wantStream(t, west.Cell, atWest+more)
	wantStream(t, east.Cell, len(all)-atWest+len(batch)-more)
	statuses, err := r.Statuses(t.Context(), append(keys, ingest.Key{InstructionID: "x", IdempotencyKey: "x"}))
	east.must(err)
	for n, status := range statuses {
		if (status == nil) != (n == len(keys)) {
			t.Errorf("status %d is %v", n, status)
		}
	}
	for _, in := range all[:4] {
		if status, err := r.Status(t.Context(), keyOf(in)); err != nil || status.State != "PENDING" {
			t.Errorf("%s: %+v, %v", in.ParticipantID, status, err)
		}
	}
	_, err = r.Status(t.Context(), ingest.Key{InstructionID: "x", IdempotencyKey: "x"})
	if !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what is in no cell: %v", err)
	}

	// East gives another bucket; the router does not know.
	in, second := order(1), order(2)
	in.ParticipantID = nameInLower("stale")
	second.ParticipantID = nameInLower("moving")
	east.must(east.gives(west, outbox.BucketOf(in.ParticipantID)))
	receipt, err := r.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
	east.must(east.act(`SELECT railhead.give_buckets($1, 'west', 'a test')`, []int{outbox.BucketOf(second.ParticipantID)}))
	learned := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond) // while the call below finds no cell
		learned <- west.learns(east)
	}()
	results, err = r.EnqueueBatch(t.Context(), []payment.Instruction{second})
	east.must(<-learned)
	east.must(err)
	if results[0].Fault != nil {
		t.Fatalf("a bucket on its way: %v", results[0].Fault)
	}
	if n := west.Int(`SELECT count(*) FROM railhead.participant_outbox_sequences WHERE participant_id = ANY ($1)`,
		[]string{in.ParticipantID, second.ParticipantID}); n != 2 {
		t.Errorf("%d of the two participants are in west", n)
	}
}

// nameInLower returns a participant of the lower half of the buckets.
func nameInLower(prefix string) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("%s-%d", prefix, n); outbox.BucketOf(name) < outbox.Buckets/2 {
			return name
		}
	}
}

// TestRoutedOwnTransaction: a caller's own transaction is refused in another cell, and the router then names the right
// one.
func TestRoutedOwnTransaction(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	r := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	in := order(1)
	setting := func(want string) {
		t.Helper()
		got, err := r.Setting(t.Context(), in.ParticipantID)
		east.must(err)
		same(t, "setting", got, want)
	}
	setting("EAST")
	east.must(east.gives(west, outbox.BucketOf(in.ParticipantID)))
	setting("EAST")
	enqueue := func(c *cellDesk) error {
		return pgx.BeginFunc(t.Context(), c.ingest, func(tx pgx.Tx) error {
			_, err := r.EnqueueTx(t.Context(), tx, in)
			return err
		})
	}
	if err := enqueue(east); !errors.Is(err, outbox.ErrOtherCell) {
		t.Errorf("in the wrong cell: %v", err)
	}
	setting("WEST")
	east.must(enqueue(west))
}

// TestRoutedAway: a cell that is away stops its own participants alone, whichever it is; what may be in it is not
// called unknown.
func TestRoutedAway(t *testing.T) {
	t.Parallel()
	east, _ := halved(t)
	for name, test := range map[string]struct {
		home     string
		settings map[string]string
	}{
		"west":       {east.URL(celltest.Ingest), map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": awayURL}},
		"home":       {awayURL, map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": awayURL}},
		"no setting": {east.URL(celltest.Ingest), map[string]string{"EAST": east.URL(celltest.Ingest)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRouted(t, test.home, test.settings)
			all, atWest := someOf(8, name)
			refused := 0
			for _, in := range all {
				switch receipt, err := r.Enqueue(t.Context(), in); {
				case outbox.BucketOf(in.ParticipantID) < outbox.Buckets/2:
					wantReceipt(t, receipt, err, 1, false)
					if _, err := r.Status(t.Context(), keyOf(in)); err != nil {
						t.Errorf("status of what is there: %v", err)
					}
				case err == nil:
					t.Errorf("%s was enqueued in a cell that is away", in.ParticipantID)
				default:
					refused++
				}
			}
			if refused != atWest || atWest == 0 || atWest == len(all) {
				t.Errorf("%d were refused of %d, of which %d are of the cell that is away", refused, len(all), atWest)
			}
			batch, _ := someOf(8, name+"-batch")
			results, err := r.EnqueueBatch(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			for n, in := range batch {
				if outbox.BucketOf(in.ParticipantID) < outbox.Buckets/2 {
					if results[n].Fault != nil {
						t.Errorf("%s: %v", in.ParticipantID, results[n].Fault)
					}
				} else if results[n].Fault == nil || !errors.Is(results[n].Fault, outbox.ErrOtherCell) {
					t.Errorf("%s: %+v, want that its cell is away", in.ParticipantID, results[n])
				}
			}
			_, err = r.Status(t.Context(), ingest.Key{InstructionID: "x", IdempotencyKey: "x"})
			if err == nil || errors.Is(err, outbox.ErrNotFound) {
				t.Errorf("what may be in the cell that is away: %v", err)
			}
		})
	}
}

// TestRoutedWithoutMap: with settings, a cell without a map takes nothing: it may have been restored to a time before
// it had one. If another one has a map, that is used.
func TestRoutedWithoutMap(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := openRouted(t, d.URL(celltest.Ingest), map[string]string{"EAST": d.URL(celltest.Ingest)})
	if _, err := r.Enqueue(t.Context(), order(1)); !errors.Is(err, outbox.ErrNoMap) {
		t.Errorf("without a map: %v", err)
	}
	if _, err := r.Setting(t.Context(), "p1"); !errors.Is(err, outbox.ErrNoMap) {
		t.Errorf("the setting without a map: %v", err)
	}
	if _, err := r.Status(t.Context(), keyOf(order(1))); err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("a status without a map: %v", err)
	}
	wantStream(t, d.Cell, 0)

	east, west := halved(t)
	west.forgetMap()
	r = openRouted(t, west.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	in := order(1)
	in.ParticipantID = nameInLower("lower")
	receipt, err := r.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
	wantStream(t, east.Cell, 1)

	// One of its own, by a router that knows it from the map of the other: one by one, in a batch, and in a transaction.
	own := order(2)
	for n := 0; outbox.BucketOf(own.ParticipantID) < outbox.Buckets/2; n++ {
		own.ParticipantID = fmt.Sprintf("upper-%d", n)
	}
	if _, err := r.Enqueue(t.Context(), own); !errors.Is(err, outbox.ErrOtherCell) {
		t.Errorf("to the cell that has lost its map: %v", err)
	}
	more := order(3)
	more.ParticipantID = in.ParticipantID
	results, err := r.EnqueueBatch(t.Context(), []payment.Instruction{own, more})
	east.must(err)
	wantRefused(t, "to it in a batch", results[0].Fault, "RH009", "it may have been restored")
	wantReceipt(t, results[1].Receipt, nil, 2, false)
	err = pgx.BeginFunc(t.Context(), west.ingest, func(tx pgx.Tx) error {
		_, err := r.EnqueueTx(t.Context(), tx, own)
		return err
	})
	if !errors.Is(err, outbox.ErrOtherCell) {
		t.Errorf("to it in a transaction: %v", err)
	}
	wantStream(t, west.Cell, 0)
}
