package outcomes_test

import (
	"context"
	"errors"
	"sync"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// meddler stands between relayers and their rails. It kills workers at a point of a send, and
// prevents sends from leaving.
type meddler struct {
	mu     sync.Mutex
	calls  map[string]int // by instruction
	killed chan string    // instructions whose worker is dead now
}

func newMeddler(kills int) *meddler {
	return &meddler{calls: make(map[string]int), killed: make(chan string, kills)}
}

// between puts the meddler in front of a rail.
func (m *meddler) between(rail rails.Rail) rails.Rail {
	one := meddled{rail, m}
	if asks, ok := rail.(rails.Inquirer); ok {
		return struct {
			meddled
			rails.Inquirer
		}{one, asks}
	}
	return one
}

type meddled struct {
	rails.Rail
	m *meddler
}

func (m *meddler) call(instruction string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[instruction]++
	return m.calls[instruction]
}

var errStopped = errors.New("stopped before the first byte")

// Send plays the cell that the instruction is named after.
func (d meddled) Send(ctx context.Context, s rails.Send) rails.Result {
	result, hit := cellOf(s.InstructionID)
	call := d.m.call(s.InstructionID)
	resultAt := 2
	if hit == noTrouble {
		resultAt = 1
	}
	switch {
	case call == 1 && hit == killedBefore:
		return d.m.die(ctx, s.InstructionID)
	case call == 1 && hit == killedAfter:
		d.Rail.Send(ctx, s)
		return d.m.die(ctx, s.InstructionID)
	case call == resultAt && result == payment.ResultNotSent:
		s.BeforeFirstByte = func() error { return errStopped }
	}
	return d.Rail.Send(ctx, s)
}

// die ends a worker in the middle of a send. Nothing that it returns is ever recorded, because its
// store was cut off before.
func (m *meddler) die(ctx context.Context, instruction string) rails.Result {
	m.killed <- instruction
	<-ctx.Done()
	return rails.Result{Result: payment.ResultUnknown, FirstByte: true}
}
