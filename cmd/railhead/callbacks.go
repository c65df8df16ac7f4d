package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// newCallbacks creates the endpoint for callbacks with its own login.
func newCallbacks(
	ctx context.Context, s settings, set *metrics.Set, log *slog.Logger,
) (service.Service, func(), error) {
	url, err := s.url("RAILHEAD_CALLBACKS_URL", s.CallbacksURL)
	if err != nil {
		return nil, nil, err
	}
	file, err := railconfig.Load(s.RailsFile, os.Getenv)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("RAILHEAD_RAILS_FILE: %w", err))
	}
	readers, err := file.Callbacks(os.Getenv)
	if err != nil {
		return nil, nil, usage(err)
	}
	sources, err := file.CallbackSources(os.Getenv)
	if err != nil {
		return nil, nil, usage(err)
	}
	store, err := callbacks.Open(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-callbacks",
		MaxConns: callback.Recordings + 2, Tracer: s.traces.Postgres(), Log: log})
	if err != nil {
		return nil, nil, usage(err)
	}
	listen := func() (net.Listener, error) {
		return listen("RAILHEAD_CALLBACKS_ADDR", s.CallbacksAddr, s.CallbacksFile)
	}
	one, err := callback.New(callback.Config{
		WorkerID: s.WorkerID, Host: hostName(), Version: buildVersion(), HeartbeatEvery: s.HeartbeatEvery,
		StoreTimeout: s.StoreTimeout, ConnectionsMax: s.CallbacksConns,
		Asserted: s.asserted(), StateFile: s.stateFile("callbacks"),
		OtherLogin: "RAILHEAD_CALLBACKS_URL takes a member of railhead_callbacks",
		Tracer:     s.traces.Tracer(),
		Sources:    sources,
	}, readers, store, listen, set.Callbacks(slices.Collect(maps.Keys(readers))), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	return remembering(one, "callbacks", set), store.Close, nil
}
