package systems

import (
	"context"
	"errors"
	"fmt"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/noop"
)

const (
	hangingType        = "hanging"
	hangingConcurrency = 64
)

// Hang gives a session of Railhead a second rail that takes calls and does not answer, and
// enqueues four times as many payments for it as it takes at once. It must be called before Work.
// The rail answers once letGo is called, which must be before the workers are stopped; letGo
// returns an error if the rail did not hang.
func Hang(ctx context.Context, session Session) (letGo func() error, err error) {
	s, ok := session.(*railheadSession)
	if !ok {
		return nil, errors.New("only Railhead has lanes")
	}
	if err := applyRail(ctx, s.db, hangingType, Railhead{}.profile(hangingType, hangingConcurrency)); err != nil {
		return nil, err
	}
	batch := make([]payment.Instruction, 4*hangingConcurrency)
	for i := range batch {
		name := fmt.Sprintf("hanging-%d", i)
		batch[i] = payment.Instruction{
			InstructionID: name, ParticipantID: Participant(i), IdempotencyKey: name, RailType: hangingType, Payload: Payload(i),
		}
	}
	receipts, err := s.ingest.EnqueueBatch(ctx, batch)
	if err != nil {
		return nil, err
	}
	for _, receipt := range receipts {
		if receipt.Fault != nil {
			return nil, receipt.Fault
		}
	}
	return func() error {
		hung := s.hanging.Load()
		close(s.release)
		if hung != hangingConcurrency {
			return fmt.Errorf("%d calls hung at the end, want %d: the figure would be of something else", hung,
				hangingConcurrency)
		}
		return nil
	}, nil
}

// hangingRail answers once it is released, or when the context of the call ends.
type hangingRail struct {
	*noop.Rail
	session *railheadSession
}

// Send implements rails.Rail.
func (r *hangingRail) Send(ctx context.Context, s rails.Send) rails.Result {
	result := r.Rail.Send(ctx, s)
	r.session.hanging.Add(1)
	defer r.session.hanging.Add(-1)
	select {
	case <-r.session.release:
		return result
	case <-ctx.Done():
		return rails.Result{Result: payment.ResultUnknown, Message: "no answer", FirstByte: true}
	}
}
