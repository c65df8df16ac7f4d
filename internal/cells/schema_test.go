package cells_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/migrations"
)

// copied is a connection to a cell that has this copy of the map.
type copied reader.Directory

func (c copied) Directory(context.Context) (reader.Directory, error) { return reader.Directory(c), nil }
func (copied) Close()                                                {}

// TestForgottenCellOfAnotherSchema: a cell that was restored, and knows no other one, finds the other where the process
// was told that its schema is. Otherwise it is told what to set, and never to make a cell in the other's database.
func TestForgottenCellOfAnotherSchema(t *testing.T) {
	t.Parallel()
	one := func(name string) reader.Cell {
		return reader.Cell{Name: name, ID: name, Setting: strings.ToUpper(name), Schema: name}
	}
	east := copied{ID: "map", Here: "east", Cells: []reader.Cell{one("east")}}
	west := copied{ID: "map", Here: "west", Cells: []reader.Cell{one("east"), one("west")}}
	read := func(schemas map[string]string) *cells.Net[copied] {
		t.Helper()
		net, err := cells.Read(t.Context(), east, cells.Places[copied]{
			Settings: []string{"EAST", "WEST"}, Schema: "east", Schemas: schemas,
			Open: func(_ context.Context, setting, schema string) (copied, error) {
				switch setting + " " + schema {
				case "EAST east":
					return east, nil
				case "WEST west":
					return west, nil
				default:
					return copied{}, fmt.Errorf("%s: %w %s", setting, migrations.ErrNoCell, schema)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return net
	}
	if net := read(map[string]string{"WEST": "west"}); len(net.Cells) != 2 || len(net.Strays) != 0 {
		t.Errorf("cells %v, strays %v; want both cells and no stray", net.Cells, net.Strays)
	}
	net := read(nil)
	if len(net.Strays) != 1 {
		t.Fatalf("strays %v, want one", net.Strays)
	}
	why := net.Strays[0].Why
	if !strings.Contains(why, "schema east") || !strings.Contains(why, "RAILHEAD_CELL_WEST") ||
		strings.Contains(why, "migrate up") {
		t.Errorf("told %q, want the schema that was looked in and the variable, and no new cell there", why)
	}
}
