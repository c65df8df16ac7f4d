package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/await"
)

const (
	wave         = 250 // payments of one batch
	backlog      = 500 // pending payments from which no more are enqueued
	participants = 50
	// losing is how long acknowledgements are lost; calm is the least time until the next fault.
	losing, calm = 250 * time.Millisecond, 200 * time.Millisecond
	// least is how many faults come before the last payments: a relayer, acknowledgements, the broker.
	least = 3
)

// pay enqueues so many payments while the rail keeps up, and waits until none is pending. The last wave waits
// until the channel is closed.
func (w *world) pay(ctx context.Context, payments int, last <-chan struct{}) error {
	for payments > 0 {
		if err := w.awaitPending(ctx, backlog); err != nil {
			return err
		}
		n := min(payments, wave)
		if n == payments {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-last:
			}
		}
		if err := w.enqueue(ctx, n); err != nil {
			return err
		}
		payments -= n
	}
	return w.awaitPending(ctx, 0)
}

func (w *world) enqueue(ctx context.Context, n int) error {
	batch := make([]railhead.Instruction, n)
	for i := range batch {
		number := len(w.enqueued) + i + 1
		batch[i] = railhead.Instruction{
			InstructionID: fmt.Sprintf("i-%07d", number), IdempotencyKey: fmt.Sprintf("k-%07d", number),
			ParticipantID: fmt.Sprintf("participant-%02d", number%participants+1), RailType: "nats",
			Payload: fmt.Appendf(nil, `{"amount": "%d.%02d", "currency": "EUR"}`, 1+w.draws.IntN(9000), w.draws.IntN(100)),
		}
	}
	results, err := w.callers.EnqueueBatch(ctx, batch)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Fault != nil {
			return fmt.Errorf("%s was refused: %v", batch[i].InstructionID, result.Fault)
		}
		w.enqueued[batch[i].InstructionID] = true
	}
	return nil
}

// awaitPending waits until at most so many payments are pending or in flight.
func (w *world) awaitPending(ctx context.Context, most int) error {
	var pending int
	err := await.Until(ctx, 5*time.Minute, fmt.Sprintf("at most %d payments to be pending", most), func() (bool, error) {
		err := w.admin.QueryRow(ctx, `SELECT (SELECT count(*) FROM railhead.payment_outbox_pending)
			+ (SELECT count(*) FROM railhead.payment_outbox_claims)`).Scan(&pending)
		return pending <= most, err
	})
	if err != nil {
		return fmt.Errorf("%w: %d are", err, pending)
	}
	return nil
}

// faultsDuring makes one fault after another until so many payments are paid.
func (w *world) faultsDuring(ctx context.Context, payments int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over, broken := make(chan struct{}), make(chan struct{})
	var worked error
	go func() {
		defer close(over)
		worked = w.pay(ctx, payments, broken)
	}()
	defer w.proxy.LoseAcks(false)
	// The waits are not drawn: the work draws meanwhile.
	for n := 0; w.Faults == 0 || n < w.Faults; n++ {
		for _, wait := range []time.Duration{losing, calm + time.Duration(n*97%700)*time.Millisecond} {
			select {
			case <-over:
				return worked
			case <-time.After(wait):
				w.proxy.LoseAcks(false)
			}
		}
		if err := w.fault(ctx, n); err != nil && ctx.Err() == nil {
			stop(err)
			<-over
			return errors.Join(err, worked)
		}
		if n+1 == least {
			close(broken)
		}
	}
	time.Sleep(losing)
	w.proxy.LoseAcks(false)
	<-over
	return worked
}

// fault makes the nth fault. A process is killed once it works after the kill before. Acknowledgements are
// lost until the caller ends that.
func (w *world) fault(ctx context.Context, n int) error {
	switch n % 8 {
	case 0, 4:
		one := w.relayers[n/4%2]
		if err := one.awaitReady(ctx); err != nil {
			return err
		}
		w.made.KilledRelayer++
		return one.restart()
	case 2:
		if _, err := w.messages(ctx); err != nil {
			return err
		}
		w.made.KilledBroker++
		return w.broker.restart()
	case 5:
		w.made.KilledConsumer++
		return w.consumer.restart()
	default:
		w.proxy.LoseAcks(true)
		return nil
	}
}

// outliveWindow has so many payments sent while all acknowledgements are lost, kills the relayers, has the
// stream forget its keys, and starts them again: what they send again comes after the window.
func (w *world) outliveWindow(ctx context.Context, payments int) error {
	before, err := w.messages(ctx)
	if err != nil {
		return err
	}
	w.proxy.LoseAcks(true)
	for left := payments; left > 0; left -= wave {
		if err := w.enqueue(ctx, min(left, wave)); err != nil {
			return err
		}
	}
	if err := await.Until(ctx, time.Minute, "messages without an acknowledgement", func() (bool, error) {
		now, err := w.messages(ctx)
		return now >= before+payments/10, err
	}); err != nil {
		return err
	}
	for _, s := range w.relayers {
		if err := s.kill(); err != nil {
			return err
		}
	}
	// A stream with a shorter window forgets, and the adapter would refuse it, so it is set back.
	for _, duplicates := range []time.Duration{100 * time.Millisecond, window} {
		if err := w.persist(ctx, "the stream to be changed", func(ctx context.Context) error {
			_, err := w.js.UpdateStream(ctx, settings(duplicates))
			return err
		}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	now, err := w.messages(ctx)
	if err != nil {
		return err
	}
	var dispatched int
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM railhead.supervisor_outbox_status
		WHERE state = 'DISPATCHED'`).Scan(&dispatched); err != nil {
		return err
	}
	w.made.AfterWindow = now - dispatched
	w.proxy.LoseAcks(false)
	for _, s := range w.relayers {
		if err := s.start(); err != nil {
			return err
		}
	}
	return w.awaitPending(ctx, 0)
}

// messages counts those of the stream.
func (w *world) messages(ctx context.Context) (n int, err error) {
	err = w.persist(ctx, "the stream to answer", func(ctx context.Context) error {
		stream, err := w.js.Stream(ctx, streamName)
		if err != nil {
			return err
		}
		n = int(stream.CachedInfo().State.Msgs)
		return nil
	})
	return n, err
}
