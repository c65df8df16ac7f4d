package ha

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/testbed/faults"
)

// wholeWithin bounds how long three hosts may take to be well again.
const wholeWithin = 2 * time.Minute

// breakOnce breaks the cell, sees that it goes on, acts as the operator, and mends it.
func (r *run) breakOnce(ctx context.Context, n int, b breakage) error {
	var primary, standby *host
	if err := r.until(ctx, wholeWithin, "a primary, a synchronous standby and a third host", func() (ok bool, err error) {
		primary, standby, ok = r.hosts.whole(ctx)
		return ok, nil
	}); err != nil {
		return err
	}
	if r.leader != nil && primary != r.leader {
		r.w.Broken("%s led, was not broken, and lost its place to %s", r.leader.name, primary.name)
	}
	// Traffic flows, and what is in the archive now must be there at the end.
	if err := r.feedFor(ctx, time.Duration(1000+r.w.Draws().IntN(2000))*time.Millisecond); err != nil {
		return err
	}
	if err := r.w.Snapshot(ctx); err != nil {
		return err
	}
	struck := time.Now()
	r.w.Injected++
	from, err := b.strike(ctx, r, primary)
	if err != nil {
		return err
	}
	if from.IsZero() {
		from = struck
	}
	leader, err := r.successor(ctx, b, primary, standby)
	if err != nil {
		return err
	}
	led := time.Now()
	r.leader = leader
	unavailable, paid, err := r.recovered(ctx, from, led)
	if err != nil {
		return err
	}
	r.report.Unavailable, r.report.Paid = append(r.report.Unavailable, unavailable), append(r.report.Paid, paid)
	if b.watch != nil {
		if err := b.watch(ctx, r, primary); err != nil {
			return err
		}
	}
	if err := r.w.Reconnect(ctx); err != nil {
		return err
	}
	if err := r.held(ctx, led); err != nil {
		return err
	}
	if err := b.undo(ctx, r, primary); err != nil {
		return err
	}
	if err := r.accept(ctx); err != nil {
		return err
	}
	r.say("%2d of %d: %s (%s): %s leads after %s, no writes for %s, paid after %s", n, r.Failovers, b.name, primary.name,
		leader.name, tenth(led.Sub(from)), tenth(unavailable), tenth(paid))
	return nil
}

// successorWithin bounds how long the hosts may take to agree on another primary. It is
// longer than what is promised, so that a run that misses its bound has a figure.
const successorWithin = 2 * time.Minute

// successor waits for the new primary, which must be the host that had every commit.
func (r *run) successor(ctx context.Context, b breakage, old, standby *host) (leader *host, err error) {
	err = r.until(ctx, successorWithin, "another primary", func() (bool, error) {
		for _, one := range r.hosts.primaries(ctx) {
			if one != old || b.same {
				leader = one
			}
		}
		return leader != nil, nil
	})
	if err != nil {
		return nil, err
	}
	if leader != standby && (leader != old || !b.same) {
		r.w.Broken("%s was promoted, which was not the synchronous standby: that was %s", leader.name, standby.name)
	}
	return leader, nil
}

// recovered waits until the new primary has acknowledged a call, and until a bank has
// executed a payment that was called for only when it led. The cell was unavailable for the
// longest time without an acknowledgement: an old primary may have gone on for a while.
func (r *run) recovered(ctx context.Context, from, led time.Time) (unavailable, paid time.Duration, err error) {
	err = r.until(ctx, successorWithin, "a call to be acknowledged", func() (ok bool, err error) {
		recent, err := r.w.Since(from)
		unavailable, ok = longest(from, led, recent.Acknowledged)
		return ok, err
	})
	if err != nil {
		return 0, 0, err
	}
	err = r.until(ctx, successorWithin, "a payment to be executed", func() (bool, error) {
		recent, err := r.w.Since(led)
		if err != nil {
			return false, err
		}
		at, err := r.w.FirstExecuted(recent)
		paid = at.Sub(from)
		return !at.IsZero(), err
	})
	return unavailable, paid, err
}

// longest returns the longest time without an acknowledgement, from a moment until the
// first one of a new primary; ok is false if there is none yet.
func longest(from, led time.Time, acknowledged []time.Time) (gap time.Duration, ok bool) {
	last := from
	for _, at := range slices.SortedFunc(slices.Values(acknowledged), time.Time.Compare) {
		gap = max(gap, at.Sub(last))
		if last = at; at.After(led) {
			return gap, true
		}
	}
	return gap, false
}

// heldFor is how long the lanes that have to wait are watched.
const heldFor = 3 * time.Second

// held checks that the services have noticed the new timeline, and that no lane of a rail
// moves that does not de-duplicate.
func (r *run) held(ctx context.Context, led time.Time) error {
	var cause string
	err := r.until(ctx, time.Minute, "the suspension", func() (bool, error) {
		err := r.w.Admin().QueryRow(ctx, `SELECT coalesce(max(cause), '') FROM railhead.payment_outbox_suspensions
			WHERE accepted_at IS NULL`).Scan(&cause)
		return err == nil && cause != "", nil
	})
	if err != nil {
		r.w.Broken("after a failover: %v", err)
		return nil
	}
	if cause != "NEW_TIMELINE" {
		r.w.Broken("after a failover the lanes are suspended as %s", cause)
	}
	if err := r.feedFor(ctx, heldFor); err != nil {
		return err
	}
	var claimed, waiting int
	err = r.ask(ctx, `SELECT
	  (SELECT count(*) FROM railhead.payment_outbox_attempts WHERE rail_type = ANY($1) AND state IN ('DISPATCHING', 'INQUIRING')
	    AND claimed_at > $2),
	  (SELECT count(*) FROM railhead.payment_outbox_pending WHERE rail_type = ANY($1))`,
		[]any{[]string{faults.Bare, faults.BareAsked}, led}, &claimed, &waiting)
	if err != nil {
		return err
	}
	if claimed > 0 || waiting == 0 {
		r.w.Broken("%d claims of rails that do not de-duplicate before the timeline was accepted; %d payments wait",
			claimed, waiting)
	}
	return nil
}

// ask reads one row as the oracle, and tries again where the session was ended.
func (r *run) ask(ctx context.Context, sql string, arguments []any, into ...any) error {
	var last error
	err := r.until(ctx, acceptWithin, "the database to be read", func() (bool, error) {
		last = r.w.Admin().QueryRow(ctx, sql, arguments...).Scan(into...)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// acceptWithin bounds how long the operator tries. On a busy machine HAProxy may take a
// primary for lost that is slow, and end a session of the operator.
const acceptWithin = 2 * time.Minute

// accept compares with the banks as the operator does, and accepts the server. Nothing is
// forgotten, so nothing that waits was sent.
func (r *run) accept(ctx context.Context) error {
	forgotten := make(map[string]bool)
	var last error
	err := r.until(ctx, acceptWithin, "the operator to accept the server", func() (bool, error) {
		var open int
		if last = r.w.Admin().QueryRow(ctx, `SELECT count(*) FROM railhead.payment_outbox_suspensions
			WHERE accepted_at IS NULL`).Scan(&open); last != nil || open == 0 {
			return last == nil, nil
		}
		var ids []string
		ids, last = r.w.Reconcile(ctx)
		for _, id := range ids {
			forgotten[id] = true
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	for id := range forgotten {
		r.w.Broken("%s waits as one that was never sent, and a bank has executed it", id)
	}
	return nil
}

// spoilBanks has the banks lose a twentieth of their answers.
func (r *run) spoilBanks(ctx context.Context) error {
	for _, bank := range []*faults.Bank{r.w.Dedupes, r.w.Bare} {
		if err := bank.Spoil(ctx, railsim.Fault{Kind: railsim.DropAfter, Probability: 0.05}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) spoilNoMore(ctx context.Context) error {
	for _, bank := range []*faults.Bank{r.w.Dedupes, r.w.Bare} {
		if err := bank.Spoil(ctx); err != nil {
			return err
		}
	}
	return nil
}
