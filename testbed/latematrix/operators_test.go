package latematrix_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// act does an operator's step. A step that is refused leads to no state.
func (w *world) act(ctx context.Context, p *life, s step) (err error) {
	switch s.kind {
	case doCancel:
		_, err = w.operator.CancelPayment(ctx, p.id, "a proof")
	case doReplay:
		err = w.replay(ctx, p)
	case doClose:
		_, err = w.operator.TriageDeadLetter(ctx, p.id, operator.Close, "a proof")
	case doResolve:
		err = w.resolve(ctx, p, s.executed)
	default:
		return fmt.Errorf("there is no step %q", s.kind)
	}
	if errors.Is(err, outbox.ErrNotAllowed) {
		return errNoState
	}
	return err
}

func (w *world) replay(ctx context.Context, p *life) error {
	var expires time.Time
	if p.facts.overdue && !p.aside { // else it is refused
		expires = operator.NeverExpires
	}
	_, err := w.operator.ReplayPayment(ctx, p.id, expires, "a proof")
	if err != nil {
		return err
	}
	if p.facts.isPaid() || p.facts.inDoubt() && !p.aside {
		p.find("at a replay", "what may have been executed was replayed")
	}
	if p.view.cancelled {
		p.find("at a replay", "a cancelled payment waits to be sent again")
	}
	// An instruction that was quarantined only becomes due again.
	p.facts.replayed, p.facts.overdue, p.aside = p.facts.replayed || !p.aside, false, false
	return nil
}

func (w *world) resolve(ctx context.Context, p *life, wasExecuted bool) error {
	var err error
	if wasExecuted {
		_, err = w.operator.ResolvePayment(ctx, p.id, operator.Evidence{
			Executed: true, RailReference: p.named(referenceA), Date: time.Now(), Document: "statement", Reason: "a proof",
		})
	} else {
		err = w.resolveSilently(ctx, p)
	}
	if err == nil {
		p.facts.resolved(wasExecuted, p.named(referenceA))
	}
	return err
}

// resolveSilently resolves a dead letter as not executed without the rail's word, which a rail
// that can be asked owes. It does so while the participant is paused, which no other lane can see.
func (w *world) resolveSilently(ctx context.Context, p *life) error {
	err := pgx.BeginFunc(ctx, w.looker, func(tx pgx.Tx) error {
		for _, act := range []string{
			`SELECT railhead.pause_participant(k.participant_id, 'a proof') FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1`,
			`SELECT railhead.resolve_payment($1, false, NULL, current_date, 'statement', 'a proof', true)`,
			`SELECT railhead.resume_participant(k.participant_id, 'a proof') FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1`,
		} {
			if _, err := tx.Exec(ctx, act, [16]byte(p.id)); err != nil {
				return err
			}
		}
		return nil
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == outbox.StateNotAllowed {
		return fmt.Errorf("%w: %s", outbox.ErrNotAllowed, refused.Message)
	}
	return err
}

// endAll ends, as operators do, the dead letters that are open: each may be resolved as not
// executed first, and is replayed or closed then.
func (w *world) endAll(ctx context.Context, lives []*life) error {
	const when = "at its end"
	for range 3 {
		var acted []*life
		for n, p := range lives {
			if p.dead || p.view.letter == "" || p.escalated {
				continue
			}
			if err := w.end(ctx, p, n%2 == 0); err != nil {
				p.find(when, fmt.Sprintf("a dead letter %s can't be ended: %v", p.view.letter, err))
				p.dead = true
			}
			acted = append(acted, p)
		}
		if len(acted) == 0 {
			return nil
		}
		if err := w.look(ctx, when, acted); err != nil {
			return err
		}
	}
	for _, p := range lives {
		if p.view.letter != "" && !p.dead && !p.escalated {
			p.find(when, "its dead letter stays open")
		}
	}
	return nil
}

// end does an operator's one act about an open dead letter.
func (w *world) end(ctx context.Context, p *life, even bool) (err error) {
	switch letter := p.view.letter; {
	case letter == "FAILED" || letter == "EXPIRED":
		err = outbox.ErrNotAllowed
		if even {
			err = w.replay(ctx, p)
		}
		if errors.Is(err, outbox.ErrNotAllowed) {
			_, err = w.operator.TriageDeadLetter(ctx, p.id, operator.Close, "a proof")
		}
	case letter == "TAMPERED" && p.view.state == "DISPATCHED":
		_, err = w.operator.TriageDeadLetter(ctx, p.id, operator.Close, "a proof")
	case letter == "UNCLAIMABLE" && !p.view.waitsUnknown:
		err = w.replay(ctx, p)
	default:
		wasExecuted := p.facts.isPaid() || p.facts.inDoubt() && even
		err = w.resolve(ctx, p, wasExecuted)
		if errors.Is(err, outbox.ErrNotAllowed) && !wasExecuted &&
			strings.Contains(err.Error(), "the rail reported that it executed the payment") {
			// Evidence of no execution can't overrule the rail's word of the last minutes.
			wasExecuted = true
			err = w.resolve(ctx, p, wasExecuted)
		}
		if errors.Is(err, outbox.ErrNotAllowed) && wasExecuted && strings.Contains(err.Error(), "revoked it") {
			// The books are corrected elsewhere, and the conflict stays.
			_, err = w.operator.TriageDeadLetter(ctx, p.id, operator.Escalate, "a proof")
			p.escalated = true
		}
	}
	return err
}
