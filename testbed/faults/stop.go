package faults

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// stopFaults returns the faults that end a relayer by signals while calls are under way.
func stopFaults() []Fault {
	return []Fault{
		{
			Name: "graceful_stop", About: "SIGTERM with sends in flight: they finish and are recorded, nothing becomes unknown",
			Adjust: func(o *Options) { o.ClaimTimeout, o.Drain = 6*time.Second, 1500*time.Millisecond },
			Inject: gracefulStop, Check: noneUnknown,
		},
		{
			Name: "second_signal", About: "SIGTERM, and another one while the relayer waits for a bank that hangs: it ends " +
				"at once",
			Adjust: func(o *Options) { o.Rounds, o.ClaimTimeout, o.Drain = 2, 12*time.Second, 6*time.Second },
			Inject: secondSignal,
		},
	}
}

func gracefulStop(ctx context.Context, w *World) error {
	slow := railsim.Fault{Kind: railsim.DelayAfter, Probability: 1, DelayMS: 250}
	if err := errors.Join(w.Dedupes.Spoil(ctx, slow), w.Bare.Spoil(ctx, slow)); err != nil {
		return err
	}
	for range w.Options.Rounds {
		if err := w.relayers[len(w.relayers)-1].retire(w.Options.Drain); err != nil {
			return err
		}
		victim, err := w.StartRelayer(ctx, faultpoint.FirstByte)
		if err != nil {
			return err
		}
		reach := w.Director.Arm(victim.PID(), faultpoint.FirstByte, w.draws.IntN(6))
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		hold, err := w.Director.Await(ctx, reach, reachWithin)
		if errors.Is(err, await.ErrNotInTime) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := victim.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		hold.Go()
		// A second signal would end it at once.
		if err := victim.Ends(w.Options.Drain + w.Options.RecordWithin + 10*time.Second); err != nil {
			w.Broken("%v", err)
		}
		w.Hit++
		if _, err := w.StartRelayer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noneUnknown checks that every outcome is known: the bank answered everything in time,
// and every relayer ended gracefully.
func noneUnknown(w *World, f Facts) {
	for _, row := range f.Rows {
		if row.State == payment.ZombieRequeue || row.State == payment.Unknown {
			w.Broken("%s says %s, though every relayer ended in order", rowName(row.OutboxID, row.No), row.State)
		}
	}
}

func secondSignal(ctx context.Context, w *World) error {
	hang := railsim.Fault{Kind: railsim.HangAfter, Probability: 1, DelayMS: 20_000}
	for range w.Options.Rounds {
		if err := errors.Join(w.Dedupes.Spoil(ctx, hang), w.Bare.Spoil(ctx, hang)); err != nil {
			return err
		}
		victim := w.relayers[len(w.relayers)-1]
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		if err := await.Until(ctx, reachWithin, "sends in flight", func() (bool, error) {
			_, claims, err := w.waiting(ctx)
			return claims > 0, err
		}); err != nil {
			return err
		}
		if err := victim.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if err := await.Until(ctx, reachWithin, "the relayer to drain", func() (bool, error) {
			var draining bool
			err := w.admin.QueryRow(ctx, `SELECT status = 'draining' FROM `+cell+`.outbox_heartbeats
				WHERE name = $1`, victim.Name).Scan(&draining)
			return draining || !victim.Alive(), err
		}); err != nil {
			return err
		}
		if err := w.endAtOnce(victim); err != nil {
			w.Broken("%v", err)
		}
		if err := errors.Join(w.Dedupes.Spoil(ctx), w.Bare.Spoil(ctx)); err != nil {
			return err
		}
		if _, err := w.StartRelayer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// endAtOnce sends the second signal and checks that it ends the process, whatever the
// process waits for.
func (w *World) endAtOnce(victim *Process) error {
	victim.Want()
	if !victim.Alive() {
		return nil // it had nothing in flight: not hit
	}
	if err := victim.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(3 * time.Second)
	defer timer.Stop()
	select {
	case <-victim.Over():
		w.Hit++
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s outlived a second signal", victim.Name), victim.Kill())
	}
}
