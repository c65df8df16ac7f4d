package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/await"
)

const (
	maxWave      = 250 // payments of one batch
	participants = 200 // more than are awaited without an acknowledgement: each has one payment in flight
	// losing is how long acknowledgements are lost; calm is the least time until the next fault.
	losing, calm = 250 * time.Millisecond, 200 * time.Millisecond
	// cycle is how many faults there are. Each is made once at least, with payments under it.
	cycle = 10
)

// wave is how many payments are one batch. A run is many of them, so that faults meet each; none is enqueued while
// two are pending.
func (w *world) wave() int { return min(max(w.Payments/20, 1), maxWave) }

// pay enqueues so many payments while the rails keep up, one for each in turn, and waits until none is pending. It
// spreads the payments over the faults, since fast rails would be through before the first.
func (w *world) pay(ctx context.Context, payments int) error {
	faults := cmp.Or(w.Faults, max(cycle, w.Payments/200))
	for paid := 0; paid < payments; {
		if err := w.awaitPending(ctx, 2*w.wave()); err != nil {
			return err
		}
		if err := await.Until(ctx, 5*time.Minute, "the next fault", func() (bool, error) {
			return int(w.faults.Load()) >= faults*paid/payments, nil
		}); err != nil {
			return err
		}
		n := min(payments-paid, w.wave())
		if err := w.enqueue(ctx, n, railNATS, railKafka); err != nil {
			return err
		}
		paid += n
	}
	return w.awaitPending(ctx, 0)
}

func (w *world) enqueue(ctx context.Context, n int, rails ...string) error {
	batch := make([]railhead.Instruction, n)
	for i := range batch {
		number := len(w.enqueued) + i + 1
		batch[i] = railhead.Instruction{
			InstructionID: fmt.Sprintf("i-%07d", number), IdempotencyKey: fmt.Sprintf("k-%07d", number),
			ParticipantID: fmt.Sprintf("participant-%02d", number/len(rails)%participants+1), RailType: rails[number%len(rails)],
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
		w.enqueued[batch[i].InstructionID] = batch[i].RailType
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
	over := make(chan struct{})
	var worked error
	go func() {
		defer close(over)
		worked = w.pay(ctx, payments)
	}()
	defer w.keepAcks()
	// The waits are not drawn: the work draws meanwhile.
	for n := 0; w.Faults == 0 || n < w.Faults; n++ {
		for _, wait := range []time.Duration{losing, calm + time.Duration(n*97%700)*time.Millisecond} {
			select {
			case <-over:
				return worked
			case <-time.After(wait):
				w.keepAcks()
			}
		}
		if err := w.fault(ctx, n); err != nil && ctx.Err() == nil {
			stop(err)
			<-over
			return errors.Join(err, worked)
		}
		w.faults.Add(1)
	}
	time.Sleep(losing)
	w.keepAcks()
	<-over
	return worked
}

// keepAcks ends the loss of acknowledgements.
func (w *world) keepAcks() {
	for _, l := range w.lanes {
		l.proxy.LoseAcks(false)
	}
}

// fault makes the nth fault. A process is killed once it works after the kill before. Acknowledgements are lost
// until the caller ends that.
func (w *world) fault(ctx context.Context, n int) error {
	n %= cycle
	on := w.lanes[n/2%len(w.lanes)]
	switch n {
	case 0, 5:
		one := w.relayers[n/5]
		if err := one.awaitReady(ctx); err != nil {
			return err
		}
		w.made.KilledRelayer++
		return one.restart()
	case 2, 4:
		if _, err := on.log.messages(ctx); err != nil {
			return err
		}
		if on.rail == railKafka {
			w.made.KilledFake++
		} else {
			w.made.KilledBroker++
		}
		return on.broker.restart()
	case 6, 8:
		w.made.KilledConsumer++
		return on.consumer.restart()
	default:
		on.proxy.LoseAcks(true)
		return nil
	}
}

// outliveWindow has so many payments of the stream of NATS sent while all acknowledgements are lost, kills the
// relayers, has the stream forget its keys, and starts them again: what they send again comes after the window.
func (w *world) outliveWindow(ctx context.Context, payments int) error {
	before, err := w.stream.messages(ctx)
	if err != nil {
		return err
	}
	w.lanes[0].proxy.LoseAcks(true)
	for left := payments; left > 0; left -= w.wave() {
		if err := w.enqueue(ctx, min(left, w.wave()), railNATS); err != nil {
			return err
		}
	}
	if err := await.Until(ctx, time.Minute, "messages without an acknowledgement", func() (bool, error) {
		now, err := w.stream.messages(ctx)
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
		if err := persist(ctx, "the stream to be changed", func(ctx context.Context) error {
			_, err := w.stream.js.UpdateStream(ctx, settings(duplicates))
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
	now, err := w.stream.messages(ctx)
	if err != nil {
		return err
	}
	var dispatched int
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM railhead.supervisor_outbox_status
		WHERE state = 'DISPATCHED' AND rail_type = 'nats'`).Scan(&dispatched); err != nil {
		return err
	}
	w.made.AfterWindow = now - dispatched
	w.keepAcks()
	for _, s := range w.relayers {
		if err := s.start(); err != nil {
			return err
		}
	}
	return w.awaitPending(ctx, 0)
}
