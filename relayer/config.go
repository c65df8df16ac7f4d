package relayer

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Config configures a relayer. The zero value of every field but WorkerID means its default.
type Config struct {
	// WorkerID names this start of the process, and is never reused.
	WorkerID string
	Host     string
	Version  string
	// Poll is the time between scans while no notification arrives, 50 ms to 1 min; default 500 ms.
	Poll time.Duration
	// Coalesce is how long instructions and outcomes gather before a turn under load, up to 1 s;
	// default 10 ms. Without load each instruction is claimed at once.
	Coalesce time.Duration
	// Pace is the shortest time between the starts of two turns, up to 1 s, so that outcomes share
	// a commit; default 2 ms.
	Pace time.Duration
	// ClaimMax bounds the instructions that one turn claims, 1 to 5,000; default 500.
	ClaimMax int
	// Loops is the number of worker loops, each with a connection of its own, 1 to 8; default 2.
	// All but the first claim only while more is due than the first can take.
	Loops int
	// RecordMax bounds the outcomes that one turn records, 1 to 5,000; default 500.
	RecordMax int
	// Asserted is the time budget that this process was configured with, if any. A span that is not
	// 0 must equal the cell's, or Run returns outbox.ErrOtherBudget.
	Asserted outbox.TimeBudget
	// HeartbeatEvery is the time between heartbeats; default 2 s. It is at most a third of the
	// cell's heartbeat_stale, so that one slow heartbeat does not stop all sends.
	HeartbeatEvery time.Duration
	// RefreshEvery is the time between reads of the profiles; default 5 s.
	RefreshEvery time.Duration
	// NotifierTestEvery is the time between tests of LISTEN; default 1 min.
	NotifierTestEvery time.Duration
	// Serves reports whether this process has a configuration for a rail. It is asked before the rail's profile is
	// read, so that one which this build can't read is no fault of a relayer that does not serve the rail. Nil: OpenRail
	// alone says so, and a profile that can't be read counts as one of this process's rails.
	Serves func(railType string) bool
	// Stays is set if the relayer does not end at its start where none of its rails can be served, because other
	// components work in the same process.
	Stays bool
	// StoreTimeout bounds one transaction; default 10 s.
	StoreTimeout time.Duration
	// FaultyAfter is how long an instruction can't be claimed by itself, by an error that may be its own, while others
	// of its lane are, before it is quarantined, 10 ms to 1 h; default 1 min.
	FaultyAfter time.Duration
	// StateFile keeps the server's identity outside of the server. If it is empty, a failover or a
	// restore while the relayer is down goes undetected.
	StateFile string
	// Tracer starts the spans. If it is nil, no spans are made, at no cost.
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
	service.Fill(&c.FaultyAfter, time.Minute)
	service.Fill(&c.ClaimMax, 500)
	service.Fill(&c.Loops, 2)
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
	service.Within(&b, "faulty after", c.FaultyAfter, 10*time.Millisecond, time.Hour)
	service.Within(&b, "claim max", c.ClaimMax, 1, 5000)
	if c.Loops < 1 || c.Loops > 8 {
		b.Refuse("loops are %d, must be 1 to 8", c.Loops)
	}
	service.Within(&b, "record max", c.RecordMax, 1, 5000)
	return b.Err()
}
