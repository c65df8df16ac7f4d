package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// serveHealth serves /healthz (the process runs), /readyz (200 if every component can
// work, or every one of some cell; otherwise 503; and the reasons of those that can't) and /metrics until the
// context ends. It writes the bound address to addrFile, if one is named, once it listens.
func serveHealth(
	ctx context.Context, addr, addrFile string, components []component, metrics http.Handler, log *slog.Logger,
) error {
	listener, err := listen("RAILHEAD_HTTP_ADDR", addr, addrFile)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeReadiness(w, components) })
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	log.InfoContext(ctx, "health endpoints", "addr", listener.Addr().String())
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		server.Shutdown(last) // probes are short, and are repeated if they are cut off
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("health endpoints: %w", err)
	}
	return nil
}

// errSomeCells: a component that serves several cells can't work for some of them.
var errSomeCells = errors.New("the other cells are served")

func writeReadiness(w http.ResponseWriter, components []component) {
	var all []error
	works := make(map[string]bool) // a cell, by its setting
	for _, each := range components {
		err := each.service.Ready()
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", each.name(), err))
		}
		before, seen := works[each.setting]
		ready := err == nil || errors.Is(err, errSomeCells) || errors.Is(err, errStillReady)
		works[each.setting] = ready && (before || !seen)
	}
	if !slices.Contains(slices.Collect(maps.Values(works)), true) {
		w.WriteHeader(http.StatusServiceUnavailable)
	} else {
		fmt.Fprintln(w, "ready")
	}
	if len(all) > 0 {
		fmt.Fprintln(w, errors.Join(all...))
	}
}

// listen listens on the address that a variable names, and writes the bound one to a file, if one is named by the
// variable with _FILE.
func listen(variable, addr, addrFile string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usage(fmt.Errorf("listening on %s %s: %w", variable, addr, err))
	}
	if addrFile != "" {
		if err := writeWhole(addrFile, listener.Addr().String()+"\n"); err != nil {
			return nil, errors.Join(fmt.Errorf("writing %s_FILE: %w", variable, err), listener.Close())
		}
	}
	return listener, nil
}

// writeWhole replaces a file in one step, so that no reader sees half of it.
func writeWhole(name, text string) error {
	draft := name + ".new"
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, name)
}
