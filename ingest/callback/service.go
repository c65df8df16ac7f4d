package callback

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails/callback"
)

// Ledger is what the service needs of the database; callbacks.Callbacks of the ledger is one.
type Ledger interface {
	Store
	lineage.Store
	// Heartbeat says that the service is alive, and asks for the cell's time budget.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
}

// Service takes callbacks over HTTP while it looks at the server that they are recorded on. Make one with New, then
// call Run once. Any number may run.
type Service struct {
	config   Config
	receiver *Receiver
	listen   func() (net.Listener, error)
	guard    *lineage.Guard
	heart    *service.Heart
	log      *slog.Logger
	once     service.Once
}

// Round is what one look at the server found.
type Round struct {
	Looked    bool // the server answered
	Suspended bool // it may have forgotten payments
	Beaten    bool // the heartbeat went in
}

// New checks the configuration, every fault of it at once. Listen is called by Run.
func New(config Config, readers map[string]*callback.Reader, store Ledger, listen func() (net.Listener, error), watch Observer, log *slog.Logger) (*Service, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	receiver, err := NewReceiver(readers, store, config.WorkerID, config.StoreTimeout, watch, log)
	if err != nil {
		return nil, err
	}
	guard, err := lineage.New(lineage.Config{Name: config.WorkerID, File: config.StateFile}, store, log)
	if err != nil {
		return nil, err
	}
	receiver.Tracer, receiver.Suspended = config.Tracer, guard.Suspended
	beat := func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
		pulse, err := store.Heartbeat(ctx, guard.Beat(beat))
		if err == nil {
			guard.Beaten(pulse.Beats)
		}
		return pulse, err
	}
	heart := service.NewHeart(service.HeartConfig{
		Name: config.WorkerID, Kind: "callback", Host: config.Host, Version: config.Version, Every: config.HeartbeatEvery,
		Asserted: config.Asserted, OtherLogin: config.OtherLogin,
	}, beat, log)
	return &Service{config: config, receiver: receiver, listen: listen, guard: guard, heart: heart, log: log}, nil
}

// Run serves until the context ends, then lets recordings finish for the drain time of the cell. It returns an error
// where the server may not be trusted with money, because a callback that was answered may not be sent again,
// where another build has migrated the cell, or where the login is another role's; requests under way are
// cut off then, and rails send them again.
func (s *Service) Run(ctx context.Context) error {
	if err := s.once.Begin(); err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	s.receiver.Register(mux)
	endpoint := service.Endpoint{Name: "callback endpoint", Drain: func() time.Duration {
		if ctx.Err() == nil {
			return 0 // a look has ended the service
		}
		return s.heart.Budget().Drain
	}, Server: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 2*s.config.StoreTimeout + 10*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	s.log.InfoContext(ctx, "taking callbacks", "addr", listener.Addr().String())
	if _, err := s.RunOnce(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	err = service.Together(ctx,
		func(ctx context.Context) error { return endpoint.Serve(ctx, listener) },
		func(ctx context.Context) error {
			return service.Repeat(ctx, s.heart.Every, func(ctx context.Context) error {
				_, err := s.RunOnce(ctx)
				return err
			})
		})
	if ctx.Err() != nil {
		s.heart.Stopped(ctx)
	}
	return err
}

// RunOnce compares the server with what this service remembers, and says that it is alive. The error is one that
// ends the service. Where the database is away, the round says so, and the next one is due soon.
func (s *Service) RunOnce(ctx context.Context) (Round, error) {
	within, cancel := context.WithTimeout(ctx, s.config.StoreTimeout)
	defer cancel()
	switch err := s.guard.Look(within); {
	case service.Fatal(err):
		return Round{}, err
	case err != nil:
		s.log.WarnContext(ctx, "the database can't be looked at", "error", err)
		return Round{}, nil
	}
	round := Round{Looked: true, Suspended: s.guard.Suspended()}
	status := "running"
	if round.Suspended {
		status = "suspended"
	}
	err := s.heart.Beat(ctx, status)
	if service.Fatal(err) {
		return round, err
	}
	round.Beaten = err == nil
	return round, nil
}

// Ready reports whether the database takes what rails report.
func (s *Service) Ready() error { return s.heart.Ready() }
