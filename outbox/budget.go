package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TimeBudget says by when a claim is over. It is a setting of the cell
// (payment_outbox_settings): senders, reaper, callbacks and railhead rail apply
// read the same one, and no process has its own. Each span is whole milliseconds.
//
// A sender that has claimed at time 0 sends no first byte after StartWithin, has
// its answer one call later, and has recorded it after Drain and RecordWithin. So
// a claim that is as old as ClaimTimeout belongs to no call, which Holds checks.
type TimeBudget struct {
	// Version counts the changes; 0: not read yet.
	Version int
	// ClaimTimeout is the claim timeout: the age from which the reaper takes an open
	// claim whatever its worker says; 1 s to 1 h.
	ClaimTimeout time.Duration
	// StartWithin is how old a claim may be when its first byte leaves; 10 ms to 1 min.
	StartWithin time.Duration
	// RecordWithin is what recording an outcome may take; 10 ms to 1 min.
	RecordWithin time.Duration
	// Drain is how long sends in flight may finish at shutdown; 10 ms to 10 min.
	Drain time.Duration
	// HeartbeatStale is the silence from which a component counts as dead, and a
	// sender starts no send any more; 100 ms to 1 h.
	HeartbeatStale time.Duration
}

// ErrBadBudget is what every refusal of a time budget wraps.
var ErrBadBudget = errors.New("bad time budget")

// DefaultTimeBudget is that of a new cell.
func DefaultTimeBudget() TimeBudget {
	return TimeBudget{
		Version: 1, ClaimTimeout: 120 * time.Second, StartWithin: 5 * time.Second, RecordWithin: 10 * time.Second,
		Drain: 30 * time.Second, HeartbeatStale: 15 * time.Second,
	}
}

// BudgetSetting is one span of a TimeBudget by the name that operators know it by.
type BudgetSetting struct {
	Name      string
	Value     time.Duration
	Low, High time.Duration // inclusive
	Meaning   string
}

// Settings are the spans in a fixed order.
func (b TimeBudget) Settings() []BudgetSetting {
	return []BudgetSetting{
		{"claim_timeout", b.ClaimTimeout, time.Second, time.Hour, "the claim timeout: age from which an open claim is repaired"},
		{"start_within", b.StartWithin, 10 * time.Millisecond, time.Minute, "age up to which a claim may send its first byte"},
		{"record_within", b.RecordWithin, 10 * time.Millisecond, time.Minute, "what recording an outcome may take"},
		{"drain", b.Drain, 10 * time.Millisecond, 10 * time.Minute, "what sends in flight get at shutdown"},
		{"heartbeat_stale", b.HeartbeatStale, 100 * time.Millisecond, time.Hour, "silence from which a component counts as dead"},
	}
}

// With gives one span another value; false: no span has that name.
func (b TimeBudget) With(name string, value time.Duration) (TimeBudget, bool) {
	switch name {
	case "claim_timeout":
		b.ClaimTimeout = value
	case "start_within":
		b.StartWithin = value
	case "record_within":
		b.RecordWithin = value
	case "drain":
		b.Drain = value
	case "heartbeat_stale":
		b.HeartbeatStale = value
	default:
		return b, false
	}
	return b, true
}

// Validate returns every fault at once: a span out of its bounds or not of whole
// milliseconds, and spans that leave no time for any call.
func (b TimeBudget) Validate() error {
	var all []error
	for _, s := range b.Settings() {
		if s.Value < s.Low || s.Value > s.High || s.Value%time.Millisecond != 0 {
			all = append(all, fmt.Errorf("%w: %s is %s, must be whole milliseconds from %s to %s",
				ErrBadBudget, s.Name, payment.Duration(s.Value), payment.Duration(s.Low), payment.Duration(s.High)))
		}
	}
	return errors.Join(append(all, b.Holds(0))...)
}

// Holds refuses a call that could outlive its claim: the reaper would then give
// the instruction to another worker while this one still talks to the rail. Call is
// the longest that one call may take. It is the one place of this sum in Go, and
// keep_time_budget is its twin in the schema, which no stored profile or setting
// passes by.
func (b TimeBudget) Holds(call time.Duration) error {
	sum := b.StartWithin + call + b.RecordWithin + b.Drain
	if sum < b.ClaimTimeout {
		return nil
	}
	return fmt.Errorf("%w: start_within %s + call %s + record_within %s + drain %s = %s, must be less than claim_timeout %s, "+
		"or the reaper takes a claim from a worker that still talks to the rail", ErrBadBudget,
		payment.Duration(b.StartWithin), payment.Duration(call), payment.Duration(b.RecordWithin), payment.Duration(b.Drain), payment.Duration(sum), payment.Duration(b.ClaimTimeout))
}

// Longest is the longer one of each span, and the older version.
func (b TimeBudget) Longest(other TimeBudget) TimeBudget {
	return TimeBudget{
		Version: min(b.Version, other.Version), ClaimTimeout: max(b.ClaimTimeout, other.ClaimTimeout), StartWithin: max(b.StartWithin, other.StartWithin),
		RecordWithin: max(b.RecordWithin, other.RecordWithin), Drain: max(b.Drain, other.Drain),
		HeartbeatStale: max(b.HeartbeatStale, other.HeartbeatStale),
	}
}

// ErrOtherBudget is a process that was configured with another time budget than
// the cell's.
var ErrOtherBudget = errors.New("the time budget is a setting of the cell, and this process is configured with another")

// Agrees compares the budget of the cell with what a process was configured with;
// a span of 0 was not. The error names both values, and what to run.
func (b TimeBudget) Agrees(configured TimeBudget) error {
	var all []error
	has := b.Settings()
	for n, want := range configured.Settings() {
		if want.Value != 0 && want.Value != has[n].Value {
			all = append(all, fmt.Errorf("%w: %s is %s here and %s in the cell: remove RAILHEAD_%s from the configuration, "+
				"or run railhead settings set %s %s --reason WHY", ErrOtherBudget, want.Name, payment.Duration(want.Value), payment.Duration(has[n].Value),
				strings.ToUpper(want.Name), want.Name, payment.Duration(want.Value)))
		}
	}
	return errors.Join(all...)
}
