package callback

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails/callback"
)

// Config configures the service. The zero value of every field but WorkerID means its default.
type Config struct {
	WorkerID string // names this start of the process, and is never reused
	Host     string
	Version  string
	// HeartbeatEvery is the time between checks of the server, each with a heartbeat; default 2 s.
	// A third of the cell's heartbeat_stale applies if that is shorter.
	HeartbeatEvery time.Duration
	// StoreTimeout bounds a check of the server, the wait of a callback for its turn, and its
	// recording; default 10 s.
	StoreTimeout time.Duration
	// ConnectionsMax bounds the open connections of rails, and of all others that reach the address; default
	// 500. More wait in the queue of the operating system, and nothing of them is in memory.
	ConnectionsMax int
	// Asserted is the time budget that this process was configured with, if any. A span that is not
	// 0 must equal the cell's, or Run returns outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// StateFile keeps the server's identity outside of the server; see package lineage. If it is
	// empty, the identity is kept in memory.
	StateFile string
	// OtherLogin is the message if the database denies a heartbeat: it names the login that the
	// service needs.
	OtherLogin string
	// Sources bring the callbacks of rails that keep them elsewhere, by rail type; each rail has a reader.
	Sources map[string]callback.Source
	// Tracer starts the span of each callback. If it is nil, no spans are made, at no cost.
	Tracer trace.Tracer
}

func (c Config) withDefaults() Config {
	service.Fill(&c.HeartbeatEvery, 2*time.Second)
	service.Fill(&c.StoreTimeout, 10*time.Second)
	service.Fill(&c.ConnectionsMax, 500)
	service.Fill(&c.OtherLogin, "the login takes no callbacks")
	return c
}

func (c Config) validate() error {
	var b service.Bounds
	b.WorkerID(c.WorkerID)
	service.Within(&b, "heartbeat every", c.HeartbeatEvery, 10*time.Millisecond, time.Minute)
	service.Within(&b, "store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	service.Within(&b, "connections", c.ConnectionsMax, 1, 100_000)
	return b.Err()
}
