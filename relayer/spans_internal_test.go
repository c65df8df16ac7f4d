package relayer

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/payment"
)

var traced = payment.Claim{
	OutboxID: payment.NewID(), AttemptNo: 1, RailType: "bank",
	Headers: []byte(`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`),
}

// TestNoTracerCostsNothing tests that a call without an exporter allocates nothing for its span.
func TestNoTracerCostsNothing(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { noSpan(ctx) }); n != 0 {
		t.Errorf("%v allocations for a span that is not wanted", n)
	}
}

func BenchmarkNoTracer(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		noSpan(b.Context())
	}
}

func noSpan(ctx context.Context) trace.Span {
	_, span := spans{}.call(ctx, traced)
	endCall(span, payment.Outcome{Claim: traced, Result: payment.ResultAccepted})
	return span
}
