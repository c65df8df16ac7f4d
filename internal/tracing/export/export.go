// Package export sends spans where the standard OTEL_* variables say.
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

// FlushMax bounds the end: spans that no collector has taken by then are lost.
const FlushMax = 5 * time.Second

// Traces makes spans and sends them. The nil *Traces makes none.
type Traces struct{ provider *sdk.TracerProvider }

// Open makes what the environment asks for: nil, unless OTEL_TRACES_EXPORTER is
// otlp or one of the OTLP endpoints is set, and if OTEL_SDK_DISABLED is true. The
// SDK reads the rest by itself: sampler, batches, headers, certificates, limits.
// A collector that can't be reached costs spans and nothing else.
func Open(ctx context.Context, getenv func(string) string, component, version, workerID string, log *slog.Logger) (*Traces, error) {
	wanted, err := wants(getenv)
	if err != nil || !wanted {
		return nil, err
	}
	exporter, err := exporterOf(ctx, getenv)
	if err != nil {
		return nil, err
	}
	// What goes wrong in the exporter quotes endpoints, which may hold secrets.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		log.Warn("spans could not be exported; see the collector and OTEL_EXPORTER_OTLP_ENDPOINT")
	}))
	return WithProcessor(sdk.NewBatchSpanProcessor(exporter), component, version, workerID), nil
}

// WithProcessor gives every span to a processor.
func WithProcessor(processor sdk.SpanProcessor, component, version, workerID string) *Traces {
	about := resource.NewSchemaless(
		attribute.String("service.name", "railhead-"+component), attribute.String("service.version", version),
		attribute.String("service.instance.id", workerID))
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
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

// Tracer makes the spans of a component; nil where there are none.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(tracing.Scope)
}

// Postgres makes a span for every statement inside another span; nil where there
// are none.
func (t *Traces) Postgres() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return newPostgres(t.provider)
}

// Close sends what is left, for at most FlushMax.
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
