package relayer

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// spans starts the span of each call to a rail. The zero value starts none.
type spans struct{ tracer trace.Tracer }

// call starts the span of one call. The first call of an instruction is a child of the caller's
// span. A later one, which may come hours after it, is the root of its own trace, with a link to
// the caller's span. The number of the row decides, not the count of sends: a claim whose second
// send follows a crash is a later one too.
func (s spans) call(ctx context.Context, claim payment.Claim) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, tracing.None
	}
	name := tracing.Send
	if claim.Action == payment.ActionInquire {
		name = tracing.Inquiry
	}
	ctx, joined := tracing.Join(ctx, tracing.Caller(claim.Headers), claim.AttemptNo == 1)
	ctx, span := s.tracer.Start(ctx, name, joined, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			tracing.OutboxID.String(claim.OutboxID.String()), tracing.AttemptNo.Int(claim.AttemptNo),
			tracing.RailType.String(claim.RailType), tracing.ClaimID.String(claim.ClaimID.String()),
			tracing.SendNo.Int(claim.SendNo()))
	}
	return ctx, span
}

// traceID returns the trace of a recorded span, or the empty string.
func traceID(span trace.Span) string {
	if at := span.SpanContext(); at.IsSampled() && at.HasTraceID() {
		return at.TraceID().String()
	}
	return ""
}

// endCall ends the span of a call with the decision. It contains no text of the rail.
func endCall(span trace.Span, outcome payment.Outcome) {
	if span.IsRecording() {
		span.SetAttributes(tracing.Result.String(string(outcome.Result)),
			tracing.State.String(string(outcome.Decision.State)),
			tracing.NextAction.String(string(outcome.Decision.NextAction)))
	}
	span.End()
}

// tracedStore is a Store that starts the spans of claims and records.
type tracedStore struct {
	Store
	tracer trace.Tracer
}

// Turn makes one span, with a child for each of its two parts. The children last equally long,
// since they share one transaction. A scan that finds nothing due makes no span.
func (s tracedStore) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	begun := time.Now()
	if len(turn.Outcomes) == 0 {
		result, err := s.Store.Turn(ctx, turn)
		if err != nil || len(result.Claims) > 0 {
			ctx, span := s.tracer.Start(ctx, tracing.Turn, trace.WithTimestamp(begun))
			s.claimed(ctx, turn.Claim, result.Claims, begun, err)
			s.end(span, turn, result, err)
		}
		return result, err
	}
	ctx, span := s.tracer.Start(ctx, tracing.Turn)
	result, err := s.Store.Turn(ctx, turn)
	s.recorded(ctx, turn.Outcomes, begun, err)
	if len(result.Claims) > 0 {
		s.claimed(ctx, turn.Claim, result.Claims, begun, err)
	}
	s.end(span, turn, result, err)
	return result, err
}

func (s tracedStore) end(span trace.Span, turn outbox.Turn, result outbox.TurnResult, err error) {
	if span.IsRecording() {
		span.SetAttributes(tracing.Outcomes.Int(len(turn.Outcomes)), tracing.Lanes.Int(len(turn.Claim.Lanes)),
			tracing.Claims.Int(len(result.Claims)))
	}
	tracing.Fail(span, err)
	span.End()
}

func (s tracedStore) claimed(
	ctx context.Context, asked outbox.ClaimRequest, claims []payment.Claim, begun time.Time, err error,
) {
	_, span := s.tracer.Start(ctx, tracing.Claim, trace.WithTimestamp(begun))
	if span.IsRecording() {
		span.SetAttributes(tracing.ClaimID.String(asked.ClaimID.String()), tracing.WorkerID.String(asked.WorkerID),
			tracing.Claims.Int(len(claims)), tracing.IDs(claims, func(c payment.Claim) payment.ID { return c.OutboxID }))
	}
	tracing.Fail(span, err)
	span.End()
}

func (s tracedStore) recorded(ctx context.Context, outcomes []payment.Outcome, begun time.Time, err error) {
	_, span := s.tracer.Start(ctx, tracing.Record, trace.WithTimestamp(begun))
	if span.IsRecording() {
		span.SetAttributes(tracing.Outcomes.Int(len(outcomes)),
			tracing.IDs(outcomes, func(o payment.Outcome) payment.ID { return o.Claim.OutboxID }))
	}
	tracing.Fail(span, err)
	span.End()
}

// ClaimOnly makes the span of a claim without a turn, as it follows a failed turn.
func (s tracedStore) ClaimOnly(
	ctx context.Context, claim outbox.ClaimRequest, only []payment.ID,
) ([]payment.Claim, error) {
	begun := time.Now()
	claims, err := s.Store.ClaimOnly(ctx, claim, only)
	s.claimed(ctx, claim, claims, begun, err)
	return claims, err
}

// RecordLate makes the span of a record by the slow path.
func (s tracedStore) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	ctx, span := s.tracer.Start(ctx, tracing.Record, trace.WithAttributes(
		tracing.OutboxID.String(outcome.Claim.OutboxID.String()), tracing.AttemptNo.Int(outcome.Claim.AttemptNo),
		tracing.RailType.String(outcome.Claim.RailType), tracing.Result.String(string(outcome.Result))))
	verdict, err := s.Store.RecordLate(ctx, outcome)
	span.SetAttributes(tracing.Verdict.String(string(verdict)))
	tracing.Fail(span, err)
	span.End()
	return verdict, err
}
