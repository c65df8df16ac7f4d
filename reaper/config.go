package reaper

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Config configures a reaper. The zero value of every field but WorkerID means its default.
type Config struct {
	WorkerID string // names this start of the process, and is never reused
	Host     string
	Version  string
	// Every is the time between turns; default 5 s.
	Every time.Duration
	// HeartbeatEvery is the time between heartbeats, at most that of service.BeatEvery; default 2 s.
	HeartbeatEvery time.Duration
	// Asserted is the time budget that this process was configured with, if any. A span that is not
	// 0 must equal the cell's, or Run returns outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// Grace is how long repairs wait after a server start or a gap between turns; default 20 s.
	Grace time.Duration
	// Batch bounds the claims that one turn repairs and the instructions that it expires, 1 to
	// 5,000; default 500.
	Batch int
	// FaultyAfter is how long an expired instruction fails by itself, by an error that may be its own, before it is
	// quarantined, 10 ms to 1 h; default 1 min.
	FaultyAfter time.Duration
	// MonthsAhead is the number of months ahead for which partitions are created, 3 to 24; default
	// 3.
	MonthsAhead int
	// PartitionsEvery is the time between checks of the partitions; default 1 h.
	PartitionsEvery time.Duration
	// ForgetAfter is the silence after which the heartbeat of a component without open claims is
	// removed, 24 h to 30 days; default 24 h. A component that starts again within a day misses a
	// heartbeat that it remembers.
	ForgetAfter time.Duration
	// StoreTimeout bounds one turn; default 30 s.
	StoreTimeout time.Duration
	// StateFile keeps the server's identity outside of the server; see package lineage. If it is
	// empty, the identity is kept in memory.
	StateFile string
	// Tracer starts the spans. If it is nil, no spans are made, at no cost.
	Tracer trace.Tracer
}

func (c Config) withDefaults() Config {
	service.Fill(&c.Every, 5*time.Second)
	service.Fill(&c.HeartbeatEvery, 2*time.Second)
	service.Fill(&c.Grace, 20*time.Second)
	service.Fill(&c.PartitionsEvery, time.Hour)
	service.Fill(&c.ForgetAfter, 24*time.Hour)
	service.Fill(&c.StoreTimeout, 30*time.Second)
	service.Fill(&c.FaultyAfter, time.Minute)
	service.Fill(&c.Batch, 500)
	service.Fill(&c.MonthsAhead, 3)
	return c
}

func (c Config) validate() error {
	var b service.Bounds
	b.WorkerID(c.WorkerID)
	service.Within(&b, "every", c.Every, 10*time.Millisecond, 10*time.Minute)
	service.Within(&b, "heartbeat every", c.HeartbeatEvery, 10*time.Millisecond, time.Minute)
	service.Within(&b, "grace", c.Grace, 10*time.Millisecond, time.Hour)
	service.Within(&b, "partitions every", c.PartitionsEvery, time.Second, 24*time.Hour)
	service.Within(&b, "forget after", c.ForgetAfter, 24*time.Hour, 30*24*time.Hour)
	service.Within(&b, "store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	service.Within(&b, "faulty after", c.FaultyAfter, 10*time.Millisecond, time.Hour)
	service.Within(&b, "batch", c.Batch, 1, 5000)
	service.Within(&b, "months ahead", c.MonthsAhead, 3, 24)
	return b.Err()
}
