// Package noop is an in-process rail that accepts everything at once and makes no payment. It is
// for benchmarks; a configuration must allow it by name.
package noop

import (
	"context"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Rail accepts and counts instructions.
type Rail struct {
	checks rails.Checklist
	sends  atomic.Int64
}

// Open returns a rail that applies the profile's checks and nothing else of it.
func Open(profile rails.Profile) (*Rail, error) {
	if err := profile.Validate(); err != nil {
		return nil, err
	}
	checks, err := profile.Checks.Compile()
	return &Rail{checks: checks}, err
}

// RenderVersion implements rails.Rail.
func (r *Rail) RenderVersion() string { return "noop/1" }

// Sends returns the number of instructions accepted.
func (r *Rail) Sends() int64 { return r.sends.Load() }

// Check implements rails.Checker.
func (r *Rail) Check(s rails.Send) error { return r.checks.Check(s) }

// Send accepts the instruction. Its reference contains the rail key, and is therefore unique.
func (r *Rail) Send(ctx context.Context, s rails.Send) rails.Result {
	if err := ctx.Err(); err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	if s.BeforeFirstByte != nil {
		if err := s.BeforeFirstByte(); err != nil {
			return rails.Result{
				Result:  payment.ResultNotSent,
				Message: rails.Sanitize("stopped before the first byte: " + err.Error()), OwnStop: true,
			}
		}
	}
	for _, phase := range []rails.Phase{rails.PhaseDialled, rails.PhaseFirstByte, rails.PhaseAnswered} {
		if s.OnPhase != nil {
			s.OnPhase(phase)
		}
	}
	r.sends.Add(1)
	return rails.Result{Result: payment.ResultAccepted, Reference: "noop-" + s.RailKey, FirstByte: true}
}

// Inquire answers EXECUTED for every instruction: no other result is possible here.
func (r *Rail) Inquire(ctx context.Context, q rails.Inquiry) rails.Result {
	if err := ctx.Err(); err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	return rails.Result{Result: payment.ResultExecuted, Reference: "noop-" + q.RailKey, FirstByte: true}
}

var (
	_ rails.Rail     = (*Rail)(nil)
	_ rails.Inquirer = (*Rail)(nil)
	_ rails.Checker  = (*Rail)(nil)
)
