package reader

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// chunkSizes keeps how many instructions each statement of a list asks for.
type chunkSizes struct {
	mu    sync.Mutex
	sizes []int
}

func (s *chunkSizes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (s *chunkSizes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *chunkSizes) TraceBatchStart(ctx context.Context, _ *pgx.Conn, batch pgx.TraceBatchStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, query := range batch.Batch.QueuedQueries {
		if len(query.Arguments) == 5 && query.Arguments[0] == "recent" {
			s.sizes = append(s.sizes, query.Arguments[4].(int))
		}
	}
	return ctx
}

func (s *chunkSizes) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *chunkSizes) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// TestListBeginsSmall: a page that is full after few instructions reads few of them, and one that none fits reads
// on in larger and larger chunks, up to its bound.
func TestListBeginsSmall(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(grow)
	asked := new(chunkSizes)
	r, err := Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Readonly), Cell: cell.Schema, Tracer: asked})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for name, test := range map[string]struct {
		filter ListFilter
		found  int
		looked int
		sizes  []int
	}{
		"all fit":    {ListFilter{Limit: 50, RailType: celltest.Bank, State: "DISPATCHED"}, 50, 50, []int{100}},
		"a long one": {ListFilter{Limit: 700}, 700, 700, []int{700}},
		"none fits": {ListFilter{Limit: 50, Code: "NONE"}, 0, 20_500,
			append([]int{100, 400}, slices.Repeat([]int{1000}, 20)...)},
	} {
		asked.sizes = nil
		list, err := r.List(t.Context(), test.filter)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Payments) != test.found || list.Looked != test.looked || !slices.Equal(asked.sizes, test.sizes) {
			t.Errorf("%s: %d found, %d looked at, by chunks of %v; want %+v", name, len(list.Payments), list.Looked,
				asked.sizes, test)
		}
	}
}
