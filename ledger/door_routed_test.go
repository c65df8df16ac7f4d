package ledger_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// openRoutedDoor opens a door of two cells by their connection strings.
func openRoutedDoor(t *testing.T, east, west string) *door.Routed {
	t.Helper()
	var cells []door.Cell
	for _, each := range [][2]string{{"EAST", east}, {"WEST", west}} {
		cells = append(cells, door.Cell{Setting: each[0], Config: ledger.Config{URL: each[1], Cell: "railhead", MaxConns: 4,
			ConnectTimeout: time.Second}})
	}
	r, err := door.OpenRouted(t.Context(), cells)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// bearer puts a token in force for participants, in each of some cells.
func bearer(name string, verbs, participants []string, cells ...*cellDesk) outbox.Bearer {
	who := outbox.Bearer{Token: outbox.TokenDigest("rht_" + name)}
	outer := sha256.Sum256(who.Token[:])
	for _, cell := range cells {
		cell.Exec(`SELECT railhead.create_api_token($1, $2, $3, $4, now() + interval '1 hour', 'a test')`, outer[:], name,
			participants, verbs)
	}
	return who
}

// revokes takes a token out of force in a cell.
func (c *cellDesk) revokes(who outbox.Bearer) {
	outer := sha256.Sum256(who.Token[:])
	_, err := c.operator().RevokeToken(c.t.Context(), fmt.Sprintf("%x", outer)[:16], "a test")
	c.must(err)
}

// entrusted returns the instructions as callers over HTTP give them, and their participants.
func entrusted(all []payment.Instruction) (given []outbox.Entrusted, participants []string) {
	for _, in := range all {
		given = append(given, outbox.Entrusted{Instruction: in})
		participants = append(participants, in.ParticipantID)
	}
	return given, participants
}

func isWests(participant string) bool { return outbox.BucketOf(participant) >= outbox.Buckets/2 }

// TestRoutedDoor: calls go to the cells of their participants, one by one and in batches, and are found there; a door
// with an old map reads it again, and waits for a bucket that no cell takes for a moment.
func TestRoutedDoor(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	east.must(r.CheckKeys(t.Context()))
	ones, atWest := someOf(12, "one")
	many, more := someOf(20, "many")
	stale, moving := nameInLower("stale"), nameInLower("moving")
	all, participants := entrusted(slices.Concat(ones, many))
	who := bearer("both", everyVerb, append(participants, stale, moving), east, west)
	for _, in := range all[:len(ones)] {
		receipt, err := r.Enqueue(t.Context(), who, in)
		wantReceipt(t, receipt, err, 1, false)
		if got, err := r.Status(t.Context(), who, receipt.OutboxID); err != nil || got.ParticipantID != in.ParticipantID {
			t.Errorf("its status: %+v, %v", got, err)
		}
	}
	results, err := r.EnqueueBatch(t.Context(), who, all[len(ones):])
	east.must(err)
	for _, result := range results {
		if result.Fault != nil {
			t.Fatal(result.Fault)
		}
		wantReceipt(t, result.Receipt, nil, 1, false)
	}
	if atWest == 0 || atWest == len(ones) || more == 0 || more == len(many) {
		t.Fatal("all participants are of one cell: nothing was tried")
	}
	wantStream(t, west.Cell, atWest+more)
	wantStream(t, east.Cell, len(ones)-atWest+len(many)-more)
	if _, err := r.Status(t.Context(), who, payment.NewID()); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what is in no cell: %v", err)
	}

	of := func(n int, participant string) outbox.Entrusted {
		in := order(n)
		in.ParticipantID = participant
		return outbox.Entrusted{Instruction: in}
	}
	east.must(east.gives(west, outbox.BucketOf(stale)))
	receipt, err := r.Enqueue(t.Context(), who, of(1, stale))
	wantReceipt(t, receipt, err, 1, false)
	east.must(east.act(`SELECT railhead.give_buckets($1, 'west', 'a test')`, []int{outbox.BucketOf(moving)}))
	learned := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond) // while the call below finds no cell
		learned <- west.learns(east)
	}()
	receipt, err = r.Enqueue(t.Context(), who, of(2, moving))
	east.must(<-learned)
	wantReceipt(t, receipt, err, 1, false)
	wantStream(t, west.Cell, atWest+more+2)

	// Each cell counts the uses, and the feed of a cell has its own events alone.
	east.must(r.NoteUses(t.Context(), [][32]byte{who.Token}, []int64{3}, []int64{0}))
	for _, cell := range []*cellDesk{east, west} {
		same(t, "uses", cell.Int(`SELECT coalesce(sum(uses), 0) FROM railhead.payment_api_uses`), 3)
	}
	for _, c := range []struct {
		cell    string
		refused bool
	}{{"EAST", false}, {"WEST", false}, {"", true}, {"NORTH", true}} {
		_, err := r.Newest(t.Context(), outbox.Subscription{Bearer: who, Cell: c.cell})
		if errors.Is(err, outbox.ErrNoSetting) != c.refused || err != nil && !c.refused {
			t.Errorf("events of cell %q: %v", c.cell, err)
		}
	}
}

// TestRoutedDoorAway: a cell that is away stops its own participants alone, whichever it is, and at once if the process
// knows; what may be in it is not called unknown, and a list has no holes.
func TestRoutedDoorAway(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	for name, test := range map[string]struct {
		east, west, away string
	}{
		"west":      {east.URL(celltest.API), awayURL, ""},
		"known":     {east.URL(celltest.API), west.URL(celltest.API), "WEST"},
		"home":      {awayURL, west.URL(celltest.API), ""},
		"home-told": {east.URL(celltest.API), west.URL(celltest.API), "EAST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRoutedDoor(t, test.east, test.west)
			r.SetAway(test.away, true)
			westIsAway := test.west == awayURL || test.away == "WEST"
			some, _ := someOf(8, name)
			batch, _ := someOf(8, name+"-batch")
			all, participants := entrusted(slices.Concat(some, batch))
			who := bearer(name, everyVerb, participants, east, west)
			began, refused := time.Now(), 0
			for _, in := range all[:8] {
				gone := isWests(in.ParticipantID) == westIsAway
				receipt, err := r.Enqueue(t.Context(), who, in)
				_, listErr := r.List(t.Context(), who, outbox.Page{ParticipantID: in.ParticipantID, Most: 9})
				switch {
				case listErr == nil:
					t.Errorf("%s: a list without the cell that is away", in.ParticipantID)
				case gone && err == nil:
					t.Errorf("%s was enqueued in a cell that is away", in.ParticipantID)
				case gone:
					refused++
				default:
					wantReceipt(t, receipt, err, 1, false)
					if _, err := r.Status(t.Context(), who, receipt.OutboxID); err != nil {
						t.Errorf("status of what is there: %v", err)
					}
				}
			}
			if refused == 0 || refused == 8 {
				t.Fatalf("%d of 8 are of the cell that is away: nothing was tried", refused)
			}
			results, err := r.EnqueueBatch(t.Context(), who, all[8:])
			if err != nil {
				t.Fatal(err)
			}
			for n, in := range all[8:] {
				gone := isWests(in.ParticipantID) == westIsAway
				if fault := results[n].Fault; (fault != nil) != gone || gone && !errors.Is(fault, outbox.ErrOtherCell) {
					t.Errorf("%s: %+v", in.ParticipantID, results[n])
				}
			}
			for what, call := range map[string]func() error{
				"a status": func() error { _, err := r.Status(t.Context(), who, payment.NewID()); return err },
				"attempts": func() error { _, err := r.Attempts(t.Context(), who, payment.NewID(), 0, 9); return err },
				"a cancel": func() error { _, _, err := r.Cancel(t.Context(), who, payment.NewID(), "a test"); return err },
				"a token":  func() error { _, err := r.Token(t.Context(), [32]byte{7}); return err },
			} {
				if err := call(); err == nil || errors.Is(err, outbox.ErrNotFound) || errors.Is(err, outbox.ErrToken) {
					t.Errorf("%s of what may be in the cell that is away: %v", what, err)
				}
			}
			if _, err := r.Token(t.Context(), who.Token); err != nil {
				t.Errorf("a token that the other cell knows: %v", err)
			}
			if took := time.Since(began); test.away != "" && took > 5*time.Second {
				t.Errorf("it took %v, although the cell was known to be away", took)
			}
			if test.away != "" {
				r.SetAway(test.away, false)
				if _, err := r.Status(t.Context(), who, payment.NewID()); !errors.Is(err, outbox.ErrNotFound) {
					t.Errorf("when it is back: %v", err)
				}
			}
		})
	}
}

// TestRoutedDoorToken: each cell checks the token itself. One that is revoked in a cell, or unknown there, goes on in
// the other one, and no refusal hides what another cell answers.
func TestRoutedDoorToken(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	some, _ := someOf(8, "one")
	all, participants := entrusted(some)
	for what, who := range map[string]outbox.Bearer{
		"revoked": bearer("revoked", everyVerb, participants, east, west),
		"unknown": bearer("unknown", everyVerb, participants, west),
	} {
		if what == "revoked" {
			east.revokes(who)
		}
		if token, err := r.Token(t.Context(), who.Token); err != nil || !token.InForce {
			t.Errorf("%s in east: %+v, %v", what, token, err)
		}
		for _, in := range all {
			receipt, err := r.Enqueue(t.Context(), who, in)
			page, listErr := r.List(t.Context(), who, outbox.Page{ParticipantID: in.ParticipantID, Most: 9})
			if !isWests(in.ParticipantID) {
				if !errors.Is(err, outbox.ErrToken) || !errors.Is(listErr, outbox.ErrToken) {
					t.Errorf("%s in east: an enqueue %v, a list %v", what, err, listErr)
				}
				continue
			}
			if err != nil || listErr != nil || len(page) != 1 || page[0].OutboxID != receipt.OutboxID {
				t.Errorf("%s in east, for west: %v; list %+v, %v", what, err, page, listErr)
			}
			if _, err := r.Status(t.Context(), who, receipt.OutboxID); err != nil {
				t.Errorf("%s in east, status in west: %v", what, err)
			}
		}
		if _, err := r.Status(t.Context(), who, payment.NewID()); !errors.Is(err, outbox.ErrToken) {
			t.Errorf("%s in east, of what is nowhere else: %v", what, err)
		}
		wantStream(t, east.Cell, 0)
	}
	if _, err := r.Token(t.Context(), [32]byte{7}); !errors.Is(err, outbox.ErrToken) {
		t.Errorf("a token that no cell knows: %v", err)
	}
	who := bearer("ended", everyVerb, participants, east, west)
	east.revokes(who)
	west.revokes(who)
	if token, err := r.Token(t.Context(), who.Token); err != nil || token.InForce {
		t.Errorf("revoked in both: %+v, %v", token, err)
	}
}

// TestRoutedDoorWithoutMap: a cell that has lost its map takes nothing by a door of several, and neither does one that
// another setting leads to.
func TestRoutedDoorWithoutMap(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	some, atWest := someOf(8, "one")
	all, participants := entrusted(some)
	who := bearer("both", everyVerb, participants, east, west)
	swapped := openRoutedDoor(t, west.URL(celltest.API), east.URL(celltest.API))
	if err := swapped.CheckKeys(t.Context()); !errors.Is(err, door.ErrOtherSetting) {
		t.Errorf("settings that lead to other cells: %v", err)
	}
	// A process of which both settings lead to one cell must not take the other for empty.
	doubled := openRoutedDoor(t, east.URL(celltest.API), east.URL(celltest.API))
	if _, err := doubled.Status(t.Context(), who, payment.NewID()); err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what may be in a cell that no setting leads to: %v", err)
	}
	if _, err := doubled.Heartbeat(t.Context(), "WEST", outbox.Heartbeat{Name: "api-1", Kind: "ingest",
		Status: "running", Budget: outbox.DefaultTimeBudget()}); !errors.Is(err, door.ErrOtherSetting) {
		t.Errorf("a heartbeat to another cell: %v", err)
	}

	west.forgetMap()
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	for _, in := range all {
		_, err := r.Enqueue(t.Context(), who, in)
		if isWests(in.ParticipantID) != errors.Is(err, outbox.ErrOtherCell) || err != nil && !isWests(in.ParticipantID) {
			t.Errorf("%s: %v", in.ParticipantID, err)
		}
	}
	results, err := r.EnqueueBatch(t.Context(), who, all)
	east.must(err)
	for n, in := range all {
		if fault := results[n].Fault; (fault != nil) != isWests(in.ParticipantID) {
			t.Errorf("%s in a batch: %+v", in.ParticipantID, results[n])
		}
	}
	wantStream(t, west.Cell, 0)
	wantStream(t, east.Cell, len(all)-atWest)
}
