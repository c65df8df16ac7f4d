package main

import (
	"context"
	"log/slog"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/reaper"
)

// newReaper creates a reaper with its own login.
func newReaper(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	url, err := s.url("RAILHEAD_REAPER_URL", s.ReaperURL)
	if err != nil {
		return nil, nil, err
	}
	store, err := executor.Open(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-reaper", MaxConns: 2,
		Tracer: s.traces.Postgres(), Log: log})
	if err != nil {
		return nil, nil, usage(err)
	}
	one, err := reaper.New(reaper.Config{
		WorkerID: s.WorkerID, Host: hostName(), Version: buildVersion(),
		Every: s.ReapEvery, HeartbeatEvery: s.HeartbeatEvery, Asserted: s.asserted(), Grace: s.ReapGrace,
		StoreTimeout: 3 * s.StoreTimeout,
		StateFile:    s.stateFile("reaper"), Tracer: s.traces.Tracer(),
	}, store, set.Reaper(), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	return remembering(one, "reaper", set), store.Close, nil
}
