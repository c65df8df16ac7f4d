package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// cellLink is a link of the header: to a cell, or to the page of all cells.
type cellLink struct {
	Name, Address string // the address has no slash at its end
	Here          bool   // the page is one of it
}

// links are those of the header for a page of a cell; nil: for one of none. With one cell alone there are none.
func (s *Site) links(of *Console) []cellLink {
	if s.only != nil {
		return nil
	}
	links := []cellLink{{Name: "All cells"}}
	for _, c := range s.consoles {
		links = append(links, cellLink{c.cell.Setting, c.base, c == of})
	}
	return links
}

// allNews is what pages above the cells show of all of them. It has no text from outside.
type allNews struct {
	Says  string `json:"says"`
	Stale bool   `json:"stale"` // the state of a cell is old, or its last reading failed
}

func (s *Site) allNews() *allNews {
	var late []string
	for _, c := range s.consoles {
		if c.isLate() {
			late = append(late, c.cell.Setting)
		}
	}
	if len(late) > 0 {
		return &allNews{"Not all cells are shown as they are now: " + strings.Join(late, ", "), true}
	}
	return &allNews{"Every cell was read in the last " + staleAfter.String(), false}
}

// isLate reports whether the state of a cell may be another one by now, because it is old or because its last
// reading failed.
func (c *Console) isLate() bool {
	seen := c.state.seen.Load()
	return seen == nil || seen.Stale() || c.state.away.Load() != nil
}

// allNow answers what an open page of all cells asks for every few seconds.
func (s *Site) allNow(w http.ResponseWriter, _ *http.Request, _ Person) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.allNews()) // a client that is gone needs no answer
}

// cellRow is a cell on the page of all cells.
type cellRow struct {
	Name, Address   string
	Late            string // why its numbers are not those of now; empty: they are
	Seen            *seen  // nil: it was never read
	Waiting, Oldest string
	Old             bool // the oldest due payment has been due for too long, as on the cell's first page
	Letters, More   string
}

// allBody is the body of the page of all cells.
type allBody struct {
	Rows    []cellRow
	Letters string   // open dead letters of all cells that were read
	Open    bool     // there are some
	Without []string // cells that were never read, whose dead letters are not among them
}

// allCells shows the state of each cell, as it was read last. It asks no database.
func (s *Site) allCells(w http.ResponseWriter, r *http.Request, _ Person) {
	var body allBody
	var letters int64
	more := false
	for _, c := range s.consoles {
		row := c.row()
		if row.Seen == nil {
			body.Without = append(body.Without, row.Name)
		} else {
			letters, more = letters+row.Seen.Letters(), more || row.Seen.More
		}
		body.Rows = append(body.Rows, row)
	}
	body.Letters, body.Open = count(letters)+plus(more), letters > 0
	s.show(w, r, "cells.html", page{Title: "All cells", Body: body})
}

// row is the cell on the page of all cells.
func (c *Console) row() cellRow {
	row := cellRow{Name: c.cell.Setting, Address: c.base, Seen: c.state.seen.Load()}
	if row.Seen != nil {
		var waiting, oldest int64
		capped := false
		for _, rail := range row.Seen.Rails {
			waiting, oldest, capped = waiting+rail.Pending, max(oldest, rail.OldestDueMS), capped || rail.Capped
		}
		row.Waiting, row.Oldest, row.Old = count(waiting)+plus(capped), age(oldest), oldest > oldestDueMaxMS
		row.Letters, row.More = count(row.Seen.Letters()), plus(row.Seen.More)
	}
	switch why := c.state.away.Load(); {
	case why != nil && row.Seen == nil:
		row.Late = "away, and was not read yet: " + *why
	case why != nil:
		row.Late = "away: " + *why
	case row.Seen == nil:
		row.Late = "not read yet: this console has just started, or its database does not answer"
	case row.Seen.Stale():
		row.Late = "stale: a reading takes long"
	}
	return row
}

// whyAway says why the state of a cell was not read, without text from outside; nil: it was.
func whyAway(err error) *string {
	if err == nil {
		return nil
	}
	why := "its database did not answer; the log of the console has the error"
	switch {
	case errors.Is(err, outbox.ErrOtherSchema):
		why = "another build has migrated it, and this one does not work on it"
	case outbox.Unfit(err):
		why = "its server is not fit for a cell; the log of the console says why"
	case ledger.SQLState(err) == statePermission:
		why = "its database refuses this to the login, which has to be a member of railhead_readonly"
	case errors.Is(err, errBusy):
		why = "too many pages of it are being read"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errQueryTime), ledger.SQLState(err) == stateCanceled:
		why = "its database did not answer in time"
	}
	return &why
}

// toCell leads from the name of a cell to its first page.
func (s *Site) toCell(w http.ResponseWriter, r *http.Request, person Person) {
	at := slices.IndexFunc(s.consoles, func(c *Console) bool { return c.cell.Setting == r.PathValue("setting") })
	if at < 0 {
		s.noPage(w, r, person)
		return
	}
	s.consoles[at].redirect(w, r, "/")
}

// noPage answers to an address that is of no page, or of no cell of this console.
func (s *Site) noPage(w http.ResponseWriter, r *http.Request, _ Person) {
	s.fail(w, r, problem{http.StatusNotFound, "There is no such page",
		"The address of a page of a cell begins with /cells/ and the setting of a cell above. Begin at one of them, or " +
			"search."})
}
