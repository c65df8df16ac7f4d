package callback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails/callback"
)

// Ledger is the part of the database that the service uses; callbacks.Callbacks of the ledger
// implements it.
type Ledger interface {
	Store
	lineage.Store
	// Heartbeat records that the service is alive, and returns the cell's time budget.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
}

// Service receives callbacks over HTTP and checks the server that they are recorded on. Make one
// with New, then call Run once. Any number may run.
type Service struct {
	config   Config
	receiver *Receiver
	listen   func() (net.Listener, error)
	guard    *lineage.Guard
	heart    *service.Heart
	log      *slog.Logger
	once     service.Once
	checked  atomic.Bool // by the last round
}

// Round is the result of one check of the server.
type Round struct {
	Checked   bool // the server answered
	Suspended bool // the server may have forgotten payments
	Beaten    bool // the heartbeat was recorded
}

// New returns a Service, or all faults of its configuration in one error. Run calls listen.
func New(
	config Config, readers map[string]*callback.Reader, store Ledger, listen func() (net.Listener, error),
	watch Observer, log *slog.Logger,
) (*Service, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	receiver, err := NewReceiver(readers, store, config.WorkerID, config.StoreTimeout, watch, log)
	if err != nil {
		return nil, err
	}
	for railType := range config.Sources {
		if readers[railType] == nil {
			return nil, fmt.Errorf("callbacks of rail %s are kept elsewhere, and it has no callback section", railType)
		}
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
	s := &Service{config: config, receiver: receiver, listen: listen, guard: guard, heart: heart, log: log}
	receiver.Checked = s.checked.Load
	return s, nil
}

// Run serves until the context ends, then lets recordings finish within the drain time of the cell.
// It returns an error if the server can't be trusted with money, because a rail may not repeat a
// callback that was answered; if another build has migrated the cell; or if the login is that of
// another role. It then cuts off the requests under way, which rails repeat.
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
			return 0 // a check has ended the service
		}
		return s.heart.Budget().Drain
	}, Server: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 2*s.config.StoreTimeout + 10*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	listener = service.AtMost(listener, s.config.ConnectionsMax)
	s.log.InfoContext(ctx, "receiving callbacks", "addr", listener.Addr().String())
	if _, err := s.RunOnce(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return endpoint.Serve(ctx, listener) },
		func(ctx context.Context) error {
			return service.Repeat(ctx, s.heart.Every, func(ctx context.Context) error {
				_, err := s.RunOnce(ctx)
				return err
			})
		},
	}
	for railType, source := range s.config.Sources {
		parts = append(parts, func(ctx context.Context) error {
			source.Run(ctx, s.receiver.Kept(railType))
			return nil
		})
	}
	err = service.Together(ctx, parts...)
	if ctx.Err() != nil && s.guard.Looked() {
		s.heart.Stopped(ctx)
	}
	return err
}

// RunOnce compares the server with what this service remembers, and sends a heartbeat. An error
// ends the service. If the database is unavailable, RunOnce returns an empty Round and no error.
func (s *Service) RunOnce(ctx context.Context) (Round, error) {
	within, cancel := context.WithTimeout(ctx, s.config.StoreTimeout)
	defer cancel()
	err := s.guard.Look(within)
	s.checked.Store(err == nil)
	switch {
	case service.Fatal(err):
		return Round{}, err
	case err != nil:
		s.log.WarnContext(ctx, "the database can't be checked", "error", err)
		return Round{}, nil
	}
	round := Round{Checked: true, Suspended: s.guard.Suspended()}
	status := "running"
	if round.Suspended {
		status = "suspended"
	}
	err = s.heart.Beat(ctx, status)
	if service.Fatal(err) {
		return round, err
	}
	round.Beaten = err == nil
	return round, nil
}

// Ready returns nil if the database accepts callbacks, and those of streams and topics are taken; otherwise the reason
// why not.
func (s *Service) Ready() error {
	if err := s.heart.Ready(); err != nil {
		return err
	}
	if len(s.config.Sources) > 0 && !s.checked.Load() {
		return errors.New("the server could not be compared with what this process remembers: " +
			"callbacks of streams and topics wait")
	}
	return nil
}

// Unsaved returns for how long what is remembered of the server could not be written to StateFile; 0: it is written, or
// there is no file.
func (s *Service) Unsaved() time.Duration { return s.guard.Unsaved() }
