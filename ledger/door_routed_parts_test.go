package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func nameInUpper(prefix string) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("%s-%d", prefix, n); isWests(name) {
			return name
		}
	}
}

func orderOf(n int, participant string) payment.Instruction {
	in := order(n)
	in.ParticipantID = participant
	return in
}

// TestRoutedFrozenCell: a cell that freezes with its connections takes nothing from callers of another one: their lines
// of a batch are answered, and their payments found, by the API's routes and by those of a client.
func TestRoutedFrozenCell(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	lower, upper := nameInLower("lower"), nameInUpper("upper")
	who := bearer("both", everyVerb, []string{lower, upper}, east, west)
	atWest, westURL := before(t, west.URL(celltest.API))
	r := openPatientDoor(t, east.URL(celltest.API), westURL)
	entrust := func(n int) []outbox.Entrusted {
		return []outbox.Entrusted{{Instruction: orderOf(n, lower)}, {Instruction: orderOf(n+1, upper)}}
	}
	results, err := r.EnqueueBatch(t.Context(), who, entrust(1))
	if err != nil || results[0].Fault != nil || results[1].Fault != nil {
		t.Fatal(results, err)
	}
	atEast, eastURL := before(t, east.URL(celltest.Ingest))
	client := openRouted(t, eastURL, map[string]string{"EAST": eastURL, "WEST": west.URL(celltest.Ingest)})
	_, err = client.EnqueueBatch(t.Context(), []payment.Instruction{orderOf(3, lower), orderOf(4, upper)})
	east.must(err)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		t.Cleanup(cancel)
		return ctx
	}

	// A connection that was not used for a second is asked first, and what was not sent to it is not in doubt.
	_, err = r.EnqueueBatch(t.Context(), who, entrust(1))
	east.must(err)
	atWest.gate.Lock()
	results, err = r.EnqueueBatch(short(), who, entrust(5))
	atWest.gate.Unlock()
	if err != nil || results[0].Fault != nil || !errors.Is(results[1].Fault, outbox.ErrCommitUnknown) {
		t.Errorf("a batch while west is frozen: %+v, %v", results, err)
	}
	atEast.gate.Lock()
	defer atEast.gate.Unlock()
	if status, err := client.Status(short(), keyOf(orderOf(4, upper))); err != nil || status.State == "" {
		t.Errorf("the status of a payment in west while home is frozen: %+v, %v", status, err)
	}
	statuses, err := client.Statuses(short(), []payment.Key{keyOf(orderOf(4, upper))})
	if err != nil || statuses[0] == nil {
		t.Errorf("the statuses of a payment in west while home is frozen: %v, %v", statuses, err)
	}
	some, err := client.EnqueueBatch(short(), []payment.Instruction{orderOf(7, lower), orderOf(8, upper)})
	if err != nil || some[1].Fault != nil || some[0].Fault == nil {
		t.Errorf("a client's batch while home is frozen: %+v, %v", some, err)
	}
}

// TestRoutedOneSettingTwice: a client of which two settings lead to one cell does not call unknown what the other cell
// has.
func TestRoutedOneSettingTwice(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	in := orderOf(1, nameInUpper("upper"))
	right := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	_, err := right.Enqueue(t.Context(), in)
	east.must(err)
	wrong := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": east.URL(celltest.Ingest),
	})
	if status, err := wrong.Status(t.Context(), keyOf(in)); err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("a payment that exists: %+v, %v", status, err)
	}
	if all, err := wrong.Statuses(t.Context(), []payment.Key{keyOf(in)}); err == nil {
		t.Errorf("a payment that exists: %+v without an error", all)
	}
}

// TestRoutedFirstOfAnotherDirectory: a process whose setting leads to the first cell of another directory, which takes
// all participants, stores nothing there, also after the bucket went to another cell of its own.
func TestRoutedFirstOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	other := unnamedCell(t, "west")
	other.must(other.act(`SELECT railhead.name_cell('west', 'WEST', 'railhead', 'the first of another directory')`))
	other.must(other.confirms())
	p := nameInUpper("upper")
	who := bearer("both", everyVerb, []string{p}, east, west, other)
	r := openRoutedDoor(t, east.URL(celltest.API), other.URL(celltest.API))
	client := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": other.URL(celltest.Ingest),
	})
	for _, when := range []string{"first", "again"} {
		if _, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(1, p)}); err == nil {
			t.Errorf("%s: it was stored by the API's routes", when)
		}
		if _, err := client.Enqueue(t.Context(), orderOf(1, p)); err == nil {
			t.Errorf("%s: it was stored by a client's", when)
		}
		if _, err := client.Status(t.Context(), keyOf(orderOf(9, p))); errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("%s: what may be in west is called unknown", when)
		}
	}
	// What the other directory has is not told as the caller's own, and a transaction of the caller's is not begun there.
	rehearsal := openRouted(t, other.URL(celltest.Ingest), nil)
	_, err := rehearsal.Enqueue(t.Context(), orderOf(2, p))
	east.must(err)
	if status, err := client.Status(t.Context(), keyOf(orderOf(2, p))); err == nil {
		t.Errorf("the status of a payment of the other directory: %+v", status)
	}
	if all, err := client.Statuses(t.Context(), []payment.Key{keyOf(orderOf(2, p))}); err == nil {
		t.Errorf("the status of a payment of the other directory: %+v", all[0])
	}
	if setting, err := client.Setting(t.Context(), p); err == nil {
		t.Errorf("the setting of the participant is %s", setting)
	}
	err = pgx.BeginFunc(t.Context(), other.ingest, func(tx pgx.Tx) error {
		_, err := client.EnqueueTx(t.Context(), tx, orderOf(3, p))
		return err
	})
	if err == nil {
		t.Error("it was stored in a transaction of the caller's own")
	}
	east.must(west.gives(east, outbox.BucketOf(p)))
	_, err = client.Enqueue(t.Context(), orderOf(1, p))
	if e, o := keysOf(east), keysOf(other); o != 1 || e > 1 {
		t.Errorf("%d instructions are in east, and %d in the other directory: %v", e, o, err)
	}
}

// TestRoutedDoorShortList: a token of the cell to which a bucket was given alone lists nothing while that cell does not
// take it, and says so.
func TestRoutedDoorShortList(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	who := bearer("both", everyVerb, []string{"participant"}, east, west)
	newcomer := bearer("newcomer", everyVerb, []string{"participant"}, west)
	for n := 1; n <= 3; n++ {
		_, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(n, "participant")})
		east.must(err)
	}
	bucket, ctx := outbox.BucketOf("participant"), t.Context()
	east.must(east.operator().FreezeBucket(ctx, bucket, "west", "a test"))
	packed, err := east.operator().PackBucket(ctx, bucket)
	east.must(err)
	east.must(east.operator().Carry(ctx, west.operator(), bucket, packed, func(int64) {}))
	none := func(what string) {
		t.Helper()
		for _, page := range []outbox.Page{{Most: 9}, {Most: 9, IdempotencyKey: "key-2"}} {
			page.ParticipantID = "participant"
			if found, err := r.List(ctx, newcomer, page); err == nil {
				t.Errorf("%s: a list of %d without an error", what, len(found))
			}
		}
	}
	none("before the gift")
	west.unsettle()
	east.must(east.gives(west, bucket))
	none("given and not taken")
}
