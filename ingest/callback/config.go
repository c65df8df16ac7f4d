package callback

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Config says how the service works. The zero value of every field but WorkerID is its default.
type Config struct {
	WorkerID string // names this process start, and is never used again
	Host     string
	Version  string
	// HeartbeatEvery is the time between looks at the server, with a heartbeat each; a third of the cell's
	// heartbeat_stale if that is shorter; default 2 s.
	HeartbeatEvery time.Duration
	// StoreTimeout bounds a look at the server, the wait of a callback for its turn, and its recording; default 10 s.
	StoreTimeout time.Duration
	// Asserted is the time budget that this process was configured with, if it was: a span that is not 0 must be the
	// cell's, or Run ends with outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// StateFile remembers the server outside of it; see package lineage. Empty: for this process alone.
	StateFile string
	// OtherLogin is said where the database denies a heartbeat: which login the service takes.
	OtherLogin string
	// Tracer makes the span of each callback; nil: none is made, at no cost.
	Tracer trace.Tracer
}

func (c Config) withDefaults() Config {
	service.Fill(&c.HeartbeatEvery, 2*time.Second)
	service.Fill(&c.StoreTimeout, 10*time.Second)
	service.Fill(&c.OtherLogin, "the login takes no callbacks")
	return c
}

func (c Config) validate() error {
	var b service.Bounds
	b.WorkerID(c.WorkerID)
	service.Within(&b, "heartbeat every", c.HeartbeatEvery, 10*time.Millisecond, time.Minute)
	service.Within(&b, "store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	return b.Err()
}
