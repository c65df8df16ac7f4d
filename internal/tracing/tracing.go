// Package tracing defines the OpenTelemetry spans of the components: their names, their attributes,
// and their relation to the caller's trace.
//
// A span contains ids, counts, states and results. It never contains a payload, an amount, an
// idempotency key, a parameter of a statement, or a text from a rail or a database.
package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/railhead-pay/railhead/payment"
)

// Scope names the instrumentation.
const Scope = "github.com/railhead-pay/railhead"

// The names of spans.
const (
	Turn     = "railhead.turn"
	Claim    = "railhead.claim"
	Record   = "railhead.record"
	Send     = "railhead.send"
	Inquiry  = "railhead.inquiry"
	Cycle    = "railhead.reaper_cycle"
	Repair   = "railhead.repair"
	Callback = "railhead.callback"
)

// The attributes of spans, in the words of the glossary.
const (
	OutboxID   = attribute.Key("outbox_id")
	OutboxIDs  = attribute.Key("outbox_ids") // at most IDsMax
	AttemptNo  = attribute.Key("attempt_no")
	RailType   = attribute.Key("rail_type")
	ClaimID    = attribute.Key("claim_id")
	WorkerID   = attribute.Key("worker_id")
	SendNo     = attribute.Key("send_no")
	Result     = attribute.Key("result")
	State      = attribute.Key("state")
	NextAction = attribute.Key("next_action")
	Verdict    = attribute.Key("verdict")
	Outcomes   = attribute.Key("outcomes")
	Claims     = attribute.Key("claims")
	Lanes      = attribute.Key("lanes")
	SQLState   = attribute.Key("db.response.status_code")
)

// IDsMax bounds the ids that one span lists.
const IDsMax = 100

// None is the span of a component without a tracer.
var None trace.Span = noop.Span{}

// Caller returns the span of the caller that enqueued, from the headers of the instruction. It is
// not valid if they contain no trace context.
func Caller(headers []byte) trace.SpanContext {
	return CallerOf(payment.TraceContext(headers))
}

// CallerOf returns the span of the caller from its trace context, as Caller does.
func CallerOf(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Carry returns headers with the trace context of ctx. A trace context that the caller set remains,
// and headers remain as they are if ctx has no trace.
func Carry(ctx context.Context, headers map[string]string) map[string]string {
	if _, own := headers["traceparent"]; own || !trace.SpanContextFromContext(ctx).IsValid() {
		return headers
	}
	carried := make(propagation.MapCarrier, len(headers)+2)
	for name, value := range headers {
		if name != "tracestate" { // it belongs to no trace, and ctx may have its own
			carried[name] = value
		}
	}
	propagation.TraceContext{}.Inject(ctx, carried)
	return carried
}

// Join relates a span to the caller's: as its child, or as the root of its own trace, with a link.
func Join(ctx context.Context, caller trace.SpanContext, child bool) (context.Context, trace.SpanStartOption) {
	switch {
	case caller.IsValid() && child:
		return trace.ContextWithRemoteSpanContext(ctx, caller), trace.WithAttributes()
	case caller.IsValid():
		return ctx, trace.WithLinks(trace.Link{SpanContext: caller})
	default:
		return ctx, trace.WithAttributes()
	}
}

// Fail marks a span as failed. The text of the error is only in the log: it may quote a statement's
// input.
func Fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	span.SetStatus(codes.Error, "")
	if refused, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		span.SetAttributes(SQLState.String(refused.SQLState()))
	}
}

// IDs returns an attribute with the ids, at most IDsMax of them.
func IDs[T any](all []T, id func(T) payment.ID) attribute.KeyValue {
	texts := make([]string, min(len(all), IDsMax))
	for n := range texts {
		texts[n] = id(all[n]).String()
	}
	return OutboxIDs.StringSlice(texts)
}
