package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// twoDirectories are two cells, each the first one of a directory of its own.
func twoDirectories(t *testing.T) (east, west *cellDesk) {
	t.Helper()
	east, west = unnamedCell(t, "east"), unnamedCell(t, "west")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	west.must(west.act(`SELECT railhead.name_cell('west', 'WEST', 'railhead', 'the first')`))
	for _, cell := range []*cellDesk{east, west} {
		cell.must(cell.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', 'a test')`))
	}
	return east, west
}

func keysOf(cell *cellDesk) int { return cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`) }

// beatTo sends a heartbeat of an API to the cell of a setting.
func beatTo(t *testing.T, r *door.Routed, setting string) error {
	t.Helper()
	_, err := r.Heartbeat(t.Context(), setting, outbox.Heartbeat{Name: "api-1", Kind: "ingest", Status: "running",
		Budget: outbox.DefaultTimeBudget()})
	return err
}

// TestRoutedDoorOfTwoDirectories: a process stores no key in two cells of different directories, whichever of them is
// away when it begins, and notices what it has.
func TestRoutedDoorOfTwoDirectories(t *testing.T) {
	t.Parallel()
	east, west := twoDirectories(t)
	some, _ := someOf(1, "one")
	all, participants := entrusted(some)
	who := bearer("both", everyVerb, participants, east, west)
	begin := func() *door.Routed { return openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API)) }
	refused := func(what string, r *door.Routed) {
		t.Helper()
		if _, err := r.Enqueue(t.Context(), who, all[0]); err == nil || errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("%s: an enqueue: %v", what, err)
		}
		results, err := r.EnqueueBatch(t.Context(), who, all)
		if err == nil && (results[0].Fault == nil || !errors.Is(results[0].Fault, outbox.ErrOtherCell)) {
			t.Errorf("%s: a batch: %+v", what, results)
		}
	}
	for _, away := range []string{"EAST", "WEST"} {
		r := begin()
		r.SetAway(away, true)
		refused(away+" is away", r)
		r.SetAway(away, false)
		refused(away+" is back", r)
		if err := errors.Join(beatTo(t, r, "EAST"), beatTo(t, r, "WEST")); !errors.Is(err, door.ErrOtherDirectory) {
			t.Errorf("heartbeats when %s is back: %v", away, err)
		}
	}
	r := begin()
	if err := r.CheckKeys(t.Context()); !errors.Is(err, door.ErrOtherDirectory) {
		t.Errorf("a check of both: %v", err)
	}
	refused("both are there", r)
	if e, w := keysOf(east), keysOf(west); e+w != 0 {
		t.Errorf("%d instructions are in east, and %d in west", e, w)
	}

	// A client with the same router, by the URL of either, and by one that no setting has.
	settings := map[string]string{"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest)}
	for what, c := range map[string]struct {
		home     string
		settings map[string]string
	}{
		"both":                 {settings["EAST"], settings},
		"home is away":         {awayURL, map[string]string{"EAST": awayURL, "WEST": settings["WEST"]}},
		"the other is away":    {settings["EAST"], map[string]string{"EAST": settings["EAST"], "WEST": awayURL}},
		"home has no setting":  {awayURL, map[string]string{"WEST": settings["WEST"]}},
		"home is of the other": {settings["EAST"], map[string]string{"WEST": settings["WEST"]}},
	} {
		client := openRouted(t, c.home, c.settings)
		if _, err := client.Enqueue(t.Context(), some[0]); !errors.Is(err, outbox.ErrOtherCell) {
			t.Errorf("a client, %s: %v", what, err)
		}
		if setting, err := client.Setting(t.Context(), some[0].ParticipantID); !errors.Is(err, outbox.ErrOtherCell) {
			t.Errorf("a client, %s: the setting is %s, %v", what, setting, err)
		}
	}
	if e, w := keysOf(east), keysOf(west); e+w != 0 {
		t.Errorf("%d instructions are in east, and %d in west", e, w)
	}
}

// threeCells are east and west with half of the buckets each, and north without one.
func threeCells(t *testing.T) (east, west, north *cellDesk) {
	t.Helper()
	east, west = halved(t)
	north = unnamedCell(t, "north")
	north.must(north.joins(east))
	east.must(east.learns(north))
	west.must(west.learns(north))
	north.must(north.learns(west))
	north.must(north.learns(east))
	east.must(east.confirms(west, north))
	west.must(west.confirms(east, north))
	north.must(north.confirms(east, west))
	return east, west, north
}

// TestRoutedDoorUnserved: a process with an old map does not call unknown what a cell has that it does not serve, and
// lists nothing short of it.
func TestRoutedDoorUnserved(t *testing.T) {
	t.Parallel()
	east, west, north := threeCells(t)
	p := nameInLower("moved")
	who := bearer("both", everyVerb, []string{p}, east, west, north)
	cancels := bearer("cancels", []string{"CANCEL"}, []string{p}, east, west, north)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	client := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	in := order(1)
	in.ParticipantID = p
	_, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	east.must(err)
	_, err = client.Status(t.Context(), keyOf(order(9)))
	if !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what is nowhere, by a client: %v", err)
	}
	east.must(r.CheckKeys(t.Context())) // the maps of before
	east.moves(north, p)
	other, err := door.Open(t.Context(), ledger.Config{URL: north.URL(celltest.API), Cell: "railhead", MaxConns: 2})
	east.must(err)
	t.Cleanup(other.Close)
	in = order(2)
	in.ParticipantID = p
	there, err := other.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	east.must(err)
	for what, call := range map[string]func() error{
		"status": func() error { _, err := r.Status(t.Context(), who, there.OutboxID); return err },
		"list": func() error {
			_, err := r.List(t.Context(), who, outbox.Page{ParticipantID: p, Most: 9})
			return err
		},
		"cancel":            func() error { _, _, err := r.Cancel(t.Context(), who, there.OutboxID, "a test"); return err },
		"cancel alone":      func() error { _, _, err := r.Cancel(t.Context(), cancels, there.OutboxID, "a test"); return err },
		"a client's status": func() error { _, err := client.Status(t.Context(), keyOf(in)); return err },
		"a client's statuses": func() error {
			_, err := client.Statuses(t.Context(), []payment.Key{keyOf(in)})
			return err
		},
	} {
		if err := call(); !errors.Is(err, outbox.ErrNoSetting) {
			t.Errorf("%s of what is in a cell that is not served: %v", what, err)
		}
	}
}

// TestRoutedDoorEmptyCell: a setting that leads to a cell without buckets, in place of one that has some, is noticed.
func TestRoutedDoorEmptyCell(t *testing.T) {
	t.Parallel()
	east, west, north := threeCells(t)
	p := ""
	for n := 0; p == "" || !isWests(p); n++ {
		p = fmt.Sprint("upper-", n)
	}
	who := bearer("both", everyVerb, []string{p}, east, west, north)
	r := openRoutedDoor(t, east.URL(celltest.API), north.URL(celltest.API))
	if err := r.CheckKeys(t.Context()); !errors.Is(err, door.ErrOtherSetting) {
		t.Errorf("a check: %v", err)
	}
	if err := beatTo(t, r, "WEST"); !errors.Is(err, door.ErrOtherSetting) {
		t.Errorf("a heartbeat: %v", err)
	}
	if _, err := r.Status(t.Context(), who, payment.NewID()); err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what may be in west: %v", err)
	}
	if list, err := r.List(t.Context(), who, outbox.Page{ParticipantID: p, Most: 9}); err == nil {
		t.Errorf("a list of %d without west", len(list))
	}
}

// TestOneSettingOfTwoCells: two cells of a server have one setting and two schemas, and an API serves one of them. What
// is in the other one is not served, which is not the same as not there.
func TestOneSettingOfTwoCells(t *testing.T) {
	t.Parallel()
	east, west := unnamedCell(t, "east"), unnamedCell(t, "west")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	id, cells, _ := east.directory()
	west.must(west.act(`SELECT railhead.name_cell('west', 'EAST', 'railhead2', 'it grows', $1, $2)`, id, cells))
	west.must(west.learns(east))
	east.must(east.learns(west))
	west.must(west.learns(east))
	east.must(east.confirms(west))
	west.must(west.confirms(east))
	in := order(1)
	east.must(east.gives(west, outbox.BucketOf(in.ParticipantID)))
	who := bearer("both", everyVerb, []string{in.ParticipantID}, east, west)
	there, err := door.Open(t.Context(), ledger.Config{URL: west.URL(celltest.API), Cell: "railhead", MaxConns: 2})
	east.must(err)
	t.Cleanup(there.Close)
	receipt, err := there.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	wantReceipt(t, receipt, err, 1, false)

	r, err := door.OpenRouted(t.Context(), []door.Cell{{Setting: "EAST", Config: ledger.Config{
		URL: east.URL(celltest.API), Cell: "railhead", MaxConns: 4, ConnectTimeout: time.Second}}})
	east.must(err)
	t.Cleanup(r.Close)
	_, statusErr := r.Status(t.Context(), who, receipt.OutboxID)
	_, listErr := r.List(t.Context(), who, outbox.Page{ParticipantID: in.ParticipantID, Most: 9})
	_, enqueueErr := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	for what, err := range map[string]error{"status": statusErr, "list": listErr, "enqueue": enqueueErr} {
		if !errors.Is(err, outbox.ErrNoSetting) {
			t.Errorf("%s: %v, want %v", what, err, outbox.ErrNoSetting)
		}
	}
}
