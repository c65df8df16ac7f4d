package ledger_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
)

// through opens an Ingest with a short ConnectTimeout through a proxy.
func through(t *testing.T, cell *celltest.Cell) (*freezing, *ingest.Ingest) {
	t.Helper()
	proxy, at := before(t, cell.URL(celltest.Ingest))
	config := ledger.Config{URL: at, Cell: cell.Schema, MaxConns: 2, ConnectTimeout: time.Second}
	in, err := ingest.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return proxy, in
}

// TestFarServer: a new connection is checked by more round trips than are in the time in which it was made.
func TestFarServer(t *testing.T) {
	t.Parallel()
	proxy, in := through(t, celltest.New(t))
	defer in.Close()
	proxy.each.Store(new(func([]byte) { time.Sleep(60 * time.Millisecond) }))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := in.Enqueue(ctx, order(1)); err != nil {
		t.Error(err)
	}
}

// TestConnectionsThatHangAtTheirEnd: connections of which the last message of a check is not answered end, so that the
// pool has places for others, and can be closed.
func TestConnectionsThatHangAtTheirEnd(t *testing.T) {
	t.Parallel()
	proxy, in := through(t, celltest.New(t))
	done := make(chan struct{})
	defer close(done)
	proxy.each.Store(new(func(sent []byte) {
		if bytes.Contains(sent, []byte("rollback")) {
			<-done
		}
	}))
	for n := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := in.Enqueue(ctx, order(n)); err == nil {
			t.Error("it was stored over a connection that is not checked")
		}
		cancel()
	}
	proxy.each.Store(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := in.Enqueue(ctx, order(9)); err != nil {
		t.Errorf("the server is back: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		in.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the pool can't be closed")
	}
}
