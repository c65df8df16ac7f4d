package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var (
	errNoPayment = fmt.Errorf("%w with the id", outbox.ErrNotFound)
	errTyped     = &outbox.Fault{SQLState: "22P02", Message: "invalid input"}
	errSecret    = errors.New("SECRET")
)

// finds is a search in a cell that finds payments, or that fails.
func finds(err error, ids ...payment.ID) func(context.Context) ([]reader.Found, error) {
	return func(context.Context) (found []reader.Found, _ error) {
		for _, id := range ids {
			found = append(found, reader.Found{OutboxID: id, FoundBy: "instruction_id"})
		}
		return found, err
	}
}

// foundBy is a cell with another search.
func foundBy(cell Cell, find func(context.Context) ([]reader.Found, error)) Cell {
	one := cell.Reader.(cellReader)
	one.find = find
	cell.Reader = one
	return cell
}

// TestSearchInAllCells: a search leads to the only payment if every cell was asked, and nothing is said to be not
// found while one was not.
func TestSearchInAllCells(t *testing.T) {
	t.Parallel()
	first, second := payment.ID{1}, payment.ID{2}
	at := map[string]string{"west": "/cells/WEST/payments/" + first.String(),
		"first":  "/payments/" + first.String(),
		"second": "/payments/" + second.String(), "away": "Cell EAST was not asked: its database did not answer"}
	none := finds(errNoPayment)
	byID := func(context.Context) ([]reader.Found, error) {
		return []reader.Found{{OutboxID: first, FoundBy: "outbox_id"}}, nil
	}
	moved := finds(&reader.ElsewhereError{Found: reader.Found{OutboxID: first, Cells: []string{"west"}}})
	hangs := func(ctx context.Context) ([]reader.Found, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, test := range map[string]struct {
		west, east func(context.Context) ([]reader.Found, error)
		status     int
		says       []string
		not        string
	}{
		"in one":       {finds(nil, first), none, 303, []string{at["west"]}, ""},
		"a name":       {finds(nil, second), byID, 303, []string{"/cells/EAST" + at["first"]}, ""},
		"moved":        {finds(nil, first), moved, 303, []string{at["west"]}, ""},
		"in both":      {finds(nil, first), finds(nil, second), 200, []string{at["west"], "EAST" + at["second"]}, "not asked"},
		"in none":      {none, none, 404, []string{"no such payment in any cell", "Asked were WEST, EAST"}, ""},
		"forgotten":    {none, moved, 404, []string{"Cell EAST says: the payment is in", "a restore has"}, "no such payment"},
		"another's":    {finds(nil, second), moved, 200, []string{"WEST" + at["second"], "Cell EAST says: "}, ""},
		"one away":     {finds(nil, first), finds(errSecret), 200, []string{at["west"], at["away"], "may be there"}, "SECRET"},
		"none, away":   {none, finds(errSecret), 503, []string{"None with this id is in WEST", at["away"]}, "no such"},
		"both away":    {hangs, finds(errBusy), 503, []string{"WEST was not asked", "EAST was not asked"}, "None with"},
		"one is slow":  {finds(nil, first), hangs, 200, []string{at["west"], at["away"] + " in time"}, ""},
		"not accepted": {none, finds(errTyped), 503, []string{"it does not accept this id (22P02)"}, "no such payment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := several(t, foundBy(cellWith("WEST", 1), test.west), foundBy(cellWith("EAST", 1), test.east)).enter(t)
				begun := time.Now()
				w := b.send(http.MethodGet, "/search?id=INV-1", nil)
				text := w.Header().Get("Location") + w.Body.String()
				if w.Code != test.status || test.not != "" && strings.Contains(text, test.not) {
					t.Errorf("status %d, want %d, or it says %q: %s", w.Code, test.status, test.not, text)
				}
				if i := slices.IndexFunc(test.says, func(says string) bool { return !strings.Contains(text, says) }); i >= 0 {
					t.Errorf("it lacks %q: %s", test.says[i], text)
				}
				if took := time.Since(begun); took > askWithin {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
