// Package noop is a rail within the process that accepts everything at once and
// makes no payment. It is for benchmarks; a configuration must allow it by name.
package noop

import (
	"context"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Rail counts what it was sent.
type Rail struct {
	checks rails.Checklist
	sends  atomic.Int64
}

// Open makes a rail that keeps to the profile's checks and to nothing else.
func Open(profile rails.Profile) (*Rail, error) {
	if err := profile.Validate(); err != nil {
		return nil, err
	}
	checks, err := profile.Checks.Compile()
	return &Rail{checks: checks}, err
}

// RenderVersion implements rails.Rail.
func (r *Rail) RenderVersion() string { return "noop/1" }

// Sends counts the instructions that were accepted.
func (r *Rail) Sends() int64 { return r.sends.Load() }

// Check implements rails.Checker.
func (r *Rail) Check(s rails.Send) error { return r.checks.Check(s) }

// Send accepts. The rail key is the reference, so that each has its own.
func (r *Rail) Send(ctx context.Context, s rails.Send) rails.Result {
	if err := ctx.Err(); err != nil {
		return rails.Result{Result: payment.ResultNotSent, Message: "stopped before the call: " + err.Error(), OwnStop: true}
	}
	if s.BeforeFirstByte != nil {
		if err := s.BeforeFirstByte(); err != nil {
			return rails.Result{
				Result:  payment.ResultNotSent,
				Message: rails.CleanMessage("stopped before the first byte: " + err.Error()), OwnStop: true,
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

// Inquire answers EXECUTED for what is asked: nothing else was ever sent here.
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
