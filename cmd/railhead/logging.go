package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"
)

// newLog returns a log to standard error, by s.logTo: text on a terminal, otherwise JSON.
func newLog(s settings, component string) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, usage(fmt.Errorf("RAILHEAD_LOG_LEVEL is %q: use debug, info, warn or error", s.LogLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	text := s.LogFormat == "text" || s.LogFormat == "" && isTerminal(os.Stderr)
	if !text && s.LogFormat != "" && s.LogFormat != "json" {
		return nil, usage(fmt.Errorf("RAILHEAD_LOG_FORMAT is %q: use text or json", s.LogFormat))
	}
	var handler slog.Handler = slog.NewJSONHandler(escaping{s.logTo}, options)
	if text {
		handler = slog.NewTextHandler(s.logTo, options)
	}
	log := slog.New(withTrace{handler}).With("component", component, "worker_id", s.WorkerID)
	if s.Setting != "" {
		log = log.With("cell", s.Setting)
	}
	return log, nil
}

// escaping writes lines of JSON so that a terminal shows texts of rails, callers and payloads as they are. As text,
// slog quotes those itself.
type escaping struct{ w io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	if _, err := io.WriteString(e.w, escapedJSON(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// withTrace adds the trace id to a line that is written inside a trace.
type withTrace struct{ slog.Handler }

func (h withTrace) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h withTrace) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withTrace{h.Handler.WithAttrs(attrs)}
}
func (h withTrace) WithGroup(name string) slog.Handler { return withTrace{h.Handler.WithGroup(name)} }
