package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/testbed/money"
)

// payMoney is "testbed money": a private PostgreSQL, rails of every shape with a simulated bank
// each, two relayers and two reapers, and a great many payments, first with faults and then
// healed. Its last line gives the counts that it is judged by.
func payMoney(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed money", flag.ContinueOnError)
	options := money.Options{Out: os.Stdout}
	flags.IntVar(&options.Payments, "payments", 10_000, "payments of each of the two halves")
	flags.Uint64Var(&options.Seed, "seed", 0, "where payments and faults are drawn from; 0 takes a new one")
	flags.Float64Var(&options.Faults, "faults", 0.2, "share of what a fault hits in the first half")
	flags.DurationVar(&options.Bound, "bound", 10*time.Minute, "end of a half that does not end by itself")
	flags.StringVar(&options.Evidence, "evidence", "build/evidence/money",
		"where the evidence goes; an earlier run's is replaced")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	if options.Seed == 0 {
		options.Seed = uint64(time.Now().UnixMilli())
	}
	report, err := pay(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed money:", err)
		if !errors.Is(err, money.ErrMoney) {
			return exitTrouble
		}
	}
	fmt.Printf("money: seed=%d, %.0f s, evidence in %s\n", report.Seed, report.Seconds, options.Evidence)
	fmt.Printf("money: %s\n", report.Line())
	if err != nil {
		return exitBroken
	}
	return 0
}

// pay runs on a server of its own, of which only the log remains.
func pay(ctx context.Context, options money.Options) (report money.Report, err error) {
	if options.Evidence, err = filepath.Abs(options.Evidence); err != nil {
		return report, err
	}
	if err := os.MkdirAll(options.Evidence, 0o755); err != nil {
		return report, err
	}
	log, err := os.Create(filepath.Join(options.Evidence, "components.log"))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	options.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := pgserver.Start(ctx, pgserver.Options{
		Settings: map[string]string{"max_connections": "100", "shared_buffers": "256MB"}, Log: options.Log,
	})
	if err != nil {
		return report, fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, server.Stop(last))
	}()
	if _, err := install.On(ctx, server, migrations.DefaultCell, outbox.TimeBudget{}); err != nil {
		return report, err
	}
	return money.Run(ctx, options, money.Database{
		URL: func(login string) string { return server.URL(install.Database, login) }, Cell: migrations.DefaultCell,
		Ingest: install.Ingest, Relayer: install.Relayer, Reaper: install.Reaper,
		Callbacks: install.Callbacks, Operator: install.Operator, Reader: install.Readonly,
	})
}
