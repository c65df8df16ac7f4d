package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/ingest/webhook"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// eventsService delivers events to callers' endpoints, as a component.
type eventsService struct {
	settings settings
	beats    *ledger.Events // for heartbeats alone: deliveries may hold all connections
	service  *webhook.Service
	log      *slog.Logger
	beatAt   atomic.Int64
	budget   atomic.Pointer[payment.TimeBudget] // of the last heartbeat
}

// newEvents wires the service to its own login.
func newEvents(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (component, func(), error) {
	url, err := s.url("RAILHEAD_EVENTS_URL", s.EventsURL)
	if err != nil {
		return nil, nil, err
	}
	file, err := webhook.Load(s.EventsFile)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("RAILHEAD_EVENTS_FILE: %w", err))
	}
	config := ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-events", MaxConns: int32(min(len(file.Endpoints), 8)), Tracer: s.traces.Postgres()}
	store, err := ledger.OpenEvents(ctx, config)
	if err != nil {
		return nil, nil, usage(err)
	}
	config.MaxConns = 1
	beats, err := ledger.OpenEvents(ctx, config)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	end := func() { store.Close(); beats.Close() }
	service, err := webhook.New(file, webhook.Config{Worker: s.WorkerID, StoreTimeout: s.StoreTimeout}, os.Getenv, store, set.Webhooks(file), log)
	if err != nil {
		end()
		return nil, nil, usage(fmt.Errorf("RAILHEAD_EVENTS_FILE: %w", err))
	}
	e := &eventsService{settings: s, beats: beats, service: service, log: log}
	e.budget.Store(new(payment.DefaultTimeBudget()))
	return e, end, nil
}

// Run delivers until the context ends, then lets deliveries under way finish.
func (e *eventsService) Run(ctx context.Context) error {
	if err := e.beat(ctx, "running"); unfitEvents(err) {
		return err
	}
	delivering, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() { e.service.Run(delivering); close(ended) }()
	for {
		select {
		case <-ctx.Done():
			<-ended
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			e.beat(last, "stopped") //nolint:errcheck // it is logged; the silence says the same
			return nil
		case <-time.After(min(e.settings.HeartbeatEvery, e.budget.Load().HeartbeatStale/3)):
			if err := e.beat(ctx, "running"); unfitEvents(err) {
				stop()
				<-ended
				return err
			}
		}
	}
}

// unfitEvents reports whether the service can't work on what it is connected to.
func unfitEvents(err error) bool { return denied(err) || payment.Unfit(err) }

func (e *eventsService) beat(ctx context.Context, status string) error {
	ctx, cancel := context.WithTimeout(ctx, min(e.settings.StoreTimeout, e.budget.Load().HeartbeatStale/2))
	defer cancel()
	pulse, err := e.beats.Heartbeat(ctx, payment.Heartbeat{
		Name: e.settings.WorkerID, Kind: "events", Host: hostName(), Version: buildVersion(), Status: status, Budget: *e.budget.Load(),
	})
	switch {
	case denied(err):
		return fmt.Errorf("RAILHEAD_EVENTS_URL takes a member of railhead_events: %w", err)
	case err != nil:
		e.log.WarnContext(ctx, "heartbeat did not go in", "error", err)
		return err
	}
	if e.beatAt.Load() == 0 {
		if err := pulse.Budget.Agrees(e.settings.asserted()); err != nil {
			return err
		}
	}
	e.budget.Store(&pulse.Budget)
	e.beatAt.Store(time.Now().UnixNano())
	return nil
}

// Ready reports whether the database can be read.
func (e *eventsService) Ready() error {
	if time.Since(time.Unix(0, e.beatAt.Load())) > e.budget.Load().HeartbeatStale {
		return errors.New("the last heartbeat did not go in")
	}
	return nil
}
