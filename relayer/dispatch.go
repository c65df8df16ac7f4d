package relayer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// dispatch launches the claimed instructions and releases the permits that were not used.
func (l *loop) dispatch(
	sends context.Context, reserved map[string]*reservation, claims []payment.Claim, begun clock.Moment,
) {
	l.launch(sends, reserved, claims, begun)
	releaseAll(reserved)
}

// launch starts the call of each claimed instruction. The moment begun is from before the claim
// statement, so that a claim never appears younger than it is.
func (l *loop) launch(
	sends context.Context, reserved map[string]*reservation, claims []payment.Claim, begun clock.Moment,
) {
	committed := time.Now()
	if len(claims) > 0 {
		faultpoint.Reach(faultpoint.Committed)
		l.watch.Claimed(claims)
		l.guard.Claimed(sends, claims)
	}
	l.flight.began(claims)
	for _, claim := range claims {
		slots := reserved[claim.RailType]
		permit := slots.take()
		slots.lane.calls.Add(1)
		l.flight.send(func() {
			outcome := l.call(sends, slots, claim, permit, begun, committed)
			slots.lane.calls.Add(-1)
			l.flight.answer(outcome)
			if l.flight.left.Load() { // after answer: it may be named twice, and is not missed
				l.nameLeft(outcome)
			}
			signal(l.wake)
		})
	}
}

var errBudget = errors.New("the rail's send budget is used up")

// call carries out one claim and decides what follows. It does not fail: an unknown outcome is an
// outcome.
func (r *Relayer) call(
	ctx context.Context, slots *reservation, claim payment.Claim, permit *rails.Permit, begun clock.Moment,
	committed time.Time,
) payment.Outcome {
	l := slots.lane
	ctx, cancel := context.WithTimeoutCause(ctx, l.profile.SendBudget(), errBudget)
	defer cancel()
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(ctx, func() { r.awaitReturn(l, claim, returned) })()
	claim = r.guard.Weigh(claim)
	ctx, span := r.spans.call(ctx, claim)
	sent := time.Now()
	result := rails.Redact(r.execute(ctx, slots, claim, begun), claim.Payload, claim.IdempotencyKey)
	result, refused := l.weigh(claim, result, permit, begun, sent)
	call := Call{RailType: claim.RailType, Action: claim.Action, Result: result.Result}
	if result.Unmapped {
		call.UnmappedIn = cmp.Or(result.CodeTable, "none")
	}
	if result.FirstByte {
		call.Latency, call.TraceID = time.Since(committed), traceID(span)
	}
	r.watch.Called(call)
	if result.Loss != "" {
		r.log.ErrorContext(ctx, "the rail may have lost payments that it had accepted", "rail_type", claim.RailType, "error",
			result.Loss)
	}
	outcome := r.outcomeOf(l, claim, result, refused.OfOne, begun)
	if result.FirstByte {
		outcome.Latency = time.Since(sent)
	}
	if refused.RailRefuses {
		r.pauses.want(claim.RailType, claim.Action, result)
	} else if !l.replaced.Load() && accepts(result) {
		r.pauses.passed(claim.RailType, claim.Action, r.config.StoreTimeout)
	}
	endCall(span, outcome)
	return outcome
}

// weigh ends the permit of a call and returns what its result proves on this rail. A refusal before
// the first byte is never about the instruction, which the rail has not received. One of a call by
// an earlier profile says nothing about the credentials, route and form of now.
func (l *lane) weigh(
	claim payment.Claim, result rails.Result, permit *rails.Permit, begun clock.Moment, sent time.Time,
) (rails.Result, rails.Refusal) {
	var refused rails.Refusal
	if !l.replaced.Load() && (result.Result == payment.ResultRefusedRail || result.RailRefused) {
		claimed, before := time.Now().Add(-begun.Age()), make([]time.Time, len(claim.RailRefusedAt))
		for n, at := range claim.RailRefusedAt {
			before[n] = claimed.Add(at.Sub(claim.ClaimedAt))
		}
		refused = l.guard.Refused(claim.Action, claim.OutboxID, before, sent)
		refused.OthersPass = refused.OthersPass && result.FirstByte
		refused.OfOne = refused.OfOne && result.FirstByte
	}
	switch {
	case refused.OthersPass:
		permit.EndRefused()
	case claim.Action == payment.ActionInquire:
		permit.EndInquiry(result)
	default:
		permit.End(result)
	}
	result.RailRefused = result.RailRefused || result.Result == payment.ResultRefusedRail
	result.Result = l.profile.Proven(claim, result.Result, result.FirstByte)
	if result.Forgets && result.Result == payment.ResultNotSent {
		result.Result = payment.ResultWindowClosed // its memory is over, as after a key window
	}
	return result, refused
}

// execute makes the checks, then sends or inquires. SendSafely and InquireSafely turn a panic of
// the adapter into UNKNOWN once a byte may have been sent; execute recovers from one in the checks.
func (r *Relayer) execute(
	ctx context.Context, slots *reservation, claim payment.Claim, begun clock.Moment,
) (result rails.Result) {
	defer func() {
		if fault := recover(); fault != nil {
			r.log.ErrorContext(ctx, "a check panicked", "rail_type", claim.RailType, "outbox_id", claim.OutboxID, "panic",
				fmt.Sprintf("%T", fault))
			result = rails.Result{Result: payment.ResultNotSent, Message: "the adapter panicked before the first byte"}
		}
	}()
	if claim.Action == payment.ActionInquire {
		return r.inquire(ctx, slots.lane, claim)
	}
	send, stop := r.buildSend(slots, claim, begun)
	if stop != nil {
		return *stop
	}
	return rails.SendSafely(ctx, slots.lane.rail, send)
}

// reached reports the phase of a call to crash tests.
func reached(phase rails.Phase) { faultpoint.Reach(faultpoint.Point(phase.String())) }

func (r *Relayer) inquire(ctx context.Context, l *lane, claim payment.Claim) rails.Result {
	inquirer, ok := l.rail.(rails.Inquirer)
	if !ok {
		// Either the callback of a provisional acceptance is overdue, or the profile promises an
		// inquiry that the adapter does not have.
		return rails.Result{Result: payment.ResultUnavailable, Message: "the rail can't be asked"}
	}
	parent, state := payment.TraceContext(claim.Headers)
	return rails.InquireSafely(ctx, inquirer, rails.Inquiry{
		OutboxID: claim.OutboxID, RailKey: claim.RailKey,
		InstructionID: claim.InstructionID, ParticipantID: claim.ParticipantID,
		Payload: claim.Payload, Reference: claim.RailReference, SendNo: claim.SendCount, FirstSentAt: firstSent(claim),
		RenderVersion: claim.RenderVersion, TraceParent: parent, TraceState: state, OnPhase: reached,
	})
}

// firstSent returns when the first send that may have reached the rail was claimed, one that a restore
// may have forgotten included; zero: there was none.
func firstSent(claim payment.Claim) time.Time {
	if claim.MaybeSent && (claim.FirstSentAt.IsZero() || claim.ForgottenSince.Before(claim.FirstSentAt)) {
		return claim.ForgottenSince
	}
	return claim.FirstSentAt
}

// buildSend builds the send, or returns the result of a check that forbids it.
func (r *Relayer) buildSend(slots *reservation, claim payment.Claim, begun clock.Moment) (rails.Send, *rails.Result) {
	l := slots.lane
	stop := func(result payment.Result, format string, args ...any) (rails.Send, *rails.Result) {
		message := rails.Sanitize(fmt.Sprintf(format, args...))
		return rails.Send{}, &rails.Result{Result: result, Message: message, OwnStop: true}
	}
	if !claim.Intact() {
		return stop(payment.ResultTampered, "the payload differs from its fingerprint in the key registry")
	}
	write := time.Duration(l.profile.Timeouts.Write)
	if l.profile.AwaitsAcceptance(claim, begun.Age(), write) {
		return stop(payment.ResultNotSent,
			"a restore may have forgotten a send of it, and another might be a second one: "+
				"it waits until an operator has accepted the server")
	}
	if !l.profile.MayLeave(claim, begun.Age(), write) {
		return stop(payment.ResultWindowClosed,
			"a re-send would come after expires_at or the rail's key window, or the rail or the caller allows none")
	}
	if !claim.FirstSentAt.IsZero() && claim.RenderVersion != l.rail.RenderVersion() {
		return stop(payment.ResultRenderChanged, "rendered by %s before and by %s now: a re-send must have the same bytes",
			claim.RenderVersion, l.rail.RenderVersion())
	}
	amount, err := payment.PayloadAmount(claim.Payload)
	if err != nil && !(l.profile.Kind == rails.KindMessage && payment.HasNoAmount(claim.Payload)) {
		return stop(payment.ResultCheckFailed, "amount: %v", err)
	}
	parent, state := payment.TraceContext(claim.Headers)
	send := rails.Send{
		OutboxID: claim.OutboxID, RailKey: claim.RailKey,
		InstructionID: claim.InstructionID, ParticipantID: claim.ParticipantID,
		Amount: amount, Payload: claim.Payload, SendNo: claim.SendNo(), FirstSentAt: firstSent(claim),
		TraceParent: parent, TraceState: state, Headers: l.profile.Carried(claim.Headers),
		BeforeFirstByte: func() error { return r.preflight(l.profile, claim, begun, slots.budget) },
		OnPhase:         reached,
	}
	if checker, ok := l.rail.(rails.Checker); ok {
		checked := send
		checked.Payload = bytes.Clone(send.Payload)
		if err := checker.Check(checked); err != nil {
			return stop(payment.ResultCheckFailed, "%v", err)
		}
	}
	return send, nil
}

// preflight is the last check before the first byte. It shrinks the window in which a stalled
// worker could send late; only the rail's de-duplication closes it.
// The rail must still have the key of a re-send when the last byte is written: time has passed
// since the check in buildSend, to connect.
//
// The claim was made under the time budget by. The shorter start_within of by and of the present
// budget counts: the reaper may have judged the claim by the earlier budget before a longer one
// came into force.
func (r *Relayer) preflight(
	profile rails.Profile, claim payment.Claim, begun clock.Moment, by outbox.TimeBudget,
) error {
	now := r.budget.current()
	startWithin := min(by.StartWithin, now.StartWithin)
	switch age := begun.Age(); {
	case r.stopping.Load():
		return errors.New("the relayer is stopping")
	case age > startWithin:
		return fmt.Errorf("the claim is %s old, sending starts within %s", age.Round(time.Millisecond), startWithin)
	case r.beatAge() > now.HeartbeatStale:
		return errors.New("this relayer's heartbeat is stale: others may count it as dead")
	case claim.Expired(age):
		return errors.New("the instruction has expired")
	case !profile.MayLeave(claim, age, time.Duration(profile.Timeouts.Write)):
		return errors.New("a re-send would arrive after the rail's key window, or is not allowed any more")
	default:
		return nil
	}
}

func (r *Relayer) outcomeOf(
	l *lane, claim payment.Claim, result rails.Result, ofOne bool, begun clock.Moment,
) payment.Outcome {
	decision := l.profile.Decide(claim, payment.Answer{
		Result: result.Result, SeenBefore: result.SeenBefore, RailRefused: result.RailRefused, OthersPass: ofOne,
		Elapsed: begun.Age(), RetryAfter: result.RetryAfter, Spread: jitter(),
	})
	outcome := payment.Outcome{
		AttemptID: payment.NewID(), Claim: claim, Result: result.Result, Decision: decision,
		RailReference: result.Reference, RailCode: result.Code, CodeTable: result.CodeTable, ErrorMessage: result.Message,
		WorkerID: r.config.WorkerID, ProfileVersion: l.profile.Version, RenderVersion: l.rail.RenderVersion(),
	}
	if decision.AsAsked {
		outcome.ErrorMessage = rails.Truncate(payment.SayAsked(decision.Delay, result.RetryAfter)+outcome.ErrorMessage,
			payment.MaxErrorMessage)
	}
	if decision.Park {
		outcome.ParkAttemptID = payment.NewID()
	}
	return outcome
}

// outcome returns the outcome of a claim whose lane may be gone. Without a lane it decides by the
// zero policy, which is the safest.
func (r *Relayer) outcome(claim payment.Claim, result rails.Result, elapsed time.Duration) payment.Outcome {
	l := r.lanes.find(claim.RailType)
	begun := clock.Now().Before(elapsed)
	if l == nil {
		l = &lane{rail: unservedRail{}, profile: rails.Profile{Policy: payment.Policy{}.WithDefaults()}}
	}
	return r.outcomeOf(l, claim, result, false, begun)
}

// unservedRail is the adapter of a rail that this process no longer serves.
type unservedRail struct{}

func (unservedRail) RenderVersion() string { return "" }
func (unservedRail) Send(context.Context, rails.Send) rails.Result {
	return notSent("this process does not serve the rail")
}

func notSent(why string) rails.Result {
	return rails.Result{Result: payment.ResultNotSent, Message: why, OwnStop: true}
}

func jitter() float64 { return rand.Float64()*2 - 1 }
