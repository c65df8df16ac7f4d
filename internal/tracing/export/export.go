// Package export sends spans to the collector that the standard OTEL_* variables name.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/tracing"
)

// FlushMax bounds the last export: spans that no collector has accepted by then are lost.
const FlushMax = 5 * time.Second

// Traces makes spans and exports them. The nil *Traces makes none.
type Traces struct{ provider *sdk.TracerProvider }

// Open returns the Traces that the environment asks for. It returns nil unless OTEL_TRACES_EXPORTER
// is otlp or one of the OTLP endpoints is set, and if OTEL_SDK_DISABLED is true. The SDK reads the
// other variables itself: sampler, batches, headers, certificates, limits. If the collector is
// unavailable, only spans are lost.
func Open(
	ctx context.Context, getenv func(string) string, component, version, workerID string, log *slog.Logger,
) (*Traces, error) {
	wanted, err := wants(getenv)
	if err != nil || !wanted {
		return nil, err
	}
	exporter, err := exporterOf(ctx, getenv)
	if err != nil {
		return nil, err
	}
	// Errors of the exporter quote endpoints, which may contain secrets.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		log.Warn("spans could not be exported; see the collector and OTEL_EXPORTER_OTLP_ENDPOINT")
	}))
	return WithProcessor(sdk.NewBatchSpanProcessor(exporter), component, version, workerID), nil
}

// WithProcessor returns Traces that pass every span to a processor.
func WithProcessor(processor sdk.SpanProcessor, component, version, workerID string) *Traces {
	about := resource.NewSchemaless(
		attribute.String("service.name", "railhead-"+component), attribute.String("service.version", version),
		attribute.String("service.instance.id", workerID))
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
	if merged, err := resource.Merge(about, resource.Environment()); err == nil {
		about = merged
	}
	return &Traces{sdk.NewTracerProvider(sdk.WithSpanProcessor(processor), sdk.WithResource(about))}
}

// wants reports whether spans are to be exported.
func wants(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch name := getenv("OTEL_TRACES_EXPORTER"); name {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: use otlp or none", name)
	}
}

func exporterOf(ctx context.Context, getenv func(string) string) (sdk.SpanExporter, error) {
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		exporter, err := otlptracehttp.New(ctx)
		return exporter, hide(err)
	case "grpc":
		exporter, err := otlptracegrpc.New(ctx)
		return exporter, hide(err)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: use http/protobuf or grpc", protocol)
	}
}

func hide(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("the OTLP exporter can't be made of OTEL_EXPORTER_OTLP_*: check endpoint, headers and certificates")
}

// Tracer returns the tracer of a component, or nil if there are no traces.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(tracing.Scope)
}

// Postgres returns a tracer that makes a span for every statement inside another span, or nil if
// there are no traces.
func (t *Traces) Postgres() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return newPostgres(t.provider)
}

// Close exports the remaining spans, for at most FlushMax.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushMax)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}
