package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// turnedAwayFaults returns the faults of rails that turn a payment away unread, because
// they are busy or because its route is not theirs.
func turnedAwayFaults() []Fault {
	storm := func(name string, payments int, lasting time.Duration, adjust func(*Options)) Fault {
		return Fault{
			Name: name, About: fmt.Sprintf("both banks answer 429 to everything for %s, while %d payments come in, some of "+
				"which have lost an answer", lasting, payments),
			Adjust: func(o *Options) {
				// Nothing may wait for an operator, not even what the bank would call a duplicate.
				o.Wave, o.OnReplay = payments, railsim.ReplayStored
				unhurried(o)
				adjust(o)
			},
			Inject: func(ctx context.Context, w *World) error { return w.rateLimit(ctx, lasting) },
			Check:  func(w *World, f Facts) { w.noLetters(f) },
			Quiet:  true,
		}
	}
	long := storm("rate_limit_storm_long", 10_000, time.Minute, func(o *Options) {
		o.Callers, o.Pace, o.Concurrency, o.HealWithin = 8, 10*time.Millisecond, 32, 4*time.Minute
	})
	long.Within = 9 * time.Minute
	return []Fault{
		storm("rate_limit_storm", 240, 8*time.Second, func(o *Options) { o.HealWithin = 90 * time.Second }),
		long,
		{
			Name: "poisoned_route", About: "both banks answer 404, with a page, to one instruction in a hundred, and two " +
				"relayers serve them",
			Adjust: func(o *Options) {
				// What a bank that de-duplicates refuses in this way is sent again until max_sends.
				o.Wave, o.Relayers, o.MaxSends, o.HealWithin = 800, 2, 4, 90*time.Second
				unhurried(o)
			},
			Inject: poisonRoutes, Check: func(w *World, f Facts) { w.lettersOfThePoisoned(f) }, Quiet: true,
		},
	}
}

// unhurried lengthens the time limits of a run. A busy machine that holds a process up
// for seconds then does not look like a lost worker, or like a bank that does not answer:
// on a bank that can't be asked the payment would be parked, although no bank has turned
// it away.
func unhurried(o *Options) {
	o.Slower, o.StoreTimeout, o.HeartbeatStale, o.ClaimTimeout = 4, 10*time.Second, 15*time.Second, 45*time.Second
}

// rateLimit sends one wave while both banks limit the rate. Payments whose answer is lost
// meanwhile are sent again, or asked about, under the limit as well.
func (w *World) rateLimit(ctx context.Context, lasting time.Duration) error {
	limit := railsim.Fault{Kind: railsim.StatusBefore, Probability: 1, Status: http.StatusTooManyRequests, Plain: true}
	if err := errors.Join(w.Bare.Spoil(ctx, limit), w.Dedupes.Spoil(ctx,
		railsim.Fault{Kind: railsim.DropAfter, Probability: 0.2}, limit,
		railsim.Fault{Kind: railsim.InquiryStatus, Probability: 1, Status: http.StatusTooManyRequests})); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		if err := await.Until(ctx, w.Options.HealWithin, "the storm to begin", func() (bool, error) {
			hit, err := bank.Spoiled(ctx)
			return hit > 0, err
		}); err != nil {
			return err
		}
	}
	pause(ctx, lasting)
	if err := w.countSpoiled(ctx); err != nil {
		return err
	}
	return w.Snapshot(ctx)
}

// noLetters checks that no payment of the wave has a dead letter. It leaves out what
// comes after the wave, to count the slots: that meets no storm, but may meet a machine
// that is too slow for a bank that can't be asked.
func (w *World) noLetters(f Facts) {
	wave := w.wave()
	for _, key := range f.Keys {
		if letter, ok := f.Letters[key.OutboxID]; ok && wave[key.InstructionID] {
			w.Broken("%s has the dead letter %s, because its rail was busy", key.InstructionID, letter.Reason)
		}
	}
}

// wave returns the set of instructions of the first wave of a run.
func (w *World) wave() map[string]bool {
	all := make(map[string]bool, w.Options.Wave)
	for n := range w.Options.Wave {
		all[instructionID(n)] = true
	}
	return all
}

// poisoned reports whether the route of the nth instruction of a wave is refused: about
// one in a hundred, and not always of the same rail.
func poisoned(n int) bool { return n%101 == 50 }

func poisonRoutes(ctx context.Context, w *World) error {
	var rules []railsim.Fault
	for n := range w.Options.Wave {
		if poisoned(n) {
			rules = append(rules, railsim.Fault{Kind: railsim.StatusBefore, Probability: 1, Status: http.StatusNotFound,
				Plain: true,
				Match: railsim.Match{ReferencePrefix: instructionID(n)}})
		}
	}
	if err := w.spoiledTrafficOnce(ctx, rules); err != nil {
		return err
	}
	var pauses int
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_operator_log
		WHERE act = 'PAUSE_RAIL'`).Scan(&pauses); err != nil {
		return err
	}
	if pauses > 0 {
		w.Broken("a rail was paused %d times, because one instruction in a hundred was refused", pauses)
	}
	return w.countSpoiled(ctx)
}

// spoiledTrafficOnce sends one wave while both banks apply the rules, and waits until all
// of it has ended.
func (w *World) spoiledTrafficOnce(ctx context.Context, rules []railsim.Fault) error {
	if err := errors.Join(w.Dedupes.Spoil(ctx, rules...), w.Bare.Spoil(ctx, rules...)); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("with refused routes: %v", err)
	}
	return w.Snapshot(ctx)
}

// lettersOfThePoisoned checks that each refused instruction of the wave has a dead
// letter, and that no other has one.
func (w *World) lettersOfThePoisoned(f Facts) {
	want := make(map[string]bool)
	for n := range w.Options.Wave {
		if poisoned(n) {
			want[instructionID(n)] = true
		}
	}
	wave := w.wave()
	for _, key := range f.Keys {
		if letter, ok := f.Letters[key.OutboxID]; wave[key.InstructionID] && ok != want[key.InstructionID] {
			w.Broken("%s: a dead letter %v (%s), its route was refused %v", key.InstructionID, ok, letter.Reason,
				want[key.InstructionID])
		}
	}
}
