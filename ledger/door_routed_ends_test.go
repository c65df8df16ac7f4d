package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestRoutedWithACellOfNoDirectory: what may be in a cell whose setting leads to an installation that is in no
// directory is not called unknown, and no list lacks it.
func TestRoutedWithACellOfNoDirectory(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	other := unnamedCell(t, "other")
	p := nameInUpper("upper")
	who := bearer("both", everyVerb, []string{p}, east, west, other)
	right := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	receipt, err := right.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(1, p)})
	wantReceipt(t, receipt, err, 1, false)
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	client := openRouted(t, settings["EAST"], settings)
	_, err = client.Enqueue(t.Context(), orderOf(2, p))
	east.must(err)

	wrong := openRoutedDoor(t, east.URL(celltest.API), other.URL(celltest.API))
	east.must(beatTo(t, wrong, "EAST"))
	wants := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, door.ErrNoDirectory) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = wrong.Status(t.Context(), who, receipt.OutboxID)
	wants("a status", err)
	_, _, err = wrong.Cancel(t.Context(), who, receipt.OutboxID, "a test")
	wants("a cancel", err)
	_, err = wrong.List(t.Context(), who, outbox.Page{ParticipantID: p, Most: 10})
	wants("a list", err)
	wants("a heartbeat", beatTo(t, wrong, "WEST"))

	settings["WEST"] = other.URL(celltest.Ingest)
	client = openRouted(t, settings["EAST"], settings)
	key := keyOf(orderOf(2, p))
	_, err = client.Status(t.Context(), key)
	wants("a client's status", err)
	_, err = client.Statuses(t.Context(), []payment.Key{key})
	wants("a client's statuses", err)
}

// TestHomeHangs: an API whose first cell hangs when it starts serves the others, also with short heartbeats.
func TestHomeHangs(t *testing.T) {
	t.Parallel()
	_, west := halved(t)
	r := openPatientDoor(t, hungURL(t), west.URL(celltest.API))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := r.Heartbeat(ctx, "WEST", outbox.Heartbeat{Name: "api-1", Kind: "ingest", Status: "running",
		Budget: outbox.DefaultTimeBudget()}); err != nil {
		t.Error(err)
	}
}

// TestConnectionsThatAreNeverMade: connections of which the server answers no question while they are made end, so
// that the pool has places for others.
func TestConnectionsThatAreNeverMade(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	p := nameInUpper("upper")
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	client := openRouted(t, settings["EAST"], settings)
	_, err := client.Enqueue(t.Context(), orderOf(1, p))
	east.must(err)
	const sessions = `FROM pg_stat_activity WHERE datname = current_database() AND usename = '` + celltest.Ingest + `'`
	west.Exec(`SELECT pg_terminate_backend(pid) ` + sessions)
	super := west.Conn(t, "")
	_, err = super.Exec(t.Context(), `BEGIN; LOCK TABLE railhead.payment_cells`) // which cell it is, is asked there
	east.must(err)
	await(t, "connections wait", func() bool {
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				if _, err := client.Enqueue(ctx, orderOf(100+n, p)); err == nil {
					t.Error("it was stored over a connection that leads nowhere")
				}
			})
		}
		all.Wait()
		return west.Int(`SELECT count(*) `+sessions+` AND wait_event_type = 'Lock'`) > 0
	})
	await(t, "no connection is left", func() bool { return west.Int(`SELECT count(*) `+sessions) == 0 })
	_, err = super.Exec(t.Context(), `ROLLBACK`)
	east.must(err)
	_, err = client.Enqueue(t.Context(), orderOf(2, p))
	east.must(err)
}

// TestRoutedAddressOfAnotherCell: a new connection to an address that leads to another cell of the directory since the
// map of its cell was read is not used: what that cell does not have is not unknown.
func TestRoutedAddressOfAnotherCell(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	p := nameInUpper("upper")
	who := bearer("both", everyVerb, []string{p}, east, west)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	client := openRouted(t, settings["EAST"], settings)
	_, err := client.Enqueue(t.Context(), orderOf(1, p))
	east.must(err)
	_, err = r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(2, p)})
	east.must(err)

	// The address of west leads to a cell that says that it is east, and connections are made anew.
	west.Exec(`ALTER TABLE railhead.payment_cells DISABLE TRIGGER USER;
		UPDATE railhead.payment_cells SET here = NOT here;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
			AND usename IN ('` + celltest.Ingest + `', '` + celltest.API + `')`)
	for what, enqueue := range map[string]func() error{
		"a client": func() error {
			_, err := client.Enqueue(t.Context(), orderOf(3, p))
			return err
		},
		"the API's routes": func() error {
			_, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: orderOf(4, p)})
			return err
		},
	} {
		var err error
		held := func() bool { return strings.Contains(fmt.Sprint(err), "does not lead to the cell with setting WEST") }
		for tries := 0; tries < 8 && !held(); tries++ { // some find a connection from before
			err = enqueue()
		}
		if !held() {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRoutedAfterClose: a client that was closed stores nothing, and leaves no connection.
func TestRoutedAfterClose(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	client := openRouted(t, settings["EAST"], settings)
	_, err := client.Enqueue(t.Context(), orderOf(1, nameInLower("lower")))
	east.must(err)
	client.Close()
	if _, err := client.Enqueue(t.Context(), orderOf(2, nameInUpper("upper"))); err == nil {
		t.Error("it was stored")
	}
	if n := keysOf(west); n != 0 {
		t.Errorf("%d instructions are stored in west", n)
	}
}
