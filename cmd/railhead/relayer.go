package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/relayer"
)

// newRelayer creates a relayer with its own login, its listening session and its rails.
func newRelayer(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	url, err := s.url("RAILHEAD_RELAYER_URL", s.RelayerURL)
	if err != nil {
		return nil, nil, err
	}
	open, serves, err := railOpener(s.RailsFile, s.rails, log)
	if err != nil {
		return nil, nil, err
	}
	// One connection each for the turn, heartbeats and tests of the notifier, and the
	// pause of a rail in trouble.
	store, err := executor.Open(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-relayer", MaxConns: 4,
		Tracer: s.traces.Postgres(), Log: log})
	if err != nil {
		return nil, nil, usage(err)
	}
	notifier, err := executor.NewNotifier(ledger.Config{URL: cmp.Or(s.ListenURL, url), Cell: s.Cell,
		Name: "railhead-notifier"}, store, log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	if s.StateDir == "" {
		log.WarnContext(ctx, "RAILHEAD_STATE_DIR is not set: where server and services are all started again, lanes are "+
			"suspended until an operator accepts the server")
	}
	one, err := relayer.New(relayer.Config{
		WorkerID: s.WorkerID, Host: hostName(), Version: buildVersion(),
		Poll: s.Poll, Coalesce: s.Coalesce, ClaimMax: s.ClaimMax, RecordMax: s.ClaimMax,
		Asserted: s.asserted(), HeartbeatEvery: s.HeartbeatEvery, RefreshEvery: s.RefreshEvery,
		NotifierTestEvery: s.NotifierTestEvery, StoreTimeout: s.StoreTimeout, StateFile: s.stateFile("relayer"),
		Tracer: s.traces.Tracer(), Serves: serves, Stays: s.together,
	}, store, notifier, open, set.Relayer(), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	set.Watch(one)
	return remembering(one, "relayer", set), store.Close, nil
}

// railOpener returns a function that opens the rails of the file, each with the profile
// that is in force in the database and with what the rail before it has seen, and one that
// reports whether the file has a rail. One that rail apply would refuse today is logged, and goes on.
func railOpener(
	path string, before *inherited, log *slog.Logger,
) (open relayer.OpenRail, serves func(string) bool, err error) {
	file, err := railconfig.Load(path, os.Getenv)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("RAILHEAD_RAILS_FILE: %w", err))
	}
	byType := make(map[string]railconfig.RailConfig, len(file.Rails))
	for _, rail := range file.Rails {
		byType[rail.RailType] = rail
	}
	serves = func(railType string) bool {
		_, ok := byType[railType]
		return ok
	}
	return func(profile rails.Profile) (rails.Rail, error) {
		config, ok := byType[profile.RailType]
		if !ok {
			return nil, relayer.ErrNotServed
		}
		rail, err := railconfig.Open(config, profile)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(config.Tolerated(profile)...); err != nil {
			log.Warn("railhead rail check refuses what this rail sends or asks: change its file, and apply it", "rail_type",
				profile.RailType, "error", err)
		}
		before.take(profile.RailType, rail)
		return rail, nil
	}, serves, nil
}
