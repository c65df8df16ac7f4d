package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// lateStart adjusts the options of a fault that prepares the server first and then starts
// the services itself.
func lateStart(o *Options) {
	o.Relayers, o.Reapers, o.Wave, o.Callers, o.Rounds = 0, 0, 48, 6, 1
	o.HealWithin = time.Minute
}

// oblivion describes the circumstances of a loss of data.
type oblivion struct {
	goOn, mayGo []string // rails whose lanes go on by themselves, and that may

	lasting  time.Duration                       // from the sends that are forgotten to the loss
	expireIn time.Duration                       // of what is sent and forgotten; 0: never
	alive    bool                                // the services live through it; else the seed says whether they do
	passed   bool                                // the WAL passes the lost position before any service sees the server
	repeat   bool                                // callers repeat what is forgotten
	late     []string                            // rails of which callers repeat it once the operator has accepted
	again    bool                                // the data goes back to the same moment once more
	after    func(context.Context, *World) error // called right after it
}

// forget makes payments wait at a moment and be sent and executed after it. Then the data
// goes back to that moment, and they come back as unsent.
func forget(ctx context.Context, w *World, how func(context.Context, *World) (rewind, error), o oblivion) error {
	r, err := how(ctx, w)
	if err != nil {
		return err
	}
	if err := w.begin(ctx, 2); err != nil {
		return err
	}
	p, err := w.sentAfter(ctx, r, o)
	if err != nil {
		return err
	}
	plan := w.plans
	if err := w.forgets(ctx, r, p, o); err != nil {
		return err
	}
	if o.repeat {
		if err := w.repeats(ctx, plan); err != nil {
			return err
		}
	}
	if err := w.suspendedUntilAccepted(ctx, suspension{since: p.at, goOn: o.goOn, mayGo: o.mayGo}); err != nil {
		return err
	}
	if o.late != nil {
		if err := w.repeats(ctx, plan, o.late...); err != nil {
			return err
		}
	}
	if !o.again {
		return nil
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("after the operator accepted: %v", err)
	}
	if err := w.forgets(ctx, r, p, o); err != nil {
		return err
	}
	return w.suspendedUntilAccepted(ctx, suspension{since: p.at, goOn: o.goOn, mayGo: o.mayGo})
}

// begin starts the services, enqueues half a wave, and waits until all of it has ended.
func (w *World) begin(ctx context.Context, relayers int) error {
	w.Options.Relayers, w.Options.Reapers = relayers, 1
	for range relayers {
		if _, err := w.StartRelayer(ctx); err != nil {
			return err
		}
	}
	if _, err := w.StartReaper(ctx); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave / 2); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	_, err := w.AwaitRest(ctx)
	return err
}

// sentAfter enqueues payments while the relayers are frozen, and makes that the moment to
// go back to. It returns once the banks have executed enough of them, and of others that
// were enqueued later.
func (w *World) sentAfter(ctx context.Context, r rewind, o oblivion) (point, error) {
	first := len(w.orders)
	w.Options.ExpiresIn = o.expireIn
	p, err := w.markWaiting(ctx, r, w.Options.Wave)
	w.Options.ExpiresIn = 0
	if err != nil {
		return p, err
	}
	w.Injected++
	if _, err := w.Traffic(w.Options.Wave / 2); err != nil {
		return p, err
	}
	if err := w.awaitExecuted(ctx, first, w.Options.Wave*3/4); err != nil {
		return p, err
	}
	last := len(w.orders) - w.Options.Wave/2
	if err := w.awaitExecuted(ctx, last, w.Options.Wave/4); err != nil {
		return p, err
	}
	pause(ctx, o.lasting)
	executed, err := w.executed()
	for n := first; n < last; n++ {
		if _, ok := executed[instructionID(n)]; ok {
			w.Hit++
		}
	}
	return p, err
}

// markWaiting enqueues payments while the relayers are frozen, and makes that the moment
// to go back to: the payments wait at it, and are sent after it.
func (w *World) markWaiting(ctx context.Context, r rewind, n int) (p point, err error) {
	var frozen []*Process
	for _, relayer := range w.relayers {
		if !relayer.Alive() {
			continue
		}
		if err := relayer.Freeze(ctx); err != nil {
			return p, err
		}
		frozen = append(frozen, relayer)
	}
	if _, err := w.Traffic(n); err != nil {
		return p, err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return p, err
	}
	if p, err = w.markWith(ctx, r); err != nil {
		return p, err
	}
	for _, relayer := range frozen {
		if err := relayer.Thaw(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// awaitExecuted waits until the banks have executed at least want of the instructions
// from first on.
func (w *World) awaitExecuted(ctx context.Context, first, want int) error {
	n := 0
	err := await.Until(ctx, reachWithin, "the banks to execute", func() (bool, error) {
		executed, err := w.executed()
		n = 0
		for each := first; each < len(w.orders); each++ {
			if _, ok := executed[instructionID(each)]; ok {
				n++
			}
		}
		return n >= want, err
	})
	if err != nil {
		return fmt.Errorf("%w: %d of %d", err, n, want)
	}
	return nil
}

// forgets makes the data go back. The services live through it, or are started again with
// what they keep on disk, as o or the seed decides.
func (w *World) forgets(ctx context.Context, r rewind, p point, o oblivion) error {
	var lost string
	if err := w.admin.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&lost); err != nil {
		return err
	}
	alive := o.alive || w.draws.IntN(2) == 0
	between := func() error { return nil }
	if !alive || o.passed {
		between = func() error { return w.silence(ctx, alive) }
	}
	if err := w.goBack(ctx, r, p, between); err != nil {
		return err
	}
	if o.passed {
		if err := w.passWAL(ctx, lost); err != nil {
			return err
		}
	}
	for _, service := range w.services() {
		if service.Alive() {
			if err := service.Thaw(); err != nil {
				return err
			}
		}
	}
	if err := w.revive(ctx); err != nil {
		return err
	}
	if o.after != nil {
		return o.after(ctx, w)
	}
	return nil
}

// silence freezes the services if alive is set, and kills them otherwise.
func (w *World) silence(ctx context.Context, alive bool) error {
	for _, service := range w.services() {
		if !service.Alive() {
			continue
		}
		stop := service.Kill
		if alive {
			stop = func() error { return service.Freeze(ctx) }
		}
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
}

// passWAL writes until the server's WAL is past a position that it had before.
func (w *World) passWAL(ctx context.Context, position string) error {
	return await.Until(ctx, startedWithin, "the WAL to pass what was lost", func() (bool, error) {
		if _, err := w.admin.Exec(ctx, `CREATE TABLE IF NOT EXISTS public.filler AS
			SELECT generate_series(1, 20000) AS n`); err != nil {
			return false, err
		}
		if _, err := w.admin.Exec(ctx, `SELECT pg_switch_wal()`); err != nil {
			return false, err
		}
		if _, err := w.admin.Exec(ctx, `DROP TABLE public.filler`); err != nil {
			return false, err
		}
		var past bool
		err := w.admin.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() > $1::pg_lsn`, position).Scan(&past)
		return past, err
	})
}

// repeats makes every call of a plan once more, or only those of the named rails, and
// waits for the callers.
func (w *World) repeats(ctx context.Context, plan int, rails ...string) error {
	if _, err := w.Repeat(plan, rails...); err != nil {
		return err
	}
	return w.AwaitCallers(ctx)
}
