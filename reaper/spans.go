package reaper

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/payment"
)

func (r *Reaper) beginCycle(ctx context.Context) (context.Context, trace.Span) {
	if r.config.Tracer == nil {
		return ctx, tracing.None
	}
	return r.config.Tracer.Start(ctx, tracing.Cycle, trace.WithAttributes(tracing.WorkerID.String(r.config.WorkerID)))
}

func endCycle(span trace.Span, result Result, err error) {
	if span.IsRecording() {
		span.SetAttributes(cycleStale.Int(result.Stale), cycleRepaired.Int(result.Repaired),
			cycleSuperseded.Int(result.Superseded),
			cycleConfirmed.Int(result.Confirmed), cycleExpired.Int(result.Expired), cycleGrace.Bool(result.Grace))
	}
	tracing.Fail(span, err)
	span.End()
}

// noteRepair makes a span for each recorded repair, linked to the trace of the caller that
// enqueued.
func (r *Reaper) noteRepair(ctx context.Context, outcome payment.Outcome) {
	if r.config.Tracer == nil {
		return
	}
	ctx, link := tracing.Join(ctx, tracing.Caller(outcome.Claim.Headers), false)
	_, span := r.config.Tracer.Start(ctx, tracing.Repair, link)
	if span.IsRecording() {
		span.SetAttributes(
			tracing.OutboxID.String(outcome.Claim.OutboxID.String()), tracing.AttemptNo.Int(outcome.Claim.AttemptNo),
			tracing.RailType.String(outcome.Claim.RailType), tracing.State.String(string(outcome.Decision.State)),
			tracing.NextAction.String(string(outcome.Decision.NextAction)))
	}
	span.End()
}

// Attributes of the span of a cycle that no other span has.
const (
	cycleStale      = attribute.Key("stale")
	cycleRepaired   = attribute.Key("repaired")
	cycleSuperseded = attribute.Key("superseded")
	cycleConfirmed  = attribute.Key("proven")
	cycleExpired    = attribute.Key("expired")
	cycleGrace      = attribute.Key("grace")
)
