package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// askWithin bounds the time that a search waits for each cell. All are asked at once.
const askWithin = 3 * time.Second

// keysUnsearched is what a search does not show.
const keysUnsearched = "Idempotency keys are not searched: the payment of a key may be here although this finds none."

// asked is what a cell answered to a search.
type asked struct {
	of        *Console
	found     []reader.Found
	elsewhere *reader.ElsewhereError // nil: it does not say that the payment is in another cell
	away      string                 // why it could not be asked; empty: it was
}

// foundIn is an instruction that a cell has, or of which it knows other cells.
type foundIn struct {
	reader.Found
	Name, Address string // of the cell
}

// foundBody is the body of the page of what was found in several cells.
type foundBody struct {
	Rows      []foundIn
	Elsewhere []string
	Away      []foundAway
	Asked     []string
}

// foundAway is a cell that could not be asked.
type foundAway struct{ Name, Why string }

// searchAll looks in every cell for the payment with an id. It leads to the only one, if every cell was
// asked; else it says what was found and which cells were not asked.
func (s *Site) searchAll(w http.ResponseWriter, r *http.Request, _ Person) {
	reference := strings.TrimSpace(r.FormValue("id"))
	if reference == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	answers := make([]asked, len(s.consoles))
	var asking sync.WaitGroup
	for n, c := range s.consoles {
		asking.Go(func() { answers[n] = c.ask(r.Context(), reference) })
	}
	asking.Wait()
	body := bodyOfFound(answers)
	switch {
	case len(body.Rows) == 1 && !body.Rows[0].Elsewhere && !body.Rows[0].Mistakable(reference) &&
		len(body.Away)+len(body.Elsewhere) == 0:
		http.Redirect(w, r, body.Rows[0].Address+"/payments/"+body.Rows[0].OutboxID.String(), http.StatusSeeOther)
	case len(body.Rows) > 0:
		s.show(w, r, "found_in_cells.html", page{Title: "Search", Body: body})
	case len(body.Away) > 0:
		s.showWith(w, r, http.StatusServiceUnavailable, "found_in_cells.html", page{Title: "Search", Body: body})
	case len(body.Elsewhere) > 0:
		s.showWith(w, r, http.StatusNotFound, "found_in_cells.html", page{Title: "Search", Body: body})
	default:
		s.fail(w, r, problem{http.StatusNotFound, "There is no such payment in any cell of this console",
			"Search by its outbox id, rail key, instruction id or the rail's own reference, as a whole. " + keysUnsearched +
				" Asked were " + strings.Join(body.Asked, ", ") + "."})
	}
}

// ask looks in one cell for the instructions with a reference.
func (c *Console) ask(ctx context.Context, reference string) asked {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer := asked{of: c}
	found, err := c.reader.Find(ctx, reference)
	fault, refused := errors.AsType[*outbox.Fault](err)
	elsewhere, moved := errors.AsType[*reader.ElsewhereError](err)
	switch {
	case err == nil:
		answer.found = found
	case moved:
		answer.elsewhere = elsewhere
	case errors.Is(err, outbox.ErrNotFound):
	case refused:
		answer.away = "it does not accept this id (" + fault.SQLState + ")"
	default:
		c.log.WarnContext(ctx, "a cell was not asked for a payment", "error", err)
		answer.away = *whyAway(err)
	}
	return answer
}

// bodyOfFound puts the answers of the cells together. What one cell says of another is left out if that other
// one has the payment.
func bodyOfFound(answers []asked) foundBody {
	var body foundBody
	has := make(map[payment.ID]bool)
	for _, answer := range answers {
		for _, one := range answer.found {
			has[one.OutboxID] = has[one.OutboxID] || !one.Elsewhere
		}
	}
	for _, answer := range answers {
		name := answer.of.cell.Setting
		if answer.away != "" {
			body.Away = append(body.Away, foundAway{name, answer.away})
			continue
		}
		body.Asked = append(body.Asked, name)
		if answer.elsewhere != nil && !has[answer.elsewhere.Found.OutboxID] {
			body.Elsewhere = append(body.Elsewhere, "Cell "+name+" says: "+answer.elsewhere.Error())
		}
		for _, one := range answer.found {
			if !one.Elsewhere || !has[one.OutboxID] {
				body.Rows = append(body.Rows, foundIn{one, name, answer.of.base})
			}
		}
	}
	body.Rows = own(body.Rows)
	return body
}

// own is the one whose outbox id, else rail key, was searched, if a cell has it: a caller in another cell may have
// chosen the same text as the name of another one.
func own(rows []foundIn) []foundIn {
	for _, by := range []string{"outbox_id", "rail_key"} {
		for _, one := range rows {
			if one.FoundBy == by && !one.Elsewhere {
				return []foundIn{one}
			}
		}
	}
	return rows
}
