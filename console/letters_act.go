package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// actsOnMany are the acts for several dead letters at once. Each of them has its own evidence, so that
// resolve is not among them.
var actsOnMany = []string{"acknowledge", "escalate", "inquire", "replay", "close"}

// order is an act on several payments: which ones are fixed before anything is done.
type order struct {
	act    string
	ids    []payment.ID
	seen   map[payment.ID]operator.Seen // as the list showed them; without one that lacks it
	reason string                       // with the person
}

// The outcomes of an act on one of several payments.
const (
	actDone     = "done"
	actRefused  = "refused"
	actNotDone  = "not done"
	actUnknown  = "not known"
	actNotTried = "not tried"
)

// outcome is what became of an act on one payment.
type outcome struct {
	OutboxID payment.ID
	Word     string
	Why      string // empty: it was done
}

// outcomesBody is the body of the page that follows an act on several payments.
type outcomesBody struct {
	Act      string
	Outcomes []outcome
	Counts   string // "3 done, 1 refused"
	Whole    bool   // it was done for all of them
	Back     string // the address of the list
}

// actOnLetters does one act for each of the ticked dead letters, and leads to the page of what became of
// each. The form is good for one order: sent again, it leads to the same page and does nothing.
func (c *Console) actOnLetters(w http.ResponseWriter, r *http.Request, person Person) {
	if !slices.Contains(actsOnMany, r.PathValue("act")) {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such act on several dead letters",
			"Nothing was done. Resolve needs evidence for each payment: do it at the payment's page."})
		return
	}
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, problem{http.StatusBadRequest, "The form can't be read", "Nothing was done. Send it again, shorter."})
		return
	}
	asked, err := orderOf(r.PathValue("act"), r.PostForm)
	if err != nil {
		c.fail(w, r, problem{http.StatusBadRequest, "Nothing was done", "Go back and correct the form: " + err.Error() + "."})
		return
	}
	c.giveOrder(w, r, r.PostForm.Get("form"), func(ctx context.Context) outcomesBody {
		body := outcomesBody{Act: asked.act, Outcomes: c.perform(ctx, asked), Back: "/dead-letters"}
		if back, err := url.ParseQuery(r.PostForm.Get("back")); err == nil && len(back) > 0 {
			body.Back += "?" + knownFields(back, letterFilterNames).Encode()
		}
		body.Counts, body.Whole = countOutcomes(body.Outcomes)
		c.log.InfoContext(ctx, "act on several", "act", asked.act, "person", person.Name, "outcomes", body.Counts)
		return body
	})
}

// orderOf reads which payments were ticked, why, and the count that was typed, and returns every fault
// at once.
func orderOf(act string, form url.Values) (order, error) {
	asked := order{act: act, seen: make(map[payment.ID]operator.Seen), reason: strings.TrimSpace(form.Get("reason"))}
	var faults []error
	if asked.reason == "" {
		faults = append(faults, errors.New("an act needs a reason, which the operator log keeps"))
	}
	for _, text := range form[tickedName(form.Get("form"))] {
		id, err := payment.ParseID(text)
		if err != nil {
			faults = append(faults, errors.New("one of the ticked dead letters has no outbox id"))
			break
		}
		if !slices.Contains(asked.ids, id) {
			asked.ids = append(asked.ids, id)
		}
		if seen, ok := seenOf(id, form.Get(seenName(id))); ok {
			asked.seen[id] = seen
		}
	}
	if !isForm(form.Get("form")) {
		faults = append(faults, errors.New("the form is of no page of dead letters: load the page again"))
	}
	switch typed, err := strconv.Atoi(strings.TrimSpace(form.Get("count"))); {
	case len(asked.ids) == 0:
		faults = append(faults, errors.New("no dead letter is ticked"))
	case len(asked.ids) > lettersLimit:
		faults = append(faults, fmt.Errorf("%d are ticked, and one act is for at most %d", len(asked.ids), lettersLimit))
	case err != nil:
		faults = append(faults, fmt.Errorf("type how many are ticked: %d", len(asked.ids)))
	case typed != len(asked.ids):
		faults = append(faults, fmt.Errorf("%d are ticked, and the count that was typed is %d", len(asked.ids), typed))
	}
	return asked, errors.Join(faults...)
}

// perform does an act for each payment of an order, each in a transaction of its own with its own row of
// the operator log. A refusal of one stops no other. What the time of the request, or a database that
// does not answer, leaves over is not tried.
func (c *Console) perform(ctx context.Context, asked order) []outcome {
	outcomes := make([]outcome, 0, len(asked.ids))
	broken := ""
	for _, id := range asked.ids {
		if ctx.Err() != nil && broken == "" {
			broken = "the time for the request was over"
		}
		if broken != "" {
			outcomes = append(outcomes, outcome{id, actNotTried, broken})
			continue
		}
		one, goesOn := outcomeOf(id, c.performOne(ctx, asked, id))
		if !goesOn {
			broken = "the one before failed: " + one.Why
		}
		c.log.InfoContext(ctx, "act", "act", asked.act, "outbox_id", id.String(), "outcome", one.Word)
		outcomes = append(outcomes, one)
	}
	return outcomes
}

// performOne does the act of an order for one payment, if it still is as the list showed it.
func (c *Console) performOne(ctx context.Context, asked order, id payment.ID) error {
	seen, shown := asked.seen[id]
	if !shown {
		return operator.ErrChanged
	}
	_, err := acts[asked.act](operator.IfUnchanged(ctx, seen), c.operator, id, nil, asked.reason)
	return err
}

// outcomeOf says what an error of an act means, and whether the next one can be tried. An act is a
// transaction: after any error but that of its commit it has done nothing.
func outcomeOf(id payment.ID, err error) (one outcome, goesOn bool) {
	fault, refused := errors.AsType[*outbox.Fault](err)
	blocked, waited := errors.AsType[*operator.BlockedError](err)
	switch {
	case err == nil:
		return outcome{OutboxID: id, Word: actDone}, true
	case errors.Is(err, operator.ErrChanged):
		return outcome{id, actRefused, "it has changed since the page was made: look at it again"}, true
	case errors.Is(err, operator.ErrOther):
		return outcome{id, actRefused, "it is no longer as the page showed it: look at it again"}, true
	case errors.Is(err, outbox.ErrCommitUnknown):
		return outcome{id, actUnknown, "the answer to its commit was lost: do it again, until it is done or refused"}, false
	case refused && outbox.SentinelOf(fault.SQLState) != nil:
		return outcome{id, actRefused, fault.Error()}, true
	case refused:
		return outcome{id, actRefused, "a value is not accepted"}, true
	case waited:
		return outcome{id, actNotDone, blocked.Error()}, true
	case ledger.SQLState(err) == statePermission:
		return outcome{id, actRefused, "the database does not let the login of the console do this"}, true
	case refusesLogin(err):
		return outcome{id, actNotDone, "the database refuses the login of the console"}, false
	case takesNoWrites(err):
		return outcome{id, actNotDone, "the database can't be written to"}, false
	default:
		return outcome{id, actNotDone, "the database did not answer"}, false
	}
}

// countOutcomes says how many had each outcome, and whether all were done.
func countOutcomes(outcomes []outcome) (text string, whole bool) {
	counts := make(map[string]int)
	for _, one := range outcomes {
		counts[one.Word]++
	}
	var parts []string
	for _, word := range []string{actDone, actRefused, actNotDone, actUnknown, actNotTried} {
		if counts[word] > 0 {
			parts = append(parts, strconv.Itoa(counts[word])+" "+word)
		}
	}
	return strings.Join(parts, ", "), counts[actDone] == len(outcomes)
}
