package faults

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// mixedFaults returns the fault that mixes many others at once.
func mixedFaults() []Fault {
	return []Fault{{
		Name: "everything_at_once", About: "two relayers and two reapers, a fifth of all calls spoiled, and kills, " +
			"freezes, cuts and crashes as the seed draws them",
		Adjust: func(o *Options) {
			o.Relayers, o.Reapers, o.ThroughProxy, o.Rounds = 2, 2, true, 14
			o.HealWithin = 90 * time.Second
		},
		Inject: everything,
	}}
}

// fifth returns the rules of a bank that spoils about one call in five.
func fifth(other *Bank) []railsim.Fault {
	const p = 0.02
	return []railsim.Fault{
		{Kind: railsim.DelayAfter, Probability: 0.1, DelayMS: 400},
		{Kind: railsim.DelayArrival, Probability: p, DelayMS: 3500},
		{Kind: railsim.DropBefore, Probability: p}, {Kind: railsim.StatusBefore, Probability: p, Status: 503},
		{Kind: railsim.HangBefore, Probability: p, DelayMS: 3000}, {Kind: railsim.RefuseDrop, Probability: p},
		{Kind: railsim.Refuse, Probability: p}, {Kind: railsim.DropAfter, Probability: p},
		{Kind: railsim.ResetAfter, Probability: p},
		{Kind: railsim.HangAfter, Probability: p, DelayMS: 3000}, {Kind: railsim.StatusAfter, Probability: p},
		{Kind: railsim.WrongReferenceAfter, Probability: p}, {Kind: railsim.BadJSONAfter, Probability: p},
		{Kind: railsim.RedirectAfter, Probability: p, URL: other.URL + "/payments"},
		{Kind: railsim.InquiryNotFound, Probability: 0.1}, {Kind: railsim.InquiryDrop, Probability: 0.1},
	}
}

func everything(ctx context.Context, w *World) error {
	if err := errors.Join(w.Dedupes.Spoil(ctx, fifth(w.Bare)...), w.Bare.Spoil(ctx, fifth(w.Dedupes)...)); err != nil {
		return err
	}
	blows := []func(context.Context, *World) error{
		blowKillRelayer, blowKillRelayer, blowKillReaper, blowFreeze, blowFreeze, blowBackend, blowBackend, blowCut,
		blowCrash,
	}
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave / 2); err != nil {
			return err
		}
		pause(ctx, time.Duration(100+w.draws.IntN(500))*time.Millisecond)
		if err := blows[w.draws.IntN(len(blows))](ctx, w); err != nil {
			return err
		}
	}
	if err := w.countSpoiled(ctx); err != nil {
		return err
	}
	return w.Snapshot(ctx)
}

// living draws one of the processes that are alive.
func (w *World) living(all []*Process) *Process {
	var alive []*Process
	for _, p := range all {
		if p.Alive() {
			alive = append(alive, p)
		}
	}
	return alive[w.draws.IntN(len(alive))]
}

func blowKillRelayer(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.living(w.relayers).Kill(); err != nil {
		return err
	}
	w.Hit++
	_, err := w.StartRelayer(ctx)
	return err
}

func blowKillReaper(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.living(w.reapers).Kill(); err != nil {
		return err
	}
	w.Hit++
	_, err := w.StartReaper(ctx)
	return err
}

// blowFreeze freezes a relayer for longer or shorter than the claim timeout.
func blowFreeze(ctx context.Context, w *World) error {
	w.Injected++
	victim := w.living(w.relayers)
	if err := victim.Freeze(ctx); err != nil {
		return err
	}
	pause(ctx, time.Duration(500+w.draws.IntN(5000))*time.Millisecond)
	w.Hit++
	return victim.Thaw()
}

func blowBackend(ctx context.Context, w *World) error { return w.killBackend(ctx) }

func blowCut(ctx context.Context, w *World) error {
	w.Injected++
	wire := w.wires[w.living(w.relayers)]
	wire.Cut()
	pause(ctx, time.Duration(200+w.draws.IntN(1500))*time.Millisecond)
	w.Hit++
	return wire.Mend()
}

func blowCrash(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.Lane.crash(ctx, time.Duration(w.draws.IntN(300))*time.Millisecond); err != nil {
		return err
	}
	w.admin.Reset() // its connections are broken, and the next blow uses one
	w.Hit++
	return nil
}
