// Package webhook delivers events to callers' endpoints: signed as Standard Webhooks, in the
// order of each instruction, until they are taken. What is delivered is read from the
// archive; what is kept is how far each endpoint has come.
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

// Store is what the service needs of the database; events.Events of the ledger is one.
type Store interface {
	Take(ctx context.Context, endpoint, worker string, lease time.Duration, since time.Time) (outbox.EndpointLease, error)
	Due(ctx context.Context, lease outbox.EndpointLease, participants []string, types []payment.EventType, retries, places int) (outbox.DueEvents, error)
	Note(ctx context.Context, lease outbox.EndpointLease, within time.Duration, note outbox.DeliveryNote) error
	Pause(ctx context.Context, lease outbox.EndpointLease, reason string) error
}

// Observer hears what the service does; internal/metrics has one.
type Observer interface {
	// Delivered counts an event that the endpoint took.
	Delivered(endpoint string)
	// NotDelivered counts a delivery that it did not take: status is HTTP_ and a number,
	// TIMEOUT, CONNECT, TLS, FORBIDDEN_ADDRESS or NO_ANSWER.
	NotDelivered(endpoint, status string)
	// Seen is told at each look at an endpoint that this process has, and with the zero State
	// when it has it no more.
	Seen(endpoint string, state State)
}

// State is how an endpoint does.
type State struct {
	Has              bool          // this process delivers to it
	Lag              time.Duration // age of the oldest event that it has not taken; 0: there is none
	Waiting, GivenUp int           // events that wait to be tried again, and those of them that are not tried by themselves
	Down, Paused     bool
}

// Config is how the service works.
type Config struct {
	Worker       string        // name of this process, of which each start makes one of its own
	StoreTimeout time.Duration // of one call of the store
	Poll         time.Duration // between two looks where nothing happens; 0: 500 ms, or 10 ms for each endpoint if that is more
	Lease        time.Duration // after which another process takes an endpoint over; 0: 30 s
	Drain        time.Duration // deliveries under way may go on for so long at the end; 0: 10 s
}

// Service delivers to the endpoints of a file. Any number of processes may run: each endpoint
// is one's at a time.
type Service struct {
	couriers []*courier
}

// New looks up the secrets, by getenv, and opens no connection.
func New(file File, config Config, getenv func(string) string, store Store, watch Observer, log *slog.Logger) (*Service, error) {
	service.Fill(&config.Poll, max(500*time.Millisecond, time.Duration(len(file.Endpoints))*10*time.Millisecond))
	service.Fill(&config.Lease, 30*time.Second)
	service.Fill(&config.Drain, 10*time.Second)
	if config.Worker == "" || min(config.StoreTimeout, config.Poll, config.Lease, config.Drain) <= 0 {
		return nil, errors.New("a worker's name and a timeout of the store are needed, and no time may be negative")
	}
	// Two starts by one name would share each lease.
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

// Run delivers until the context ends, then lets deliveries under way finish.
func (s *Service) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, each := range s.couriers {
		running.Go(func() { each.run(ctx) })
	}
	running.Wait()
}
