package latematrix_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// walk takes payments that are alike along their path. It returns errNoState if the rail can't
// take the path.
func (w *world) walk(ctx context.Context, lives []*life, path []step) error {
	for _, s := range path {
		if err := w.step(ctx, lives, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) step(ctx context.Context, lives []*life, s step) error {
	switch s.kind {
	case doClaim:
		return w.claim(ctx, lives, "on the way")
	case doSay:
		return w.say(ctx, lives, "on the way", func(*life) word { return s.word })
	case doLose:
		lost, err := w.lose(ctx, lives)
		if err == nil && lost != len(lives) {
			return errNoState
		}
		return err
	case doExpire, doOverdue:
		return w.expire(ctx, lives, s.kind == doExpire)
	case doAside:
		return w.quarantine(ctx, lives)
	case doCallBack:
		e := evidence{bankItem, s.word, "e0", referenceA}
		return each(lives, func(p *life) error { return w.callBack(p, e) })
	default:
		return each(lives, func(p *life) error { return w.act(ctx, p, s) })
	}
}

func each(lives []*life, do func(*life) error) error {
	for _, p := range lives {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

const (
	worker = "worker-1"
	reaper = "reaper-1"
	render = "r1"
)

// claim claims payments as a worker does, which sends where it may. Whether the send is right is
// judged here, because nothing calls a send back.
func (w *world) claim(ctx context.Context, lives []*life, when string) error {
	byID := index(lives)
	for part := range slices.Chunk(lives, batchMax) {
		only := make([]payment.ID, len(part))
		for n, p := range part {
			only[n] = p.id
		}
		claims, err := w.executor.ClaimOnly(ctx, outbox.ClaimRequest{
			ClaimID: payment.NewID(), WorkerID: worker,
			Lanes: []outbox.Lane{{RailType: part[0].rail.name, Free: len(part), ProfileVersion: 1, RenderVersion: render}},
		}, only)
		if err != nil {
			return err
		}
		for _, c := range claims {
			p := byID[c.OutboxID]
			p.vetoed = false
			switch {
			case c.Action == payment.ActionInquire:
				p.facts.asked(c.AttemptNo)
				// The age from which a rail's index is believed has passed by then.
				c.LastSentAt = c.LastSentAt.Add(-time.Hour)
			case !p.rail.profile.MaySend(c, 0):
				p.vetoed = true
				p.facts.held(c.AttemptNo)
			default:
				if why := p.facts.mayNotSend(); why != "" {
					p.find(when, "it is sent by itself: "+why)
				}
				p.claims++
				p.facts.sent(c.AttemptNo)
			}
			p.held = &c
		}
		if len(claims) != len(part) {
			return errNoState
		}
	}
	return nil
}

// say records what workers answer to the claims that they hold.
func (w *world) say(ctx context.Context, lives []*life, when string, what func(*life) word) error {
	all := make([]spoken, 0, len(lives))
	for _, p := range lives {
		if p.held == nil {
			return errNoState
		}
		one, ok := p.spoken(*p.held, what(p), p.vetoed)
		if !ok {
			return errNoState
		}
		all, p.held = append(all, one), nil
	}
	return w.record(ctx, all, when)
}

// spoken is an outcome on its way to the ledger.
type spoken struct {
	life    *life
	word    word
	outcome payment.Outcome
}

var sendResults = map[word]payment.Result{
	accepted: payment.ResultAccepted, refused: payment.ResultRefusedFinal, later: payment.ResultRefusedTransient,
	unknown: payment.ResultUnknown, seenBefore: payment.ResultUnknown, notSent: payment.ResultNotSent,
	busy: payment.ResultRefusedLater, broken: payment.ResultRefusedRail,
	window: payment.ResultWindowClosed, tampered: payment.ResultTampered, checked: payment.ResultCheckFailed,
}

var inquiryResults = map[word]payment.Result{
	accepted: payment.ResultExecuted, executed: payment.ResultExecuted, refused: payment.ResultRefused,
	unknown: payment.ResultUnavailable, notFound: payment.ResultNotFound, notSent: payment.ResultNotSent,
	busy:    payment.ResultRefusedLater,
	pending: payment.ResultInProgress,
}

// spoken makes a worker's outcome of an answer to its claim; vetoed reports whether the worker is
// barred from sending. It returns false if this can't be the answer.
func (p *life) spoken(c payment.Claim, says word, vetoed bool) (spoken, bool) {
	results, reference := sendResults, ""
	if c.Action == payment.ActionInquire {
		results = inquiryResults
	} else if vetoed != (says == window) {
		return spoken{}, false
	}
	result, ok := results[says]
	if !ok || says == seenBefore && !p.rail.bank.dedupes {
		return spoken{}, false
	}
	if says == accepted || says == executed || says == refused && c.Action == payment.ActionInquire {
		reference = p.reference(c)
	}
	o := payment.Outcome{
		AttemptID: payment.NewID(), Claim: c, Result: result,
		Decision:      p.rail.profile.Decide(c, payment.Answer{Result: result, SeenBefore: says == seenBefore}),
		RailReference: reference, WorkerID: worker, ProfileVersion: 1, RenderVersion: render,
	}
	o.Decision.Delay = 0 // due again at once
	if says == seenBefore {
		o.RailCode = "DUPL"
	}
	if o.Decision.Park {
		o.ParkAttemptID = payment.NewID()
	}
	return spoken{p, says, o}, true
}

// reference returns the bank's name for what a send made: one for each key where the bank
// de-duplicates, else one for each send.
func (p *life) reference(c payment.Claim) string {
	if n := p.facts.place(c.AttemptNo); n > 1 && !p.rail.bank.dedupes {
		return p.named(fmt.Sprintf("%s%d", referenceA, n))
	}
	return p.named(referenceA)
}

// named makes a reference unique to the payment: a bank gives the same one to no two payments.
func (p *life) named(reference string) string {
	if reference == "" {
		return ""
	}
	return reference + "-" + p.id.String()
}

// record records as a worker's turn does: an outcome that lost its number goes by the slow path.
func (w *world) record(ctx context.Context, all []spoken, when string) error {
	for part := range slices.Chunk(all, batchMax) {
		turn := outbox.Turn{Outcomes: make([]payment.Outcome, len(part))}
		byAttempt := make(map[payment.ID]spoken, len(part))
		for n, s := range part {
			turn.Outcomes[n] = s.outcome
			byAttempt[s.outcome.AttemptID] = s
		}
		result, err := w.executor.Turn(ctx, turn)
		if err != nil {
			return err
		}
		for _, o := range result.Late {
			if _, err := w.slow.RecordLate(ctx, o); err != nil {
				byAttempt[o.AttemptID].life.fault(when, err)
			}
		}
	}
	outcomes := make([]payment.Outcome, len(all))
	for n, s := range all {
		outcomes[n] = s.outcome
		s.life.facts.answered(s.outcome.Claim.AttemptNo, s.word, s.outcome.RailReference)
	}
	return w.closeClaims(ctx, outcomes)
}

// closeClaims removes the claims in flight whose members are all answered.
func (w *world) closeClaims(ctx context.Context, answered []payment.Outcome) error {
	ids := make(map[payment.ID]bool)
	for _, o := range answered {
		ids[o.Claim.ClaimID] = true
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := w.executor.CloseClaims(ctx, slices.Collect(maps.Keys(ids)))
	return err
}

// lose has the reaper repair the claims of lost workers. It returns how many were still open.
func (w *world) lose(ctx context.Context, lives []*life) (int, error) {
	if !slices.ContainsFunc(lives, func(p *life) bool { return p.held != nil }) {
		return 0, nil
	}
	byID := index(lives)
	stale, err := w.executor.StaleClaims(ctx, outbox.StaleQuery{Limit: 1_000_000})
	if err != nil {
		return 0, err
	}
	var turn outbox.Turn
	for _, found := range stale {
		p := byID[found.Claim.OutboxID]
		if p == nil || p.held == nil || p.held.AttemptNo != found.Claim.AttemptNo {
			continue
		}
		o := payment.Outcome{
			AttemptID: payment.NewID(), Claim: found.Claim, Decision: p.rail.profile.DecideLost(found.Claim, found.Age, 0),
			WorkerID: reaper, ProfileVersion: 1, RenderVersion: render,
		}
		o.Decision.Delay = 0
		if o.Decision.Park {
			o.ParkAttemptID = payment.NewID()
		}
		turn.Outcomes = append(turn.Outcomes, o)
		if !p.vetoed {
			p.lost = append(p.lost, *p.held)
		}
		p.held = nil
	}
	for part := range slices.Chunk(turn.Outcomes, batchMax) {
		result, err := w.executor.Turn(ctx, outbox.Turn{Outcomes: part})
		if err != nil {
			return 0, err
		}
		for _, o := range result.Late {
			if _, err := w.slow.RecordLate(ctx, o); err != nil {
				byID[o.Claim.OutboxID].fault("at the loss of its worker", err)
			}
		}
	}
	return len(turn.Outcomes), w.closeClaims(ctx, turn.Outcomes)
}

// expire makes payments expire, and has the reaper end those that it may.
func (w *world) expire(ctx context.Context, lives []*life, ends bool) error {
	tag, err := w.looker.Exec(ctx, `UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'
		WHERE outbox_id = ANY ($1::uuid[]) AND expires_at IS NOT NULL`, ids(lives))
	if err != nil {
		return err
	}
	if tag.RowsAffected() != int64(len(lives)) {
		return errNoState
	}
	return each(lives, func(p *life) error {
		ended, err := w.executor.ExpireOnly(ctx, reaper, p.id)
		p.facts.overdue = true
		if err == nil && (len(ended) == 1) != ends {
			return errNoState
		}
		return err
	})
}

func (w *world) quarantine(ctx context.Context, lives []*life) error {
	return each(lives, func(p *life) error {
		p.aside = true
		_, err := w.executor.Quarantine(ctx, []payment.ID{p.id}, "XX001")
		return err
	})
}
