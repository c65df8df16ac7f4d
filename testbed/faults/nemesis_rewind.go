package faults

import (
	"context"
	"time"
)

// rewindBlow lets the data go back under traffic.
type rewindBlow struct {
	name string
	how  func(context.Context, *World) (rewind, error)
}

// rewindBlows are dealt by the clock, and not drawn among the others: each needs
// an operator afterwards.
func rewindBlows() []rewindBlow {
	return []rewindBlow{{"restore", newBackup}, {"snapshot", newImage}, {"failover", newLagging}}
}

// stragglers is how long a bank of the nemesis may take to execute what was sent
// to it: an operator who compares earlier can't know.
const stragglers = sendBudget + 4*time.Second

// rewound lets the data go back by a few seconds. Then it is the operator: once
// no caller repeats a call of that time any more and nothing can be on its way to
// a bank, it compares and accepts.
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
	return w.person(ctx)
}
