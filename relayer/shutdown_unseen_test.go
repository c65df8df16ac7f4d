package relayer_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

// held keeps the bank's answer back until it is released.
type held struct{ *hesitant }

func (h *held) Send(ctx context.Context, s rails.Send) rails.Result {
	result := h.Rail.Send(ctx, s)
	h.arrived <- s.OutboxID
	<-h.goOn
	return result
}

// TestRefusalInHandAtShutdown restarts the server while the only relayer drains. The refusal that
// arrives then waits for a check of the server, which the relayer makes: the refusal is recorded
// before it ends.
func TestRefusalInHandAtShutdown(t *testing.T) {
	t.Parallel()
	srv, cluster := pgtest.Server(t, pgserver.Options{})
	w := &world{t: t, cell: celltest.On(t, cluster), seen: newWitness(), log: testLog(t)}
	bank, err := railsim.New(railsim.Config{LedgerPath: filepath.Join(t.TempDir(), "bank.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go bank.Serve(listener)
	t.Cleanup(func() { bank.Close() })
	w.bank, w.url = bank, "http://"+listener.Addr().String()
	w.cell.ApplyProfile("bank", fastProfile)
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain, b.RecordWithin = 10*time.Second, 5*time.Second })
	w.store, err = executor.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema,
		Name: "test-relayer"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.super = w.cell.Conn(t, "")
	w.faults(railsim.Fault{Kind: railsim.Refuse})
	slow := &held{hesitant: newHesitant()}
	w.wrap = func(rail rails.Rail) rails.Rail { slow.Rail = rail; return slow }
	r := w.run(config())
	id := w.enqueue("the one")
	<-slow.arrived
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	w.seen.await(t, func() error {
		if err := r.Ready(); err == nil || err.Error() != "stopping" {
			return errors.New("it does not stop yet")
		}
		return nil
	})
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.super = w.cell.Conn(t, "")
	close(slow.goOn)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	same(t, "rows", w.states(id), "DISPATCHING FAILED/BUSINESS_REFUSED")
}
