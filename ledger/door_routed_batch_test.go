package ledger_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
)

// afterCall is a tracer that acts once the nth statement of the API that enqueues has ended.
type afterCall struct {
	ended atomic.Int64
	nth   int64
	act   func()
}

type enqueues struct{}

func (a *afterCall) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, enqueues{}, strings.Contains(d.SQL, "api_enqueue"))
}

func (a *afterCall) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(enqueues{}).(bool); is && a.ended.Add(1) == a.nth {
		a.act()
	}
}

// TestUnreadableLineWhileABucketMoves: a cell takes a bucket right after it has refused lines of a batch, one of which
// it can't read. The lines of a participant keep their order all the same.
func TestUnreadableLineWhileABucketMoves(t *testing.T) {
	t.Parallel()
	east, west := halved(t)
	participant := nameInLower("mover")
	who := bearer("both", everyVerb, []string{participant}, east, west)
	taken := &afterCall{nth: 2, act: func() { west.must(west.learns(east)) }} // the first call meets the unreadable line
	r, err := door.OpenRouted(t.Context(), []door.Cell{
		{Setting: "EAST", Config: ledger.Config{URL: east.URL(celltest.API), Cell: "railhead",
			ConnectTimeout: 10 * time.Second}},
		{Setting: "WEST", Config: ledger.Config{URL: west.URL(celltest.API), Cell: "railhead",
			ConnectTimeout: 10 * time.Second, Tracer: taken}},
	})
	east.must(err)
	t.Cleanup(r.Close)
	east.must(east.act(`SELECT railhead.give_buckets($1, 'west', 'a test')`, []int{outbox.BucketOf(participant)}))
	unreadable := orderOf(2, participant)
	unreadable.Payload = []byte(`{"amount": "10.50", "currency": "EUR", "note": 1e200000}`)
	results, err := r.EnqueueBatch(t.Context(), who, []outbox.Entrusted{
		{Instruction: orderOf(1, participant)}, {Instruction: unreadable}, {Instruction: orderOf(3, participant)},
	})
	east.must(err)
	if taken.ended.Load() < 3 {
		t.Fatal("west has refused nothing: nothing was tried")
	}
	for n, want := range []int64{1, 0, 2} {
		if got := results[n]; (got.Fault == nil) != (want > 0) || got.Receipt.SequenceID != want {
			t.Errorf("line %d: %+v, want number %d", n+1, got, want)
		}
	}
}
