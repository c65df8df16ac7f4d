package export

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env   map[string]string
		want  bool
		fault string
	}{
		{map[string]string{}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "OTEL_TRACES_EXPORTER"},
	} {
		got, err := wants(func(name string) string { return c.env[name] })
		if got != c.want || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%v: %v, %v", c.env, got, err)
		}
	}
}

// TestNoneIsNil tests that a process without an exporter has no tracer, and that Close is safe.
func TestNoneIsNil(t *testing.T) {
	t.Parallel()
	traces, err := Open(t.Context(), func(string) string { return "" }, "relayer", "v1", "w",
		slog.New(slog.DiscardHandler))
	if err != nil || traces != nil || traces.Tracer() != nil || traces.Postgres() != nil {
		t.Errorf("%v, %v, %v", traces, traces.Tracer(), err)
	}
	traces.Close(t.Context())
}

func TestUnknownProtocol(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"}
	_, err := Open(t.Context(), func(name string) string { return env[name] }, "relayer", "v1", "w",
		slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("%v", err)
	}
}

// TestFlushAtTheEnd sets the environment, which the SDK reads itself: a span made right before the
// end reaches the collector, and a collector that never answers delays the end for FlushMax and no
// longer.
func TestFlushAtTheEnd(t *testing.T) {
	got := make(chan string, 10)
	release := make(chan struct{})
	var hang atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
		if hang.Load() {
			<-release
		}
	}))
	defer collector.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	env := func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}[name] }
	for _, hangs := range []bool{false, true} {
		hang.Store(hangs)
		traces, err := Open(t.Context(), env, "relayer", "v1", "w", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, span := traces.Tracer().Start(t.Context(), "the last one")
		span.End()
		begun := time.Now()
		traces.Close(t.Context())
		if took := time.Since(begun); took > FlushMax+5*time.Second {
			t.Errorf("the end took %s", took)
		}
		if text := <-got; !strings.HasPrefix(text, "/v1/traces ") || !strings.Contains(text, "the last one") ||
			!strings.Contains(text, "railhead-relayer") {
			t.Errorf("the collector got %q", text)
		}
	}
}

// TestStatementsSayNoValues tests that a statement's span contains neither its parameters nor the
// server's quotes of them.
func TestStatementsSayNoValues(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traces := WithProcessor(sdk.NewSimpleSpanProcessor(exporter), "relayer", "v1", "w")
	defer traces.Close(t.Context())
	ctx, parent := traces.Tracer().Start(t.Context(), "parent")
	tracer := traces.Postgres().(postgres)
	refused := &pgconn.PgError{Severity: "ERROR", Code: "22P02", Message: `invalid input: "MARKER"`, Detail: "MARKER"}
	for _, err := range []error{refused, errors.New("dial MARKER")} {
		query := tracer.TraceQueryStart(ctx, nil, pgx.TraceQueryStartData{SQL: "SELECT $1", Args: []any{"MARKER"}})
		tracer.TraceQueryEnd(query, nil, pgx.TraceQueryEndData{Err: err})
		batch := tracer.TraceBatchStart(ctx, nil, pgx.TraceBatchStartData{})
		tracer.TraceBatchQuery(batch, nil, pgx.TraceBatchQueryData{SQL: "SELECT $1", Args: []any{"MARKER"}, Err: err})
		tracer.TraceBatchEnd(batch, nil, pgx.TraceBatchEndData{Err: err})
	}
	parent.End()
	spans := exporter.GetSpans()
	if len(spans) != 7 {
		t.Errorf("%d spans", len(spans))
	}
	states := 0
	for _, span := range spans {
		var text strings.Builder
		for _, attr := range span.Attributes {
			text.WriteString(string(attr.Key) + "=" + attr.Value.String() + "\n")
		}
		for _, event := range span.Events {
			for _, attr := range event.Attributes {
				text.WriteString(attr.Value.String() + "\n")
			}
		}
		text.WriteString(span.Name + span.Status.Description)
		if strings.Contains(text.String(), "MARKER") {
			t.Errorf("%s", text.String())
		}
		if strings.Contains(text.String(), "22P02") {
			states++
		}
	}
	if states != 3 {
		t.Errorf("%d spans say the SQLSTATE, want 3", states)
	}
}

var _ pgx.BatchTracer = postgres{}
