package reaper

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Config says how a reaper works. The zero value of every field but WorkerID is
// its default.
type Config struct {
	WorkerID string // names this process start, and is never used again
	Host     string
	Version  string
	// Every is the time between turns; default 5 s.
	Every time.Duration
	// Asserted is the time budget that this process was configured with, if it was: a
	// span that is not 0 must be the cell's, or Run ends with outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// Grace is how long repairs wait after a server start or a gap in our own
	// turns; default 20 s.
	Grace time.Duration
	// Batch bounds what one turn repairs and expires, 1 to 5,000; default 500.
	Batch int
	// MonthsAhead is how far partitions are made, 3 to 24; default 3.
	MonthsAhead int
	// PartitionsEvery is how often that is looked after; default 1 h.
	PartitionsEvery time.Duration
	// ForgetAfter is the silence after which the heartbeat of a component that
	// holds no claim is removed; default 24 h.
	ForgetAfter time.Duration
	// StoreTimeout bounds one turn; default 30 s.
	StoreTimeout time.Duration
	// StateFile remembers the server outside of it; see package lineage. Empty: for
	// this process alone.
	StateFile string
	// Tracer makes the spans; nil: none are made, at no cost.
	Tracer trace.Tracer
}

func (c Config) withDefaults() Config {
	service.Fill(&c.Every, 5*time.Second)
	service.Fill(&c.Grace, 20*time.Second)
	service.Fill(&c.PartitionsEvery, time.Hour)
	service.Fill(&c.ForgetAfter, 24*time.Hour)
	service.Fill(&c.StoreTimeout, 30*time.Second)
	service.Fill(&c.Batch, 500)
	service.Fill(&c.MonthsAhead, 3)
	return c
}

func (c Config) validate() error {
	var b service.Bounds
	b.WorkerID(c.WorkerID)
	service.Within(&b, "every", c.Every, 10*time.Millisecond, 10*time.Minute)
	service.Within(&b, "grace", c.Grace, 10*time.Millisecond, time.Hour)
	service.Within(&b, "partitions every", c.PartitionsEvery, time.Second, 24*time.Hour)
	service.Within(&b, "forget after", c.ForgetAfter, time.Minute, 30*24*time.Hour)
	service.Within(&b, "store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	service.Within(&b, "batch", c.Batch, 1, 5000)
	service.Within(&b, "months ahead", c.MonthsAhead, 3, 24)
	return b.Err()
}
