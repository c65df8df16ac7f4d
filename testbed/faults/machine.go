package faults

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// machineFaults returns the faults of the machine that a process runs on.
func machineFaults() []Fault {
	return []Fault{{
		Name: "machine_resumed",
		About: "a virtual machine is suspended between a claim and its first byte, and resumed after the bank has " +
			"forgotten the keys: its monotonic clock has stood still",
		Adjust: func(o *Options) {
			// One payment, so that none is claimed later, when the bank has forgotten.
			o.Rails, o.Wave, o.MaxSends = []string{Keyed}, 1, 6
			// Eight seconds of this run stand for an hour of the bank.
			o.KeyWindow, o.BankWindow = time.Hour, 8*time.Second
			o.StartWithin, o.ClaimTimeout = 14*time.Second, 24*time.Second
		},
		Inject: resumeMachine, Quiet: true,
	}}
}

// resumeMachine makes the bank execute every first send and lose its answer, and holds
// the re-sends of the second relayer after their claim until the bank has forgotten the
// keys. Then the relayer continues, with its wall clock advanced past the key window.
func resumeMachine(ctx context.Context, w *World) error {
	if err := w.Dedupes.Spoil(ctx, railsim.Fault{Kind: railsim.DropAfter, Probability: 1}); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if err := await.Until(ctx, reachWithin, "first sends to be executed", func() (bool, error) {
		moved, err := w.Dedupes.moved()
		return len(moved) >= w.Options.Wave, err
	}); err != nil {
		return err
	}
	first := w.relayers[0]
	if err := first.Stop(w.Options.Drain + 20*time.Second); err != nil {
		return err
	}
	executed := time.Now()
	if err := w.Dedupes.Spoil(ctx); err != nil {
		return err
	}
	if err := await.Until(ctx, reachWithin, "the payment to wait for its re-send", func() (bool, error) {
		pending, claims, err := w.waiting(ctx)
		return pending == w.Options.Wave && claims == 0, err
	}); err != nil {
		return err
	}
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_outbox_pending SET next_attempt_at = now()`); err != nil {
		return err
	}
	second, err := w.StartRelayer(ctx, faultpoint.Committed)
	if err != nil {
		return err
	}
	reach := w.Director.Arm(second.PID(), faultpoint.Committed, 0)
	w.Injected++
	hold, err := w.Director.Await(ctx, reach, reachWithin)
	if err != nil {
		return err
	}
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	pause(ctx, time.Until(executed.Add(w.Options.BankWindow+500*time.Millisecond)))
	hold.GoLater(w.Options.KeyWindow + time.Minute)
	w.Hit++
	return nil
}
