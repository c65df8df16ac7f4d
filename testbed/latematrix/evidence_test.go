package latematrix_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// bring gives payments their first or second evidence.
func (w *world) bring(ctx context.Context, lives []*life, when string, which func(*life) evidence) error {
	var all []spoken
	for _, p := range lives {
		switch e := which(p); {
		case p.dead, e.source == none:
		case e.source == bankItem:
			if err := w.callBack(p, e); err != nil {
				p.fault(when, err)
			}
		case e.source == forgotten:
			w.forgotten(ctx, p, e, when, payment.ActionSend)
		case e.source == asker:
			if p.rail.profile.Inquiry.Max > 0 {
				w.forgotten(ctx, p, e, when, payment.ActionInquire)
			}
		default:
			n := speaker(p.lostActions(), e.word)
			one, ok := p.spoken(p.lost[n], e.word, false)
			if !ok {
				return fmt.Errorf("%s: no worker can say that", p.combination)
			}
			p.lost = slices.Delete(slices.Clone(p.lost), n, n+1)
			all = append(all, one)
		}
	}
	return w.record(ctx, all, when)
}

// forgotten records the outcome of a claim that existed only in the rows from before a restore.
func (w *world) forgotten(ctx context.Context, p *life, e evidence, when string, action payment.Action) {
	gone := payment.Claim{
		ClaimID: payment.NewID(), OutboxID: p.id, RailType: p.rail.name, AttemptNo: 1, Action: action,
		ClaimedAt: time.Now().Add(-time.Hour).Truncate(time.Microsecond), CreatedAt: time.Now().Add(-2 * time.Hour),
	}
	if action == payment.ActionInquire {
		gone.AttemptNo, gone.OutcomeUnknown, gone.SendCount = 3, true, 1
		gone.FirstSentAt, gone.LastSentAt = gone.ClaimedAt.Add(-time.Minute), gone.ClaimedAt.Add(-time.Minute)
	}
	one, ok := p.spoken(gone, e.word, false)
	if !ok {
		p.fault(when, fmt.Errorf("a forgotten worker can't say %q", e.word))
		return
	}
	if one.outcome.RailReference != "" {
		one.outcome.RailReference = p.named(referenceA)
	}
	if _, err := w.slow.RecordLate(ctx, one.outcome); err != nil {
		p.fault(when, err)
		return
	}
	if action == payment.ActionInquire {
		p.facts.forgottenInquiry()
		return
	}
	p.facts.forgotten(e.word, one.outcome.RailReference)
}

func (p *life) lostActions() []actionKind {
	all := make([]actionKind, len(p.lost))
	for n, c := range p.lost {
		all[n] = actionKind(c.Action)
	}
	return all
}
