package callback

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/callback"
)

// headersStore is a Store that returns the headers of an instruction, and with them the trace of
// the caller that enqueued it.
type headersStore interface {
	Headers(ctx context.Context, outboxID payment.ID) ([]byte, error)
}

// begin starts the root of a trace. It ignores a trace context from the rail: a third party does
// not decide what is sampled.
func (r *Receiver) begin(ctx context.Context, railType string) (context.Context, trace.Span) {
	if r.Tracer == nil {
		return ctx, tracing.None
	}
	return r.Tracer.Start(ctx, tracing.Callback, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(tracing.RailType.String(railType), tracing.WorkerID.String(r.workerID)))
}

// nameInstruction adds the instruction of a verified callback to the span, and links the span to
// the trace of the caller that enqueued it.
func (r *Receiver) nameInstruction(ctx context.Context, outboxID payment.ID, event callback.Event) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(tracing.OutboxID.String(outboxID.String()), tracing.Result.String(string(event.Result)))
	store, ok := r.store.(headersStore)
	if !ok {
		return
	}
	// An incomplete trace does not keep a callback from being recorded.
	if headers, err := store.Headers(ctx, outboxID); err == nil {
		if caller := tracing.Caller(headers); caller.IsValid() {
			span.AddLink(trace.Link{SpanContext: caller})
		}
	}
}

func endRecord(ctx context.Context, verdict payment.Verdict, err error) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() && err == nil {
		span.SetAttributes(tracing.Verdict.String(string(verdict)))
	}
	tracing.Fail(span, err)
}
