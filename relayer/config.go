package relayer

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Config says how a relayer works. The zero value of every field but WorkerID
// is its default.
type Config struct {
	// WorkerID names this process start, and is never used again.
	WorkerID string
	Host     string
	Version  string
	// Poll is the fallback when no notifier notifies, 50 ms to 1 min; default 500 ms.
	Poll time.Duration
	// Coalesce is how long instructions and answers gather for a turn while they
	// stream, up to 1 s; default 10 ms. A trickle is claimed at once.
	Coalesce time.Duration
	// Pace is the shortest time between the starts of two turns, up to 1 s, so
	// that outcomes gather and commits are shared; default 2 ms.
	Pace time.Duration
	// ClaimMax bounds what one turn claims, 1 to 5,000; default 500.
	ClaimMax int
	// Streams is how many turns may run at once, each on a connection of its own,
	// 1 to 8; default 2. The others work only while there is more than the first
	// can take.
	Streams int
	// RecordMax bounds the outcomes of one turn, 1 to 5,000; default 500.
	RecordMax int
	// Asserted is the time budget that this process was configured with, if it was: a
	// span that is not 0 must be the cell's, or Run ends with outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// HeartbeatEvery is the time between heartbeats, at most a third of the cell's
	// heartbeat_stale, or one slow beat would stop all sending; default 2 s.
	HeartbeatEvery time.Duration
	// RefreshEvery is how often profiles are read again; default 5 s.
	RefreshEvery time.Duration
	// NotifierTestEvery is how often LISTEN is tested; default 1 min.
	NotifierTestEvery time.Duration
	// StoreTimeout bounds one transaction; default 10 s.
	StoreTimeout time.Duration
	// StateFile remembers the server's identity outside of it. Empty: a failover
	// or a restore goes unnoticed.
	StateFile string
	// Tracer makes the spans; nil: none are made, at no cost.
	Tracer trace.Tracer
}

func (c Config) withDefaults() Config {
	service.Fill(&c.Poll, 500*time.Millisecond)
	service.Fill(&c.Coalesce, 10*time.Millisecond)
	service.Fill(&c.Pace, 2*time.Millisecond)
	service.Fill(&c.HeartbeatEvery, 2*time.Second)
	service.Fill(&c.RefreshEvery, 5*time.Second)
	service.Fill(&c.NotifierTestEvery, time.Minute)
	service.Fill(&c.StoreTimeout, 10*time.Second)
	service.Fill(&c.ClaimMax, 500)
	service.Fill(&c.Streams, 2)
	service.Fill(&c.RecordMax, 500)
	return c
}

func (c Config) validate() error {
	var b service.Bounds
	b.WorkerID(c.WorkerID)
	service.Within(&b, "poll", c.Poll, 50*time.Millisecond, time.Minute)
	service.Within(&b, "coalesce", c.Coalesce, 0, time.Second)
	service.Within(&b, "pace", c.Pace, 0, time.Second)
	service.Within(&b, "heartbeat every", c.HeartbeatEvery, 10*time.Millisecond, time.Minute)
	service.Within(&b, "refresh every", c.RefreshEvery, 10*time.Millisecond, 10*time.Minute)
	service.Within(&b, "notifier test every", c.NotifierTestEvery, 100*time.Millisecond, time.Hour)
	service.Within(&b, "store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	service.Within(&b, "claim max", c.ClaimMax, 1, 5000)
	if c.Streams < 1 || c.Streams > 8 {
		b.Refuse("streams are %d, must be 1 to 8", c.Streams)
	}
	service.Within(&b, "record max", c.RecordMax, 1, 5000)
	return b.Err()
}
