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
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestRoutedDoorAfterMove: after a move a repeated call is a replay, and each payment is found, listed, waited for and
// cancelled in the cell that has it, also by a token that may not read, or that one cell does not know.
func TestRoutedDoorAfterMove(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	who := bearer("both", everyVerb, []string{"participant"}, east, west)
	cancels := bearer("cancels", []string{"CANCEL"}, []string{"participant"}, east, west)
	newcomer := bearer("newcomer", everyVerb, []string{"participant"}, west)
	enqueue := func(n int) (payment.Receipt, error) {
		in := order(n)
		in.ParticipantID = "participant"
		return r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	}
	var ids []payment.ID
	for n := 1; n <= 4; n++ {
		if n == 4 {
			east.moves(west, "participant")
		}
		receipt, err := enqueue(n)
		wantReceipt(t, receipt, err, int64(n), false)
		ids = append(ids, receipt.OutboxID)
	}
	again, err := enqueue(1)
	if err != nil || !again.Replayed || again.OutboxID != ids[0] || again.State != payment.Elsewhere {
		t.Errorf("a late retry: %+v, %v", again, err)
	}
	stored := func(wantEast, wantWest int) {
		t.Helper()
		same(t, "instructions of east", east.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), wantEast)
		same(t, "instructions of west", west.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), wantWest)
	}
	stored(3, 1)

	listed := func(who outbox.Bearer, page outbox.Page) string {
		t.Helper()
		page.ParticipantID = "participant"
		found, err := r.List(t.Context(), who, page)
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, each := range found {
			all = append(all, fmt.Sprintf("%d %s", each.SequenceID, each.State))
		}
		return strings.Join(all, ", ")
	}
	for _, c := range []struct {
		who  outbox.Bearer
		page outbox.Page
		want string
	}{
		{who, outbox.Page{Most: 9}, "1 PENDING, 2 PENDING, 3 PENDING, 4 PENDING"},
		{who, outbox.Page{Most: 2}, "1 PENDING, 2 PENDING"},
		{who, outbox.Page{Most: 2, After: 2}, "3 PENDING, 4 PENDING"},
		{who, outbox.Page{Most: 9, IdempotencyKey: "key-2"}, "2 PENDING"},
		{who, outbox.Page{Most: 9, InstructionID: "instruction-4"}, "4 PENDING"},
		{newcomer, outbox.Page{Most: 9}, "1 ELSEWHERE, 2 ELSEWHERE, 3 ELSEWHERE, 4 PENDING"},
	} {
		same(t, fmt.Sprintf("list %+v", c.page), listed(c.who, c.page), c.want)
	}
	for n, id := range ids {
		if got, err := r.Status(t.Context(), who, id); err != nil || got.State != "PENDING" || got.SequenceID != int64(n+1) {
			t.Errorf("status of %d: %+v, %v", n+1, got, err)
		}
	}
	if got, err := r.Status(t.Context(), newcomer, ids[0]); err != nil || got.State != payment.Elsewhere {
		t.Errorf("by a token that the old cell does not know: %+v, %v", got, err)
	}

	waiting, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	rested := make(chan error, 1)
	go func() {
		got, err := r.Await(waiting, who, ids[0])
		if err == nil && got.State != "DISPATCHED" {
			err = errors.New("it is " + got.State)
		}
		rested <- err
	}()
	claim := east.claimOne(ids[0])
	east.record(told(payment.Policy{}, claim, payment.ResultAccepted, "reference"))
	if err := <-rested; err != nil {
		t.Errorf("waiting for it: %v", err)
	}
	rows, err := r.Attempts(t.Context(), who, ids[0], 0, 9)
	if err != nil || len(rows) == 0 {
		t.Errorf("its attempts: %v, %v", rows, err)
	}
	for by, id := range map[*outbox.Bearer]payment.ID{&who: ids[1], &cancels: ids[2]} {
		if _, _, err := r.Cancel(t.Context(), *by, id, "a test"); err != nil {
			t.Errorf("a cancel in the old cell: %v", err)
		}
		if got, err := r.Status(t.Context(), who, id); err != nil || got.State != "CANCELLED" {
			t.Errorf("after a cancel: %+v, %v", got, err)
		}
		if _, replayed, err := r.Cancel(t.Context(), *by, id, "a test"); err != nil || !replayed {
			t.Errorf("a second cancel: %v", err)
		}
	}
	if _, _, err := r.Cancel(t.Context(), newcomer, ids[0], "a test"); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("a cancel by a token that the old cell does not know: %v", err)
	}

	// What became of a payment is not known while the cell that has it is away: the other one must not answer for it.
	r.SetAway("EAST", true)
	for what, call := range map[string]func() error{
		"status": func() error { _, err := r.Status(t.Context(), who, ids[0]); return err },
		"wait":   func() error { _, err := r.Await(t.Context(), who, ids[0]); return err },
		"cancel": func() error { _, _, err := r.Cancel(t.Context(), cancels, ids[0], "a test"); return err },
		"list": func() error {
			_, err := r.List(t.Context(), who, outbox.Page{ParticipantID: "participant", Most: 9})
			return err
		},
	} {
		if err := call(); err == nil || errors.Is(err, outbox.ErrNotFound) || errors.Is(err, outbox.ErrNotAllowed) {
			t.Errorf("%s while its cell is away: %v", what, err)
		}
	}
	if got, err := r.Status(t.Context(), who, ids[3]); err != nil || got.State != "PENDING" {
		t.Errorf("status of what is in the cell that is there: %+v, %v", got, err)
	}
	if again, err := enqueue(2); err != nil || !again.Replayed || again.State != payment.Elsewhere {
		t.Errorf("a late retry while the old cell is away: %+v, %v", again, err)
	}
	stored(3, 1)
}

// TestOneKeyByEveryDoor: while a bucket moves back and forth, callers repeat one key at a door of several cells, at one
// with an old map, and at the door of each cell: one instruction is stored.
func TestOneKeyByEveryDoor(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	who := bearer("both", everyVerb, []string{"participant"}, east, west)
	urls := []string{east.URL(celltest.API), west.URL(celltest.API)}
	type enqueuer interface {
		Enqueue(ctx context.Context, who outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error)
	}
	doors := []enqueuer{openRoutedDoor(t, urls[0], urls[1]), openRoutedDoor(t, urls[0], urls[1])}
	for _, url := range urls {
		d, err := door.Open(t.Context(), ledger.Config{URL: url, Cell: "railhead", MaxConns: 4})
		east.must(err)
		t.Cleanup(d.Close)
		doors = append(doors, d)
	}
	of := func(n int) outbox.Entrusted {
		in := order(n)
		in.ParticipantID = "participant"
		return outbox.Entrusted{Instruction: in}
	}
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var mu sync.Mutex
	ids := map[int]map[payment.ID]bool{}
	for caller, d := range doors {
		calls.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := (n + caller) / 4 % 40
				receipt, err := d.Enqueue(t.Context(), who, of(key))
				if err != nil && !errors.Is(err, outbox.ErrOtherCell) && !errors.Is(err, outbox.ErrBusy) {
					t.Errorf("caller %d: %v", caller, err)
					return
				}
				if err == nil {
					mu.Lock()
					if ids[key] == nil {
						ids[key] = map[payment.ID]bool{}
					}
					ids[key][receipt.OutboxID] = true
					mu.Unlock()
				}
			}
		})
	}
	for from, to := range map[*cellDesk]*cellDesk{east: west} {
		for range 2 {
			time.Sleep(200 * time.Millisecond)
			from.moves(to, "participant")
			time.Sleep(200 * time.Millisecond)
			to.moves(from, "participant")
		}
	}
	stop()
	calls.Wait()
	stored := east.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`) +
		west.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`)
	if len(ids) == 0 || stored != len(ids) {
		t.Errorf("%d instructions are stored for %d keys", stored, len(ids))
	}
	for key, all := range ids {
		if len(all) != 1 {
			t.Errorf("key %d was answered with %d instructions", key, len(all))
		}
	}
}
