package faults

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
)

// unsent lists the points that a send passes before its first byte.
var unsent = []faultpoint.Point{faultpoint.Claiming, faultpoint.Claimed, faultpoint.Committed, faultpoint.Dialled,
	faultpoint.FirstByte}

// freezeFaults returns the faults that stop a worker by SIGSTOP at each point, past the
// claim timeout, and then continue it by SIGCONT: a worker that counts as dead goes on.
// One that has sent nothing yet is frozen until the bank has forgotten the keys of what
// was sent in its place, so that a late send would be executed a second time.
func freezeFaults() []Fault {
	var all []Fault
	for _, point := range faultpoint.Relayer() {
		fault := Fault{
			Name: "freeze_relayer_" + slug(point), About: "SIGSTOP of a relayer at the point " + string(point) +
				" past the claim timeout, then SIGCONT",
			Adjust: func(o *Options) { o.Rounds = 1; o.Wave = 24 },
			Inject: func(ctx context.Context, w *World) error { return freezeRelayer(ctx, w, point, 1, 0) },
		}
		if slices.Contains(unsent, point) {
			fault.About = "SIGSTOP of a relayer at the point " + string(point) +
				" past the claim timeout and the key window, then SIGCONT"
			fault.Adjust = func(o *Options) {
				o.Rounds, o.Wave = 1, 24
				o.KeyWindow, o.MaxSends = 10*time.Second, 3
			}
			calls := 1
			if point == faultpoint.FirstByte {
				// Each of the calls that are past their last check of the clock may be the late one.
				calls = 8
			}
			fault.Inject = func(ctx context.Context, w *World) error {
				return freezeRelayer(ctx, w, point, calls, w.Options.KeyWindow+500*time.Millisecond)
			}
			fault.Check = noneSentLate
		}
		all = append(all, fault)
	}
	for _, point := range faultpoint.Reaper() {
		all = append(all, Fault{
			Name: "freeze_reaper_" + slug(point), About: "SIGSTOP of a reaper at the point " + string(point) +
				" while another repairs, then SIGCONT",
			Adjust: func(o *Options) { o.Rounds = 1 },
			Inject: func(ctx context.Context, w *World) error { return freezeReaper(ctx, w, point) },
		})
	}
	return all
}

// freezeRelayer freezes one of two relayers, with at most the given number of its calls
// at the point. It continues the relayer once the other one and the reaper have taken over
// all that it held, and longer has passed since.
func freezeRelayer(ctx context.Context, w *World, point faultpoint.Point, calls int, longer time.Duration) error {
	other := w.relayers[0]
	for range w.Options.Rounds {
		victim, err := w.StartRelayer(ctx, point)
		if err != nil {
			return err
		}
		reaches := []<-chan *Hold{w.Director.Arm(victim.PID(), point, w.draws.IntN(2))}
		for range calls - 1 {
			reaches = append(reaches, w.Director.Arm(victim.PID(), point, 0))
		}
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		first, err := w.Director.Await(ctx, reaches[0], reachWithin)
		if errors.Is(err, await.ErrNotInTime) {
			return nil
		}
		if err != nil {
			return err
		}
		if calls > 1 {
			pause(ctx, 100*time.Millisecond) // others come to the point meanwhile
		}
		if err := victim.Freeze(ctx); err != nil {
			return err
		}
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		if err := w.takenOver(ctx, victim.Name); err != nil {
			return err
		}
		pause(ctx, longer)
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		w.Director.disarm()
		first.Go() // like the others, it goes on after the thaw
		w.Hit++
		for _, reach := range reaches[1:] {
			select {
			case hold := <-reach:
				hold.Go()
				w.Hit++
			default:
			}
		}
		if err := victim.Thaw(); err != nil {
			return err
		}
	}
	// What the frozen relayer still does shows best when no other relayer works.
	return other.retire(w.Options.Drain)
}

// noneSentLate checks that every payment was sent while the claim for that send was
// young. A worker that continues checks the clock once more before it sends, and the
// deadline of its write was taken before that check.
func noneSentLate(w *World, f Facts) {
	const stall = 1500 * time.Millisecond // of the machine, between the check and the bank
	instructions := make(map[string]string)
	for _, key := range f.Keys {
		instructions[key.OutboxID] = key.InstructionID
	}
	claims, sends := make(map[string][]time.Time), make(map[string][]time.Time)
	for _, row := range f.Rows {
		if row.State == payment.Dispatching && row.Claimed != nil {
			claims[instructions[row.OutboxID]] = append(claims[instructions[row.OutboxID]], *row.Claimed)
		}
	}
	for _, request := range f.Heard {
		if request.Op == "payment" {
			sends[request.Reference] = append(sends[request.Reference], request.Time)
		}
	}
	for reference, all := range sends {
		for _, late := range unclaimed(claims[reference], all, w.Options.StartWithin+stall) {
			w.Broken("%s reached the bank at %s, when no claim of it was young that had not been sent", reference, late)
		}
	}
}

// unclaimed matches each send with a claim of its own that was made before it, by less
// than within, and returns the sends that are left without one.
func unclaimed(claims, sends []time.Time, within time.Duration) []time.Time {
	slices.SortFunc(claims, time.Time.Compare)
	slices.SortFunc(sends, time.Time.Compare)
	var left []time.Time
	for _, send := range sends {
		for len(claims) > 0 && send.Sub(claims[0]) >= within {
			claims = claims[1:]
		}
		if len(claims) == 0 || send.Before(claims[0]) {
			left = append(left, send)
			continue
		}
		claims = claims[1:]
	}
	return left
}

// takenOver waits until a frozen worker's heartbeat is older than the claim timeout, it
// holds no claim, and nothing is left for the others to do. Rows that its open transaction
// has locked stay in pending: takenOver does not wait longer than a bound for those.
func (w *World) takenOver(ctx context.Context, worker string) error {
	if err := await.Until(ctx, 30*time.Second, worker+" to count as dead", func() (bool, error) {
		var dead bool
		err := w.admin.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM `+cell+`.outbox_heartbeats
		  WHERE name = $1 AND last_tick_at > clock_timestamp() - $2::interval)
		  AND NOT EXISTS (SELECT FROM `+cell+`.payment_outbox_claims
		  WHERE worker_id = $1)`, worker, w.Options.ClaimTimeout).Scan(&dead)
		return dead, err
	}); err != nil {
		return err
	}
	err := await.Until(ctx, 8*time.Second, "the others to carry on", func() (bool, error) {
		pending, claims, err := w.waiting(ctx)
		return pending == 0 && claims == 0, err
	})
	if errors.Is(err, await.ErrNotInTime) {
		return nil
	}
	return err
}

// freezeReaper freezes the reaper that repairs, while another one does the work.
func freezeReaper(ctx context.Context, w *World, point faultpoint.Point) error {
	for range w.Options.Rounds {
		if err := w.reapers[len(w.reapers)-1].retire(0); err != nil {
			return err
		}
		if err := w.abandon(ctx); err != nil {
			return err
		}
		victim, err := w.StartReaper(ctx, point)
		if err != nil {
			return err
		}
		reach := w.Director.Arm(victim.PID(), point, 0)
		w.Injected++
		hold, err := w.Director.Await(ctx, reach, reachWithin)
		if errors.Is(err, await.ErrNotInTime) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := victim.Freeze(ctx); err != nil {
			return err
		}
		hold.Go()
		if _, err := w.StartReaper(ctx); err != nil {
			return err
		}
		if err := w.takenOver(ctx, victim.Name); err != nil {
			return err
		}
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		w.Hit++
		if err := victim.Thaw(); err != nil {
			return err
		}
	}
	return nil
}
