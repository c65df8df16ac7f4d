// Package webhook delivers events to callers' endpoints: signed as Standard Webhooks, in the order
// of each instruction, until the endpoint accepts them. The events are read from the archive; only
// the progress of each endpoint is stored.
package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Store is the part of the database that the service uses; events.Events of the ledger implements
// it.
type Store interface {
	Take(ctx context.Context, endpoint, worker string, lease time.Duration, since time.Time) (outbox.EndpointLease, error)
	Due(ctx context.Context, lease outbox.EndpointLease, participants []string, types []payment.EventType, retries,
		places int) (outbox.DueEvents, error)
	Note(ctx context.Context, lease outbox.EndpointLease, within time.Duration, note outbox.DeliveryNote) error
	Pause(ctx context.Context, lease outbox.EndpointLease, reason string) error
}

// Observer counts events for metrics; internal/metrics implements it.
type Observer interface {
	// Delivered counts an event that the endpoint accepted.
	Delivered(endpoint string)
	// NotDelivered counts a delivery that the endpoint did not accept. The status is HTTP_ and a
	// number, TIMEOUT, CONNECT, TLS, FORBIDDEN_ADDRESS or NO_ANSWER.
	NotDelivered(endpoint, status string)
	// Seen receives the state of an endpoint in each turn of this process's lease, and the zero
	// State when the lease ends.
	Seen(endpoint string, state State)
}

// State is the state of an endpoint.
type State struct {
	Has bool // this process delivers to the endpoint
	// Lag is the age of the oldest event not accepted; 0: none. While events can't be read it is at least the age of
	// the last reading.
	Lag              time.Duration
	Waiting, GivenUp int // events that wait for a retry, and those of them that were given up
	Down, Paused     bool
}

// Config configures the service.
type Config struct {
	Worker       string        // name of this process; each start appends a unique suffix
	StoreTimeout time.Duration // of one call of the store
	Poll         time.Duration // between two reads without events; 0: 500 ms, or 10 ms for each endpoint if longer
	Lease        time.Duration // after which another process takes over an endpoint; 0: 30 s
	Drain        time.Duration // time for deliveries under way at the end; 0: 10 s
}

// Service delivers to the endpoints of a file. Any number of processes may run; each endpoint has
// one process at a time.
type Service struct {
	couriers []*courier
}

// New resolves the secrets with getenv, and opens no connection.
func New(
	file File, config Config, getenv func(string) string, store Store, watch Observer, log *slog.Logger,
) (*Service, error) {
	service.Fill(&config.Poll, max(500*time.Millisecond, time.Duration(len(file.Endpoints))*10*time.Millisecond))
	service.Fill(&config.Lease, 30*time.Second)
	service.Fill(&config.Drain, 10*time.Second)
	if config.Worker == "" || min(config.StoreTimeout, config.Poll, config.Lease, config.Drain) <= 0 {
		return nil, errors.New("a worker's name and a timeout of the store are needed, and no time may be negative")
	}
	// Two starts with one name would share each lease.
	config.Worker += "-" + strings.ToLower(rand.Text()[:10])
	s := &Service{}
	var all []error
	for _, endpoint := range file.Endpoints {
		signer, err := newSigner(endpoint, getenv)
		if err != nil {
			all = append(all, fmt.Errorf("endpoint %s: %w", endpoint.ID, err))
			continue
		}
		sender := newSender(endpoint, signer, time.Now)
		s.couriers = append(s.couriers, &courier{
			endpoint: endpoint, send: sender.send, close: sender.close, store: store, watch: watch, config: config,
			log: log.With("endpoint", endpoint.ID, "host", endpoint.Host()),
		})
	}
	return s, errors.Join(all...)
}

// Ready returns nil if events of each endpoint can be read and what became of them recorded, or another process
// delivers to it; otherwise the reasons why not.
func (s *Service) Ready() error {
	var all []error
	for _, each := range s.couriers {
		all = append(all, each.ready.Err())
	}
	return errors.Join(all...)
}

// Run delivers until the context ends, then lets deliveries under way finish.
func (s *Service) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, each := range s.couriers {
		running.Go(func() { each.run(ctx) })
	}
	running.Wait()
}
