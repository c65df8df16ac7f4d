package relayer

import (
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

// dispatch launches what was claimed and gives back the permits that found
// nothing.
func (r *stream) dispatch(sends context.Context, reserved map[string]*reservation, claims []payment.Claim, begun clock.Moment) {
	r.launch(sends, reserved, claims, begun)
	releaseAll(reserved)
}

// launch starts a goroutine for each claimed instruction. Begun is from before
// the claim statement, so that a claim never looks younger than it is.
func (r *stream) launch(sends context.Context, reserved map[string]*reservation, claims []payment.Claim, begun clock.Moment) {
	committed := time.Now()
	if len(claims) > 0 {
		faultpoint.Reach(faultpoint.Committed)
		r.watch.Claimed(claims)
		r.guard.Claimed(sends, claims)
	}
	r.flight.began(claims)
	for _, claim := range claims {
		held := reserved[claim.RailType]
		permit := held.take()
		held.lane.calls.Add(1)
		r.flight.send(func() {
			outcome := r.call(sends, held, claim, permit, begun, committed)
			held.lane.calls.Add(-1)
			r.flight.answer(outcome)
			signal(r.wake)
		})
	}
}

var errBudget = errors.New("the rail's send budget is used up")

// call carries one claim out and decides what follows. It never fails: an
// unknown outcome is an outcome.
func (r *Relayer) call(ctx context.Context, held *reservation, claim payment.Claim, permit *rails.Permit, begun clock.Moment, committed time.Time) payment.Outcome {
	l := held.lane
	ctx, cancel := context.WithTimeoutCause(ctx, l.profile.SendBudget(), errBudget)
	defer cancel()
	claim = r.guard.Weigh(claim)
	ctx, span := r.spans.call(ctx, claim)
	sent := time.Now()
	result := rails.Redact(r.speak(ctx, held, claim, begun), claim.Payload, claim.IdempotencyKey)
	result, heard := l.weigh(claim, result, permit, begun)
	call := Call{RailType: claim.RailType, Action: claim.Action, Result: result.Result}
	if result.Unmapped {
		call.UnmappedIn = cmp.Or(result.CodeTable, "none")
	}
	if result.FirstByte {
		call.Latency, call.TraceID = time.Since(committed), traceID(span)
	}
	r.watch.Called(call)
	outcome := r.outcomeOf(l, claim, result, heard.othersPass, begun)
	if result.FirstByte {
		outcome.Latency = time.Since(sent)
	}
	if heard.railRefuses {
		r.pauseRail(ctx, claim.RailType, result)
	}
	endCall(span, outcome)
	return outcome
}

// refusal is what a refusal of our credentials, route or form says.
type refusal struct {
	othersPass  bool // it is about its instruction
	railRefuses bool // it is about the rail, as were those before it
}

// weigh ends the permit of a call and says what its result proves on this rail. A
// refusal before the first byte is never about the instruction: the rail has not
// seen it.
func (l *lane) weigh(claim payment.Claim, result rails.Result, permit *rails.Permit, begun clock.Moment) (rails.Result, refusal) {
	var heard refusal
	if result.Result == payment.ResultRefusedRail || result.RailRefused {
		var first time.Time
		if !claim.RailRefusedSince.IsZero() {
			first = time.Now().Add(claim.RailRefusedSince.Sub(claim.ClaimedAt) - begun.Age())
		}
		heard.othersPass, heard.railRefuses = l.guard.Refused(claim.Action, claim.OutboxID, first)
		heard.othersPass = heard.othersPass && result.FirstByte
	}
	switch {
	case heard.othersPass:
		permit.SettleRefused()
	case claim.Action == payment.ActionInquire:
		permit.SettleInquiry(result)
	default:
		permit.Settle(result)
	}
	result.RailRefused = result.RailRefused || result.Result == payment.ResultRefusedRail
	result.Result = l.profile.Proven(claim, result.Result, result.FirstByte)
	return result, heard
}

// speak checks what can be checked, then sends or inquires. A panic in the
// adapter's call is UNKNOWN once a byte may have left; one in its checks is here.
func (r *Relayer) speak(ctx context.Context, held *reservation, claim payment.Claim, begun clock.Moment) (result rails.Result) {
	defer func() {
		if fault := recover(); fault != nil {
			r.log.ErrorContext(ctx, "a check panicked", "rail_type", claim.RailType, "outbox_id", claim.OutboxID, "panic", fmt.Sprintf("%T", fault))
			result = rails.Result{Result: payment.ResultNotSent, Message: "the adapter panicked before the first byte"}
		}
	}()
	if claim.Action == payment.ActionInquire {
		return r.inquire(ctx, held.lane, claim)
	}
	send, stop := r.sendOf(held, claim, begun)
	if stop != nil {
		return *stop
	}
	return rails.SendSafely(ctx, held.lane.rail, send)
}

// reached tells crash tests how far a call has come.
func reached(phase rails.Phase) { faultpoint.Reach(faultpoint.Point(phase.String())) }

func (r *Relayer) inquire(ctx context.Context, l *lane, claim payment.Claim) rails.Result {
	inquirer, ok := l.rail.(rails.Inquirer)
	if !ok {
		// A provisional acceptance whose callback is overdue, or a profile that
		// promises an inquiry that the adapter has not.
		return rails.Result{Result: payment.ResultUnavailable, Message: "the rail can't be asked"}
	}
	parent, state := payment.TraceContext(claim.Headers)
	return rails.InquireSafely(ctx, inquirer, rails.Inquiry{
		OutboxID: claim.OutboxID, RailKey: claim.RailKey,
		InstructionID: claim.InstructionID, ParticipantID: claim.ParticipantID,
		Reference: claim.RailReference, SendNo: claim.SendCount, RenderVersion: claim.RenderVersion, TraceParent: parent, TraceState: state, OnPhase: reached,
	})
}

// sendOf builds the send, or says why nothing may leave.
func (r *Relayer) sendOf(held *reservation, claim payment.Claim, begun clock.Moment) (rails.Send, *rails.Result) {
	l := held.lane
	stop := func(result payment.Result, format string, args ...any) (rails.Send, *rails.Result) {
		return rails.Send{}, &rails.Result{Result: result, Message: fmt.Sprintf(format, args...), OwnStop: true}
	}
	if !claim.Intact() {
		return stop(payment.ResultTampered, "the payload differs from its fingerprint in the key registry")
	}
	write := time.Duration(l.profile.Timeouts.Write)
	if l.profile.AwaitsAcceptance(claim, begun.Age(), write) {
		return stop(payment.ResultNotSent, "a restore may have forgotten a send of it, and another might be a second one: it waits until an operator has accepted the server")
	}
	if !l.profile.MayLeave(claim, begun.Age(), write) {
		return stop(payment.ResultWindowClosed, "a re-send would come after expires_at or the rail's key window, or the rail or the caller allows none")
	}
	if !claim.FirstSentAt.IsZero() && claim.RenderVersion != l.rail.RenderVersion() {
		return stop(payment.ResultRenderChanged, "rendered by %s before and by %s now: a re-send must have the same bytes",
			claim.RenderVersion, l.rail.RenderVersion())
	}
	amount, err := payment.PayloadAmount(claim.Payload)
	if err != nil {
		return stop(payment.ResultCheckFailed, "amount: %v", err)
	}
	parent, state := payment.TraceContext(claim.Headers)
	send := rails.Send{
		OutboxID: claim.OutboxID, RailKey: claim.RailKey,
		InstructionID: claim.InstructionID, ParticipantID: claim.ParticipantID,
		Amount: amount, Payload: claim.Payload, SendNo: claim.SendNo(),
		TraceParent: parent, TraceState: state,
		BeforeFirstByte: func() error { return r.mayStart(l.profile, claim, begun, held.budget) },
		OnPhase:         reached,
	}
	if checker, ok := l.rail.(rails.Checker); ok {
		if err := checker.Check(send); err != nil {
			return stop(payment.ResultCheckFailed, "%v", err)
		}
	}
	return send, nil
}

// mayStart is the last look before the first byte. It shrinks the window in
// which a paused worker could send late; only the rail's own de-duplication
// closes it. The rail has to know the key of a re-send still when the last byte is
// written: connecting has taken time since the look that sendOf took.
//
// By is the time budget that the claim was made by. Of its start_within and the
// present one the shorter counts: the reaper may have weighed the claim by the one
// before a longer one came.
func (r *Relayer) mayStart(profile rails.Profile, claim payment.Claim, begun clock.Moment, by outbox.TimeBudget) error {
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

func (r *Relayer) outcomeOf(l *lane, claim payment.Claim, result rails.Result, othersPass bool, begun clock.Moment) payment.Outcome {
	decision := l.profile.Decide(claim, payment.Answer{
		Result: result.Result, SeenBefore: result.SeenBefore, RailRefused: result.RailRefused, OthersPass: othersPass, Elapsed: begun.Age(), RetryAfter: result.RetryAfter, Spread: spread(),
	})
	outcome := payment.Outcome{
		AttemptID: payment.NewID(), Claim: claim, Result: result.Result, Decision: decision,
		RailReference: result.Reference, RailCode: result.Code, CodeTable: result.CodeTable, ErrorMessage: result.Message,
		WorkerID: r.config.WorkerID, ProfileVersion: l.profile.Version, RenderVersion: l.rail.RenderVersion(),
	}
	if decision.Park {
		outcome.ParkAttemptID = payment.NewID()
	}
	return outcome
}

// outcome is outcomeOf for a claim whose lane may be gone: the zero policy is
// the safest there is.
func (r *Relayer) outcome(claim payment.Claim, result rails.Result, elapsed time.Duration) payment.Outcome {
	l := r.lanes.find(claim.RailType)
	begun := clock.Now().Before(elapsed)
	if l == nil {
		l = &lane{rail: nowhere{}, profile: rails.Profile{Policy: payment.Policy{}.WithDefaults()}}
	}
	return r.outcomeOf(l, claim, result, false, begun)
}

// nowhere stands for a rail that this process no longer serves.
type nowhere struct{}

func (nowhere) RenderVersion() string { return "" }
func (nowhere) Send(context.Context, rails.Send) rails.Result {
	return notSent("this process does not serve the rail")
}

func notSent(why string) rails.Result {
	return rails.Result{Result: payment.ResultNotSent, Message: why, OwnStop: true}
}

func (r *Relayer) pauseRail(ctx context.Context, railType string, result rails.Result) {
	// The call's own deadline may be near; the pause has its own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	paused, err := r.store.PauseRail(ctx, railType, "the rail refuses our credentials, route or form: "+result.Code+" "+result.Message)
	switch {
	case err != nil:
		r.log.ErrorContext(ctx, "rail refuses us and can't be paused", "rail_type", railType, "error", err)
	case paused:
		r.log.ErrorContext(ctx, "rail paused: it refuses our credentials, route or form", "rail_type", railType, "code", result.Code)
	}
}

func spread() float64 { return rand.Float64()*2 - 1 }
