package ledger_test

import (
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestRoutedDoorOfTwins: of two directories whose cells have the same names, settings, schemas and versions, such as
// an installation and its rehearsal, a process with a setting that leads to a cell of the other one enqueues nothing
// there, one by one or in a batch, and notices it.
func TestRoutedDoorOfTwins(t *testing.T) {
	t.Parallel()
	east, _ := halved(t)
	_, west := halved(t) // that of the other directory
	some, atWest := someOf(12, "one")
	all, participants := entrusted(some)
	who := bearer("both", everyVerb, participants, east, west)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	for _, in := range all[:6] {
		_, err := r.Enqueue(t.Context(), who, in)
		if isWests(in.ParticipantID) != errors.Is(err, outbox.ErrOtherCell) || err != nil && !isWests(in.ParticipantID) {
			t.Errorf("an enqueue for a participant of west (%t): %v", isWests(in.ParticipantID), err)
		}
	}
	results, err := r.EnqueueBatch(t.Context(), who, all)
	east.must(err)
	for n, in := range all {
		if isWests(in.ParticipantID) != (results[n].Fault != nil) {
			t.Errorf("a batch, of a participant of west (%t): %v", isWests(in.ParticipantID), results[n].Fault)
		}
	}
	if err := beatTo(t, r, "WEST"); !errors.Is(err, door.ErrOtherDirectory) {
		t.Errorf("a heartbeat: %v", err)
	}
	if err := r.CheckKeys(t.Context()); !errors.Is(err, door.ErrOtherDirectory) {
		t.Errorf("a check: %v", err)
	}
	more, moreAtWest := someOf(12, "more")
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	for _, call := range []func(*ingest.Routed, payment.Instruction) error{
		func(client *ingest.Routed, in payment.Instruction) error {
			_, err := client.Enqueue(t.Context(), in)
			return err
		},
		func(client *ingest.Routed, in payment.Instruction) error {
			results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{in})
			if err == nil && results[0].Fault != nil {
				err = results[0].Fault
			}
			return err
		},
	} {
		client := openRouted(t, settings["EAST"], settings)
		for _, in := range more {
			if err := call(client, in); isWests(in.ParticipantID) != errors.Is(err, outbox.ErrOtherCell) {
				t.Errorf("a client, for a participant of west (%t): %v", isWests(in.ParticipantID), err)
			}
		}
	}
	if e, w := keysOf(east), keysOf(west); w != 0 || e != len(all)+len(more)-atWest-moreAtWest {
		t.Errorf("%d instructions are in east, and %d in west", e, w)
	}
}

// TestRoutedAddressThatChanges: a process stores nothing over a new connection to an address that leads to another
// directory since the map of its cell was read.
func TestRoutedAddressThatChanges(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	in, first := orderOf(1, nameInUpper("upper")), orderOf(2, nameInUpper("upper"))
	who := bearer("both", everyVerb, []string{in.ParticipantID}, east, west)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	client := openRouted(t, settings["EAST"], settings)
	_, err := client.Enqueue(t.Context(), first)
	east.must(err)
	_, err = r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(3, first.ParticipantID)})
	east.must(err)
	stored := keysOf(west)

	// The address of west leads to the cell of another directory, and connections are made anew.
	west.Exec(`ALTER TABLE railhead.payment_cells DISABLE TRIGGER USER;
		UPDATE railhead.payment_cells SET directory_id = gen_random_uuid();
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
			AND usename IN ('` + celltest.Ingest + `', '` + celltest.API + `')`)
	for range 3 {
		if _, err := client.Enqueue(t.Context(), in); err == nil {
			t.Error("it was stored by a client")
		}
		if _, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in}); err == nil {
			t.Error("it was stored by the API's routes")
		}
	}
	if n := keysOf(west); n != stored {
		t.Errorf("%d instructions are stored there, want %d", n, stored)
	}
}

// TestHomeSpeaksFirst: which directory an API of several cells serves is said by the first cell, although the heartbeat
// of another one comes before that of the first.
func TestHomeSpeaksFirst(t *testing.T) {
	t.Parallel()
	east, _ := halved(t)
	_, west := halved(t) // that of the other directory
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	if err := beatTo(t, r, "WEST"); !errors.Is(err, door.ErrOtherDirectory) {
		t.Errorf("the first heartbeat, of another directory: %v", err)
	}
	if err := beatTo(t, r, "EAST"); err != nil {
		t.Errorf("that of the first cell: %v", err)
	}
}
