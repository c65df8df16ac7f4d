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
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// callbacks is the endpoint at which rails report later, as a component.
type callbacks struct {
	settings settings
	store    *ledger.Callbacks
	guard    *lineage.Guard
	receiver *callback.Receiver
	log      *slog.Logger
	beatAt   atomic.Int64
	budget   atomic.Pointer[payment.TimeBudget] // of the last heartbeat
}

// newCallbacks wires the endpoint to its own login.
func newCallbacks(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
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
	store, err := ledger.OpenCallbacks(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-callbacks", MaxConns: callback.Recordings + 2, Tracer: s.traces.Postgres()})
	if err != nil {
		return nil, nil, usage(err)
	}
	receiver, err := callback.New(readers, store, s.WorkerID, s.StoreTimeout, set.Callbacks(slices.Collect(maps.Keys(readers))), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	guard, err := lineage.New(lineage.Config{Name: s.WorkerID, File: s.stateFile("callbacks")}, store, log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	receiver.Tracer, receiver.Suspended = s.traces.Tracer(), guard.Suspended
	c := &callbacks{settings: s, store: store, guard: guard, receiver: receiver, log: log}
	c.budget.Store(new(payment.DefaultTimeBudget()))
	return c, store.Close, nil
}

// Run serves until the context ends, then lets recordings finish.
func (c *callbacks) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", c.settings.CallbacksAddr)
	if err != nil {
		return usage(fmt.Errorf("listening on RAILHEAD_CALLBACKS_ADDR %s: %w", c.settings.CallbacksAddr, err))
	}
	if c.settings.CallbacksFile != "" {
		if err := writeWhole(c.settings.CallbacksFile, listener.Addr().String()+"\n"); err != nil {
			return errors.Join(fmt.Errorf("writing RAILHEAD_CALLBACKS_ADDR_FILE: %w", err), listener.Close())
		}
	}
	mux := http.NewServeMux()
	c.receiver.Register(mux)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 2*c.settings.StoreTimeout + 10*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	c.log.InfoContext(ctx, "taking callbacks", "addr", listener.Addr().String())
	served := make(chan error, 1)
	if err := c.look(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	go func() { served <- server.Serve(listener) }()
	for {
		select {
		case err := <-served:
			return fmt.Errorf("callback endpoint: %w", err)
		case <-time.After(min(c.settings.HeartbeatEvery, c.budget.Load().HeartbeatStale/3)):
			if err := c.look(ctx); err != nil {
				return errors.Join(err, server.Close())
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.budget.Load().Drain)
			defer cancel()
			err := server.Shutdown(last)
			_ = c.beat(last, "stopped") // it is logged; the silence says the same
			return err
		}
	}
}

// look compares the server with what this endpoint remembers, and says that it is
// alive. The error is that the server may not be trusted with money, because a callback
// that was answered may not be sent again, that another build has migrated the cell, or
// that the login is another role's.
func (c *callbacks) look(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, c.settings.StoreTimeout)
	defer cancel()
	switch err := c.guard.Look(within); {
	case payment.Unfit(err) || denied(err):
		return err
	case err != nil:
		c.log.WarnContext(ctx, "the database can't be looked at", "error", err)
		return nil
	}
	status := "running"
	if c.guard.Suspended() {
		status = "held"
	}
	switch err := c.beat(ctx, status); {
	case denied(err):
		return fmt.Errorf("RAILHEAD_CALLBACKS_URL takes a member of railhead_callbacks: %w", err)
	case errors.Is(err, payment.ErrOtherBudget):
		return err
	}
	return nil
}

// denied reports whether the login lacks a right: it is another role's, and no
// report would ever be recorded.
func denied(err error) bool { return ledger.SQLState(err) == "42501" }

func (c *callbacks) beat(ctx context.Context, status string) error {
	ctx, cancel := context.WithTimeout(ctx, c.budget.Load().HeartbeatStale/2)
	defer cancel()
	pulse, err := c.store.Heartbeat(ctx, c.guard.Beat(payment.Heartbeat{
		Name: c.settings.WorkerID, Kind: "callback", Host: hostName(), Version: buildVersion(), Status: status, Budget: *c.budget.Load(),
	}))
	if err != nil {
		c.log.WarnContext(ctx, "heartbeat did not go in", "error", err)
		return err
	}
	c.guard.Beaten(pulse.Beats)
	if c.beatAt.Load() == 0 {
		if err := pulse.Budget.Agrees(c.settings.asserted()); err != nil {
			return err
		}
	}
	c.budget.Store(&pulse.Budget)
	c.beatAt.Store(time.Now().UnixNano())
	return nil
}

// Ready reports whether the database takes what rails report.
func (c *callbacks) Ready() error {
	if age := time.Since(time.Unix(0, c.beatAt.Load())); age > c.budget.Load().HeartbeatStale {
		return errors.New("the last heartbeat did not go in")
	}
	return nil
}
