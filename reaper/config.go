package reaper

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/payment"
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
	// span that is not 0 must be the cell's, or Run ends with payment.ErrOtherBudget.
	Asserted payment.TimeBudget
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
	fill := func(value *time.Duration, standard time.Duration) {
		if *value == 0 {
			*value = standard
		}
	}
	fill(&c.Every, 5*time.Second)
	fill(&c.Grace, 20*time.Second)
	fill(&c.PartitionsEvery, time.Hour)
	fill(&c.ForgetAfter, 24*time.Hour)
	fill(&c.StoreTimeout, 30*time.Second)
	if c.Batch == 0 {
		c.Batch = 500
	}
	if c.MonthsAhead == 0 {
		c.MonthsAhead = 3
	}
	return c
}

func (c Config) validate() error {
	var all []error
	within := func(name string, value, low, high time.Duration) {
		if value < low || value > high {
			all = append(all, fmt.Errorf("%s is %s, must be %s to %s", name, value, low, high))
		}
	}
	if c.WorkerID == "" || len(c.WorkerID) > 200 {
		all = append(all, errors.New("the worker id must be 1 to 200 bytes"))
	}
	within("every", c.Every, 10*time.Millisecond, 10*time.Minute)
	within("grace", c.Grace, 10*time.Millisecond, time.Hour)
	within("partitions every", c.PartitionsEvery, time.Second, 24*time.Hour)
	within("forget after", c.ForgetAfter, time.Minute, 30*24*time.Hour)
	within("store timeout", c.StoreTimeout, 100*time.Millisecond, 5*time.Minute)
	if c.Batch < 1 || c.Batch > 5000 {
		all = append(all, fmt.Errorf("batch is %d, must be 1 to 5000", c.Batch))
	}
	if c.MonthsAhead < 3 || c.MonthsAhead > 24 {
		all = append(all, fmt.Errorf("months ahead is %d, must be 3 to 24", c.MonthsAhead))
	}
	return errors.Join(all...)
}
