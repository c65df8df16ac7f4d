package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// Nemesis is one long run on one installation, with every fault that can be mixed with
// others.
type Nemesis struct {
	Seed     uint64
	Lasting  time.Duration // of the traffic and the faults
	PerSec   int           // instructions enqueued a second
	Relayers int
	Reapers  int
	// RewindEvery is how often the data goes back by a few seconds; 0: never.
	RewindEvery time.Duration
}

// NemesisReport is the result of a Nemesis run.
type NemesisReport struct {
	Report
	Lasting  time.Duration  `json:"lasting"`
	Payments int            `json:"payments"`
	Blows    map[string]int `json:"blows"` // that were dealt, by name
}

// String returns the line that a run is judged by.
func (r NemesisReport) String() string {
	line := fmt.Sprintf("nemesis: seed=%d minutes=%.3g payments=%d injected=%d lost=%d doubled=%d false=%d",
		r.Seed, r.Lasting.Minutes(), r.Payments, r.Injected, r.Verdict.Lost, r.Verdict.Doubled+r.Verdict.Unexpected,
		r.Verdict.False())
	if n := r.Verdict.LostInWindow; n > 0 {
		line += fmt.Sprintf(" within_window=%d", n)
	}
	return line
}

// blow is one fault that can be mixed with every other, and ends by itself.
type blow struct {
	name   string
	weight int
	deal   func(context.Context, *World) error
}

// blows returns what the nemesis draws from. Blows that make the data go back are dealt
// at intervals (rewindBlows); what stops for good has a fault of its own instead.
func blows() []blow {
	return []blow{
		{"kill a relayer", 4, blowKillRelayer}, {"kill a reaper", 2, blowKillReaper},
		{"stop a relayer in order", 2, blowStopRelayer}, {"freeze a relayer", 3, blowFreeze},
		{"freeze a reaper", 2, blowFreezeReaper}, {"starve a relayer", 2, blowStarve},
		{"end a backend", 6, blowBackend}, {"cut a network", 3, blowCut}, {"silence a network", 2, blowSilence},
		{"slow a network", 2, blowSlow}, {"crash the server", 1, blowCrash}, {"turn the server read-only", 1, blowReadOnly},
		{"lock pending", 2, blowLock}, {"notify forged notifications", 2, blowNotifications},
		{"hold a snapshot", 2, blowSnapshot},
		{"spoil the banks otherwise", 4, blowBanks}, {"pause a lane", 1, blowPause}, {"repeat a migration", 1, blowMigrate},
		{"kill the API", 2, blowKillAPI}, {"stop the API in order", 1, blowStopAPI}, {"freeze the API", 1, blowFreezeAPI},
	}
}

// options returns the options of the run.
func (n Nemesis) options() Options {
	o := Standard("nemesis", n.Seed)
	o.Relayers, o.Reapers, o.ThroughProxy, o.ThroughAPI = n.Relayers, n.Reapers, true, true
	o.Participants, o.Callers, o.Pace = 12, 6, 0
	o.HealWithin = 3 * time.Minute
	return o
}

// nemesisRest bounds the time before and after the traffic and the blows.
const nemesisRest = 8 * time.Minute

// Run makes the run on a lane of its own.
func (n Nemesis) Run(ctx context.Context, built Binaries, out io.Writer) (report NemesisReport, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.Lasting+nemesisRest,
		fmt.Errorf("%w: the run took longer than %s", await.ErrNotInTime, n.Lasting+nemesisRest))
	defer cancel()
	lane, err := NewLane(ctx, built)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lane.Close()) }()
	o := n.options()
	fmt.Fprintf(out, "nemesis: %d instructions a second for %s, %s\n", n.PerSec, n.Lasting, o)
	report = NemesisReport{Lasting: n.Lasting, Blows: make(map[string]int)}
	fault := Fault{Name: "nemesis", Quiet: true, Inject: func(ctx context.Context, w *World) error {
		return n.rage(ctx, w, report.Blows, out)
	}}
	report.Report = RunOn(ctx, lane, fault, o)
	report.Payments = report.Verdict.Acknowledged + report.Verdict.Recovered
	return report, nil
}

// lookEvery is how often the archive is recorded, as a prefix of what follows.
const lookEvery = 3 * time.Minute

// rage keeps the traffic flowing and deals one blow after another.
func (n Nemesis) rage(ctx context.Context, w *World, dealt map[string]int, out io.Writer) error {
	deck := deckOf(blows())
	if err := blowBanks(ctx, w); err != nil {
		return err
	}
	end, looked, rewound := time.Now().Add(n.Lasting), time.Now(), time.Now()
	fed, begun := 0, time.Now()
	for time.Now().Before(end) {
		// Enqueue as many as are due by the clock, in waves that end before long.
		if due := int(time.Since(begun).Seconds()*float64(n.PerSec)) + n.PerSec - fed; due >= n.PerSec && w.Calling() < 3 {
			if _, err := w.Traffic(due); err != nil {
				return err
			}
			fed += due
		}
		pause(ctx, time.Duration(50+w.draws.IntN(700))*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		one := deck[w.draws.IntN(len(deck))]
		if err := one.deal(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		dealt[one.name]++
		if n.RewindEvery > 0 && time.Since(rewound) > n.RewindEvery {
			all := rewindBlows()
			one := all[w.draws.IntN(len(all))]
			if err := w.rewound(ctx, one); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			dealt[one.name]++
			rewound = time.Now()
		}
		if time.Since(looked) > lookEvery {
			if err := w.Snapshot(ctx); err != nil {
				return err
			}
			looked = time.Now()
			fmt.Fprintf(out, "nemesis: %s gone, %d enqueued, %d blows dealt\n", time.Since(begun).Round(time.Second), fed,
				w.Injected)
		}
	}
	return w.Snapshot(ctx)
}

func deckOf(all []blow) []blow {
	var deck []blow
	for _, each := range all {
		deck = append(deck, slices.Repeat([]blow{each}, each.weight)...)
	}
	return deck
}

// Calling counts the callers that are running.
func (w *World) Calling() int { return running(w.callers) }

// blowStopRelayer stops a relayer gracefully, as a rolling restart does, and starts
// another.
func blowStopRelayer(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.living(w.relayers).Stop(w.Options.Drain + 20*time.Second); err != nil {
		w.Broken("%v", err)
	}
	w.Hit++
	_, err := w.StartRelayer(ctx)
	return err
}

func blowFreezeReaper(ctx context.Context, w *World) error {
	w.Injected++
	victim := w.living(w.reapers)
	if err := victim.Freeze(ctx); err != nil {
		return err
	}
	pause(ctx, time.Duration(300+w.draws.IntN(4000))*time.Millisecond)
	w.Hit++
	return victim.Thaw()
}

// blowStarve lets a relayer run for a tenth of the time.
func blowStarve(ctx context.Context, w *World) error {
	return w.starve(ctx, w.living(w.relayers), time.Duration(500+w.draws.IntN(2500))*time.Millisecond)
}

// starve lets a process run for 5 of every 50 ms.
func (w *World) starve(ctx context.Context, victim *Process, lasting time.Duration) error {
	w.Injected++
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		if err := victim.Freeze(ctx); err != nil {
			return err
		}
		pause(ctx, 45*time.Millisecond)
		if err := victim.Thaw(); err != nil {
			return err
		}
		pause(ctx, 5*time.Millisecond)
	}
	w.Hit++
	return nil
}

func blowSilence(ctx context.Context, w *World) error {
	w.Injected++
	wire := w.wires[w.living(w.relayers)]
	if err := wire.Isolate(); err != nil {
		return err
	}
	pause(ctx, time.Duration(200+w.draws.IntN(3000))*time.Millisecond)
	w.Hit++
	return wire.Mend()
}

func blowSlow(ctx context.Context, w *World) error {
	w.Injected++
	wire := w.wires[w.living(w.relayers)]
	if err := wire.Slow(time.Duration(20+w.draws.IntN(100))*time.Millisecond, 20*time.Millisecond, 256); err != nil {
		return err
	}
	pause(ctx, time.Duration(500+w.draws.IntN(2500))*time.Millisecond)
	w.Hit++
	return wire.Mend()
}

func blowReadOnly(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.readOnly(ctx, true); err != nil {
		return err
	}
	pause(ctx, time.Duration(200+w.draws.IntN(1500))*time.Millisecond)
	w.Hit++
	return w.readOnly(ctx, false)
}

func blowLock(ctx context.Context, w *World) error {
	w.Injected++
	return w.locked(ctx, time.Duration(200+w.draws.IntN(1800))*time.Millisecond)
}

func blowNotifications(ctx context.Context, w *World) error {
	w.Injected++
	_, err := w.admin.Exec(ctx, `SELECT pg_notify($1, 'storm ' || i) FROM generate_series(1, 2000) i`, cell+".outbox_pending")
	w.Hit++
	return err
}

// blowSnapshot holds a snapshot for a while, which keeps deleted rows from being cleaned
// up.
func blowSnapshot(ctx context.Context, w *World) error {
	w.Injected++
	tx, err := w.admin.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_pending`); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	pause(ctx, time.Duration(500+w.draws.IntN(3000))*time.Millisecond)
	w.Hit++
	return tx.Rollback(ctx)
}

// blowBanks draws the fault rules of both banks from now on.
func blowBanks(ctx context.Context, w *World) error {
	w.Injected++
	rules := func(other *Bank) []railsim.Fault {
		all := fifth(other)
		w.draws.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:4+w.draws.IntN(len(all)-4)]
		for n := range all {
			all[n].Probability *= 0.5 + w.draws.Float64()
		}
		return all
	}
	w.Hit++
	return errors.Join(w.Dedupes.Spoil(ctx, rules(w.Bare)...), w.Bare.Spoil(ctx, rules(w.Dedupes)...))
}

// blowPause has an operator pause a rail, and resume it.
func blowPause(ctx context.Context, w *World) error {
	w.Injected++
	rail := w.Options.Rails[w.draws.IntN(len(w.Options.Rails))]
	if err := w.Operate(ctx, "rail", "pause", rail, "--reason", "nemesis"); err != nil {
		return err
	}
	pause(ctx, time.Duration(200+w.draws.IntN(1500))*time.Millisecond)
	w.Hit++
	return w.Operate(ctx, "rail", "resume", rail, "--reason", "nemesis")
}

// blowMigrate applies the migrations and the grants once more.
func blowMigrate(ctx context.Context, w *World) error {
	w.Injected++
	for _, args := range [][]string{{"migrate", "up"}, {"roles", "apply"}} {
		if err := w.administer(ctx, args...); err != nil {
			return err
		}
	}
	w.Hit++
	return nil
}
