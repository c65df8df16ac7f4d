package api

import (
	"strings"

	"github.com/railhead-pay/railhead/outbox"
)

// A feed, and each place of it, is of one cell. Where the store serves several, a reader names one by its
// setting, and a cursor begins with that: two cells of one server have places that could be taken for
// each other's.

// cells returns the settings of the cells that have a feed; that of a store which serves one is empty.
func (a *API) cells() []string {
	if len(a.config.Cells) == 0 {
		return []string{""}
	}
	return a.config.Cells
}

// cursorOf returns the text of a place of a cell's feed.
func cursorOf(cell string, at outbox.Place) string {
	if cell == "" {
		return at.String()
	}
	return cell + "." + at.String()
}

// locate checks the cell of a request for events, and reads its cursor.
func (a *API) locate(l *listening) *Problem {
	cell := l.who.Cell
	if _, served := a.hubs[cell]; !served {
		switch {
		case len(a.config.Cells) == 0:
			return kindForbidden.of("token", "CELL", "The token is for events of a process that serves several cells.")
		case cell == "":
			return kindBadRequest.of("query.cell", "MISSING", a.oneOfCells())
		default:
			return kindBadRequest.of("query.cell", "KNOWN", a.oneOfCells())
		}
	}
	if l.after == "" {
		return nil
	}
	after := l.after
	if cell != "" {
		of, text, named := strings.Cut(after, ".")
		switch {
		case !named:
			return kindBadRequest.of("query.after", "CELL", "after names no cell. If an API of this cell alone has given it, "+
				"put the cell and a full stop before it.")
		case of != cell:
			return kindBadRequest.of("query.after", "CELL", "after is a cursor of another cell.")
		}
		after = text
	}
	var err error
	if l.from, err = outbox.ParsePlace(after); err != nil {
		return kindBadRequest.of("query.after", "FORM",
			"after must be the cursor next of an earlier page, or the id of an event of a stream.")
	}
	return nil
}

// oneOfCells says which cells there are to choose from.
func (a *API) oneOfCells() string {
	return "This process serves several cells, and events are of one: cell must be one of " +
		strings.Join(a.config.Cells, ", ") + "."
}
