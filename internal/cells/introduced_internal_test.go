package cells

import (
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestIntroduced: a cell is one whose map may be confirmed only if every other one that was read had recorded the
// server on which it was read.
func TestIntroduced(t *testing.T) {
	t.Parallel()
	of := func(name, server, other, knows string) Reached[Conn] {
		return Reached[Conn]{Cell: reader.Cell{Name: name}, Directory: reader.Directory{
			ID: "d", Server: server, Cells: []reader.Cell{{Name: name}, {Name: other, Server: knows}},
		}}
	}
	n := Net[Conn]{Cells: []Reached[Conn]{
		of("east", "after", "west", "w"), of("west", "w", "east", "before"), {Cell: reader.Cell{Name: "north"}},
	}}
	if got := n.introduced(); !slices.Equal(got, []string{"west"}) {
		t.Errorf("east is on a server that west does not know: %v", got)
	}
	n.Cells[1] = of("west", "w", "east", "after")
	if got := n.introduced(); !slices.Equal(got, []string{"east", "west"}) {
		t.Errorf("both are known: %v", got)
	}
}
