package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/railhead-pay/railhead/ingest/webhook"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/events"
)

// eventsService delivers events to callers' endpoints, as a component.
type eventsService struct {
	deliveries *webhook.Service
	heart      *service.Heart
}

// newEvents creates the service with its own login.
func newEvents(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	url, err := s.url("RAILHEAD_EVENTS_URL", s.EventsURL)
	if err != nil {
		return nil, nil, err
	}
	file, err := webhook.Load(s.EventsFile)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("RAILHEAD_EVENTS_FILE: %w", err))
	}
	config := ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-events",
		MaxConns: int32(min(len(file.Endpoints), 8)), Tracer: s.traces.Postgres(), Log: log}
	store, err := events.Open(ctx, config)
	if err != nil {
		return nil, nil, usage(err)
	}
	config.MaxConns = 1
	beats, err := events.Open(ctx, config) // for heartbeats only: deliveries may use all connections
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	end := func() { store.Close(); beats.Close() }
	deliveries, err := webhook.New(file, webhook.Config{Worker: s.WorkerID, StoreTimeout: s.StoreTimeout}, os.Getenv,
		store, set.Webhooks(file), log)
	if err != nil {
		end()
		return nil, nil, usage(fmt.Errorf("RAILHEAD_EVENTS_FILE: %w", err))
	}
	heart := service.NewHeart(s.heart("events", "RAILHEAD_EVENTS_URL takes a member of railhead_events"),
		beats.Heartbeat, log)
	return &eventsService{deliveries: deliveries, heart: heart}, end, nil
}

// Run delivers until the context ends, and then finishes the deliveries under way.
func (e *eventsService) Run(ctx context.Context) error {
	beat := func(ctx context.Context) error {
		if err := e.heart.Beat(ctx, "running"); service.Fatal(err) {
			return err
		}
		return nil // it is logged, and the next one is due soon
	}
	if err := beat(ctx); err != nil {
		return err
	}
	err := service.Together(ctx,
		func(ctx context.Context) error {
			e.deliveries.Run(ctx)
			return nil
		},
		func(ctx context.Context) error { return service.Repeat(ctx, e.heart.Every, beat) })
	if err == nil {
		e.heart.Stopped(ctx)
	}
	return err
}

// Ready reports whether heartbeats are recorded, and the events of each endpoint read.
func (e *eventsService) Ready() error { return errors.Join(e.heart.Ready(), e.deliveries.Ready()) }
