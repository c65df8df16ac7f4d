package faults

import (
	"context"
	"time"
)

// rewindBlow is a blow that makes the data go back under traffic.
type rewindBlow struct {
	name string
	how  func(context.Context, *World) (rewind, error)
}

// rewindBlows returns the blows that are dealt at intervals, and not drawn among the
// others: each needs an operator afterwards.
func rewindBlows() []rewindBlow {
	return []rewindBlow{{"restore", newBackup}, {"snapshot", newImage}, {"failover", newLagging}}
}

// stragglers bounds how long a bank of the nemesis may take to execute what was sent to
// it. An operator who compares earlier can't know what the bank will execute.
const stragglers = sendBudget + 4*time.Second

// rewound makes the data go back by a few seconds, and then acts as the operator: once no
// caller repeats a call of that time any more and nothing can be on its way to a bank, it
// compares with the banks and accepts the server.
func (w *World) rewound(ctx context.Context, blow rewindBlow) error {
	w.Injected++
	r, err := blow.how(ctx, w)
	if err != nil {
		return err
	}
	p, err := w.markWaiting(ctx, r, w.Options.Wave)
	if err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	pause(ctx, time.Duration(500+w.draws.IntN(4000))*time.Millisecond)
	if err := w.goBack(ctx, r, p, func() error { return nil }); err != nil {
		return err
	}
	w.Hit++
	lost := time.Now()
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	pause(ctx, stragglers-time.Since(lost))
	_, err = w.Reconcile(ctx)
	return err
}
