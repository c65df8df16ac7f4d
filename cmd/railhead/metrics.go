package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// newDatabaseMetrics creates the reader of the gauges from the database, with a
// connection of its own, so that it never waits for a turn, nor a turn for it.
// The login of a relayer or reaper can read all of them; RAILHEAD_METRICS_URL names
// another one. The logins of callbacks, api and events read no table, and there may be
// many consoles: without that variable they have no such gauges, and the first result is nil.
func newDatabaseMetrics(
	ctx context.Context, s settings, kind string, set *metrics.Set, log *slog.Logger,
) (*metrics.Database, func(), error) {
	if slices.Contains([]string{"callbacks", "api", "events", "console"}, kind) && s.MetricsURL == "" {
		return nil, func() {}, nil
	}
	own := map[string]string{"relayer": s.RelayerURL, "reaper": s.ReaperURL}
	url, err := s.url("RAILHEAD_METRICS_URL", cmp.Or(s.MetricsURL, own[kind]))
	if err != nil {
		return nil, nil, err
	}
	reader, err := reader.Open(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-metrics", MaxConns: 1,
		Log: log})
	if err != nil {
		return nil, nil, usage(err)
	}
	database, err := set.Database(metrics.DatabaseConfig{
		Every: s.MetricsEvery, SizeLimit: s.DatabaseSizeLimit,
	}, reader, log)
	if err != nil {
		reader.Close()
		return nil, nil, usage(err)
	}
	return database, reader.Close, nil
}
