package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TimeBudget bounds the life of a claim. It is a setting of the cell
// (payment_outbox_settings): senders, reaper, callbacks and railhead rail apply
// read the same one, and no process has its own. Each span is whole milliseconds.
//
// A sender that claims at time 0 sends no first byte after StartWithin, has its
// answer one call later, and has recorded it after Drain and RecordWithin. So no
// call is under way for a claim as old as ClaimTimeout. Holds checks this.
type TimeBudget struct {
	// Version counts the changes; 0: not read yet.
	Version int
	// ClaimTimeout is the claim timeout: the age from which the reaper takes an open
	// claim even if its worker is alive; 1 s to 1 h.
	ClaimTimeout time.Duration
	// StartWithin is how old a claim may be when its first byte leaves; 10 ms to 1 min.
	StartWithin time.Duration
	// RecordWithin is how long the record of an outcome may take; 10 ms to 1 min.
	RecordWithin time.Duration
	// Drain is how long the calls in flight may take to finish at shutdown; 10 ms to 10 min.
	Drain time.Duration
	// HeartbeatStale is the age of the last heartbeat from which a component counts as
	// dead, and from which a sender starts no further send; 100 ms to 1 h.
	HeartbeatStale time.Duration
}

// ErrBadBudget is wrapped by every error about an invalid time budget.
var ErrBadBudget = errors.New("bad time budget")

// DefaultTimeBudget returns the time budget of a new cell.
func DefaultTimeBudget() TimeBudget {
	return TimeBudget{
		Version: 1, ClaimTimeout: 120 * time.Second, StartWithin: 5 * time.Second, RecordWithin: 10 * time.Second,
		Drain: 30 * time.Second, HeartbeatStale: 15 * time.Second,
	}
}

// BudgetSetting is one span of a TimeBudget, with its name for operators.
type BudgetSetting struct {
	Name      string
	Value     time.Duration
	Low, High time.Duration // inclusive
	Meaning   string
}

// Settings returns the spans in a fixed order.
func (b TimeBudget) Settings() []BudgetSetting {
	return []BudgetSetting{
		{"claim_timeout", b.ClaimTimeout, time.Second, time.Hour,
			"the claim timeout: age from which an open claim is repaired"},
		{"start_within", b.StartWithin, 10 * time.Millisecond, time.Minute,
			"age up to which a claim may send its first byte"},
		{"record_within", b.RecordWithin, 10 * time.Millisecond, time.Minute,
			"what recording an outcome may take"},
		{"drain", b.Drain, 10 * time.Millisecond, 10 * time.Minute,
			"what sends in flight get at shutdown"},
		{"heartbeat_stale", b.HeartbeatStale, 100 * time.Millisecond, time.Hour,
			"silence from which a component counts as dead"},
	}
}

// With returns the budget with another value for one span. It returns false if no span
// has that name.
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

// Holds returns an error if a call, which takes at most the given time, could outlive
// its claim: the reaper would then return the instruction to another worker while this
// one still calls the rail. The trigger keep_time_budget checks the same sum for every
// profile and setting that is stored.
func (b TimeBudget) Holds(call time.Duration) error {
	sum := b.StartWithin + call + b.RecordWithin + b.Drain
	if sum < b.ClaimTimeout {
		return nil
	}
	return fmt.Errorf("%w: start_within %s + call %s + record_within %s + drain %s = %s, must be less than "+
		"claim_timeout %s, or the reaper takes a claim from a worker that still talks to the rail", ErrBadBudget,
		payment.Duration(b.StartWithin), payment.Duration(call), payment.Duration(b.RecordWithin),
		payment.Duration(b.Drain), payment.Duration(sum), payment.Duration(b.ClaimTimeout))
}

// Longest returns the longer one of each span, and the older version.
func (b TimeBudget) Longest(other TimeBudget) TimeBudget {
	return TimeBudget{
		Version:        min(b.Version, other.Version),
		ClaimTimeout:   max(b.ClaimTimeout, other.ClaimTimeout),
		StartWithin:    max(b.StartWithin, other.StartWithin),
		RecordWithin:   max(b.RecordWithin, other.RecordWithin),
		Drain:          max(b.Drain, other.Drain),
		HeartbeatStale: max(b.HeartbeatStale, other.HeartbeatStale),
	}
}

// ErrOtherBudget is returned if a process is configured with another time budget than
// the cell's.
var ErrOtherBudget = errors.New("the time budget is a setting of the cell, and this process is configured with another")

// Agrees compares the budget of the cell with the configuration of a process, in which
// a span of 0 is not configured. The error names both values and the command to run.
func (b TimeBudget) Agrees(configured TimeBudget) error {
	var all []error
	has := b.Settings()
	for n, want := range configured.Settings() {
		if want.Value != 0 && want.Value != has[n].Value {
			all = append(all, fmt.Errorf("%w: %s is %s here and %s in the cell: remove RAILHEAD_%s from the configuration, "+
				"or run railhead settings set %s %s --reason WHY", ErrOtherBudget,
				want.Name, payment.Duration(want.Value), payment.Duration(has[n].Value),
				strings.ToUpper(want.Name), want.Name, payment.Duration(want.Value)))
		}
	}
	return errors.Join(all...)
}
