package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// newLog writes to standard error: text for people, JSON for machines.
func newLog(s settings, component string) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, usage(fmt.Errorf("RAILHEAD_LOG_LEVEL is %q: use debug, info, warn or error", s.LogLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch s.LogFormat {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, options)
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, options)
	case "":
		handler = handlerFor(os.Stderr, options)
	default:
		return nil, usage(fmt.Errorf("RAILHEAD_LOG_FORMAT is %q: use text or json", s.LogFormat))
	}
	return slog.New(handler).With("component", component, "worker_id", s.WorkerID), nil
}

func handlerFor(file *os.File, options *slog.HandlerOptions) slog.Handler {
	if isTerminal(file) {
		return slog.NewTextHandler(file, options)
	}
	return slog.NewJSONHandler(io.Writer(file), options)
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
