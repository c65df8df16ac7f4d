package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// actOf is an act on one payment. It returns what is said when it was done. The context names the person.
type actOf func(
	ctx context.Context, op Operator, id payment.ID, form url.Values, reason string,
) (said string, err error)

// acts are the acts of the console, by the names of explain.Acts. What they say holds whatever is paused, and
// whether or not a relayer runs.
var acts = map[string]actOf{
	"acknowledge": triage(operator.Acknowledge, "Acknowledged."),
	"escalate":    triage(operator.Escalate, "Escalated."),
	"close":       triage(operator.Close, "Closed."),
	"replay": func(ctx context.Context, op Operator, id payment.ID, form url.Values, reason string) (string, error) {
		expires, err := expiryOf(form)
		if err == nil {
			_, err = op.ReplayPayment(ctx, id, expires, reason)
		}
		return "Replayed: it is in pending again.", err
	},
	"resolve": resolve,
	"inquire": func(ctx context.Context, op Operator, id payment.ID, _ url.Values, reason string) (string, error) {
		_, err := op.InquirePayment(ctx, id, reason)
		return "It is due for one inquiry.", err
	},
	"cancel": func(ctx context.Context, op Operator, id payment.ID, _ url.Values, reason string) (string, error) {
		done, err := op.CancelPayment(ctx, id, reason)
		if done.OtherCell != nil {
			return "Cancelled here; " + done.OtherCell.String() + ".", err
		}
		return "Cancelled.", err
	},
	"skip": func(ctx context.Context, op Operator, id payment.ID, _ url.Values, reason string) (string, error) {
		number, err := op.SkipInOrder(ctx, id, reason)
		return fmt.Sprintf("Passed in order: sequence %d.", number), err
	},
	"send-now": func(ctx context.Context, op Operator, id payment.ID, _ url.Values, reason string) (string, error) {
		due, err := op.ReschedulePayment(ctx, id, time.Time{}, reason)
		return "It is due at " + explain.Clock(due.Is) + ".", err
	},
}

func triage(to operator.Triage, said string) actOf {
	return func(ctx context.Context, op Operator, id payment.ID, _ url.Values, reason string) (string, error) {
		_, err := op.TriageDeadLetter(ctx, id, to, reason)
		return said, err
	}
}

func resolve(ctx context.Context, op Operator, id payment.ID, form url.Values, reason string) (string, error) {
	date, err := time.Parse(time.DateOnly, form.Get("date"))
	if err != nil {
		return "", errIncomplete("the day of the evidence, such as 2026-11-27")
	}
	found := form.Get("found")
	if found != "executed" && found != "not_executed" {
		return "", errIncomplete("what the evidence says: executed, or not executed")
	}
	_, err = op.ResolvePayment(ctx, id, operator.Evidence{
		Executed: found == "executed", RailReference: strings.TrimSpace(form.Get("reference")), Date: date,
		Document: strings.TrimSpace(form.Get("document")), Reason: reason, RailSilent: form.Get("silent") == "yes",
	})
	return "Resolved, by your evidence.", err
}

// expiryOf is when a payment that is replayed expires; zero: when it expires anyway. The database refuses that if it is
// past.
func expiryOf(form url.Values) (time.Time, error) {
	text := strings.TrimSpace(form.Get("expires"))
	never := form.Get("never") == "yes"
	switch {
	case text != "" && never:
		return time.Time{}, errIncomplete("one of two: a new expiry, or the tick that it never expires")
	case never:
		return operator.NeverExpires, nil
	case text == "":
		return time.Time{}, nil
	}
	expires, err := time.Parse(time.RFC3339, text)
	if err != nil || expires.IsZero() { // the zero time means never, which is ticked and not written
		return time.Time{}, errIncomplete("a moment of the new expiry, such as 2026-11-27T18:00:00Z")
	}
	return expires, nil
}

// errIncomplete is a form without one of its fields; it names it.
type errIncomplete string

func (e errIncomplete) Error() string { return "the form lacks " + string(e) }

// wordOf is the outcome of an act, for logs.
func wordOf(err error) string {
	one, _ := outcomeOf(payment.ID{}, err)
	return one.Word
}

// leadOn answers an act with the page of its subject, which says once what was done.
func (c *Console) leadOn(w http.ResponseWriter, r *http.Request, to, done string) {
	c.sessions.note(c.secretOf(r), c.base+to, done)
	c.redirect(w, r, to)
}

// redirect leads to a page of the same cell, by its address in the cell.
func (c *Console) redirect(w http.ResponseWriter, r *http.Request, to string) {
	http.Redirect(w, r, c.base+to, http.StatusSeeOther)
}

// justDone is what was done by the act that led to this page; empty: none led to it. It is said once, and
// not to a request that an open page makes by itself.
func (c *Console) justDone(r *http.Request) string {
	if r.Header.Get(backgroundHeader) != "" {
		return ""
	}
	return c.sessions.noted(c.secretOf(r), r.URL.RequestURI())
}

// act does one act for a person with the role operate. The form has what the page showed of the payment,
// and the act is done only if that is still so. The operator log has the login of the console
// and the person.
func (c *Console) act(w http.ResponseWriter, r *http.Request, person Person) {
	id, err := payment.ParseID(r.PathValue("id"))
	one, known := acts[r.PathValue("act")]
	if err != nil || !known {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such act", "Nothing was done. Begin at the payment's page."})
		return
	}
	reason, ok := c.reasonOf(w, r)
	if !ok {
		return
	}
	seen, ok := seenOf(id, r.PostForm.Get("seen"))
	if !ok {
		c.fail(w, r, changed)
		return
	}
	said, err := one(operator.IfUnchanged(r.Context(), seen), c.operator, id, r.PostForm, reason)
	if incomplete, ok := err.(errIncomplete); ok {
		c.fail(w, r, problem{http.StatusBadRequest, "The form is incomplete",
			"Nothing was done. " + incomplete.Error() + "."})
		return
	}
	c.log.InfoContext(r.Context(), "act", "act", r.PathValue("act"), "outbox_id", id.String(), "person", person.Name,
		"outcome", wordOf(err))
	if err != nil {
		c.failed(w, r, err)
		return
	}
	c.leadOn(w, r, "/payments/"+id.String(), said)
}

// reasonOf reads the form of an act and returns its reason. Without one it answers, and returns false.
func (c *Console) reasonOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, problem{http.StatusBadRequest, "The form can't be read", "Nothing was done. Send it again, shorter."})
		return "", false
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	if reason == "" {
		c.fail(w, r, problem{http.StatusBadRequest, "An act needs a reason", "Nothing was done. Say why: the operator log " +
			"keeps it."})
	}
	return reason, reason != ""
}
