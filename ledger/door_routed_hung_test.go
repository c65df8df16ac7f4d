package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// hungURL leads to a server that accepts connections and answers nothing.
func hungURL(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, closer := range open {
			closer.Close() //nolint:errcheck // the client has ended it
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return "postgres://away@" + listener.Addr().String() + "/none?sslmode=disable"
}

// openPatientDoor opens a door that waits long for a connection, as one with the default does.
func openPatientDoor(t *testing.T, east, west string) *door.Routed {
	t.Helper()
	var cells []door.Cell
	for _, each := range [][2]string{{"EAST", east}, {"WEST", west}} {
		cells = append(cells, door.Cell{Setting: each[0], Config: ledger.Config{URL: each[1], Cell: "railhead", MaxConns: 4,
			ConnectTimeout: 30 * time.Second}})
	}
	r, err := door.OpenRouted(t.Context(), cells)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestRoutedDoorHung: a cell that hangs, and that no heartbeat has found yet, holds up neither what the other cell has,
// nor looking tokens up, nor the lines of the other cell in a batch; and few calls wait for it.
func TestRoutedDoorHung(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	east, west := halved(t)
	lower, upper := nameInLower("lower"), ""
	for n := 0; upper == "" || !isWests(upper); n++ {
		upper = fmt.Sprint("upper-", n)
	}
	who := bearer("both", everyVerb, []string{lower, upper}, east, west)
	r := openPatientDoor(t, east.URL(celltest.API), hungURL(t))
	of := func(n int, participant string) outbox.Entrusted {
		in := order(n)
		in.ParticipantID = participant
		return outbox.Entrusted{Instruction: in}
	}
	receipt, err := r.Enqueue(t.Context(), who, of(1, lower))
	wantReceipt(t, receipt, err, 1, false)

	began := time.Now()
	var looking sync.WaitGroup
	for n := range byte(16) {
		looking.Go(func() {
			if _, err := r.Token(t.Context(), [32]byte{n}); err == nil || errors.Is(err, outbox.ErrToken) {
				t.Errorf("a token that may be in the cell that hangs: %v", err)
			}
		})
	}
	looking.Wait()
	if _, err := r.Token(t.Context(), who.Token); err != nil {
		t.Errorf("a token that the other cell knows: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("looking tokens up took %v", took)
	}

	before := runtime.NumGoroutine()
	for range 500 {
		if _, err := r.Status(t.Context(), who, receipt.OutboxID); err != nil {
			t.Fatal(err)
		}
	}
	if more := runtime.NumGoroutine() - before; more > 200 {
		t.Errorf("500 calls that were answered have left %d goroutines", more)
	}

	all := []outbox.Entrusted{of(11, upper), of(12, lower)}
	for number := int64(2); number <= 3; number++ {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		results, err := r.EnqueueBatch(ctx, who, all)
		cancel()
		if err != nil {
			t.Fatalf("a batch of both cells: %v", err)
		}
		for n, in := range all {
			if in.ParticipantID == lower {
				wantReceipt(t, results[n].Receipt, nil, number, false)
			} else if results[n].Fault == nil || !errors.Is(results[n].Fault, outbox.ErrOtherCell) {
				t.Errorf("for the cell that hangs: %+v", results[n])
			}
		}
		all = []outbox.Entrusted{of(13, lower), of(14, upper)}
	}
	wantStream(t, east.Cell, 3)
}

// TestRoutedDoorCancelOnly: a token that may only cancel cancels in the cell that is there while another one is away.
func TestRoutedDoorCancelOnly(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	participant := nameInLower("lower")
	who := bearer("both", everyVerb, []string{participant}, east, west)
	cancels := bearer("cancels", []string{"CANCEL"}, []string{participant}, east, west)
	r := openRoutedDoor(t, east.URL(celltest.API), west.URL(celltest.API))
	in := order(1)
	in.ParticipantID = participant
	receipt, err := r.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
	wantReceipt(t, receipt, err, 1, false)
	r.SetAway("WEST", true)
	_, _, err = r.Cancel(t.Context(), cancels, payment.NewID(), "a test")
	if err == nil || errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("what may be in the cell that is away: %v", err)
	}
	if _, _, err := r.Cancel(t.Context(), cancels, receipt.OutboxID, "a test"); err != nil {
		t.Errorf("what is in the other cell: %v", err)
	}
	if got, err := r.Status(t.Context(), who, receipt.OutboxID); err != nil || got.State != "CANCELLED" {
		t.Errorf("after it: %+v, %v", got, err)
	}
}
