package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

func failoverSync(ctx context.Context, w *World) error {
	s, err := w.paired(ctx, 2)
	if err != nil {
		return err
	}
	if err := w.synchronous(ctx, []string{"on", "remote_apply"}[w.draws.IntN(2)]); err != nil {
		return err
	}
	// The callers of the earlier wave end first: what they are told is not counted.
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	before, err := w.acknowledged()
	if err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	w.Injected++
	after := before
	err = await.Until(ctx, startedWithin, "a caller of the wave to be told", func() (bool, error) {
		after, err = w.acknowledged()
		return after > before, err
	})
	if err != nil {
		return err
	}
	pause(ctx, time.Duration(w.draws.IntN(400))*time.Millisecond)
	if w.draws.IntN(2) == 0 {
		s.wire.Cut() // the standby stalls: from now on no commit is acknowledged
		pause(ctx, time.Duration(100+w.draws.IntN(300))*time.Millisecond)
	}
	w.Hit += after - before
	if _, err := w.dies(ctx, s); err != nil {
		return err
	}
	return w.heldUntilAccepted(ctx)
}

// synchronous makes every commit wait for the standby; how is the value of
// synchronous_commit.
func (w *World) synchronous(ctx context.Context, how string) error {
	for _, sql := range []string{
		"ALTER SYSTEM SET synchronous_commit = '" + how + "'", "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
		"SELECT pg_reload_conf()",
	} {
		if _, err := w.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return await.Until(ctx, startedWithin, "the standby to be synchronous", func() (bool, error) {
		var sync bool
		err := w.admin.QueryRow(ctx, `SELECT coalesce(bool_or(sync_state = 'sync'), false)
			FROM pg_stat_replication`).Scan(&sync)
		return sync, err
	})
}

// acknowledged counts the acknowledgements in the callers' journals.
func (w *World) acknowledged() (int, error) {
	n := 0
	for plan := 1; plan <= w.plans; plan++ {
		entries, err := readJournal(w.journal(plan))
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			if e.Kind == Ack {
				n++
			}
		}
	}
	return n, nil
}

func failoverCancelled(ctx context.Context, w *World) error {
	s, err := w.paired(ctx, 1)
	if err != nil {
		return err
	}
	if err := w.synchronous(ctx, "on"); err != nil {
		return err
	}
	// The wave is enqueued in one transaction: on a busy machine, callers are slower than
	// one slot.
	if _, err := w.TrafficAtOnce(w.Options.Wave); err != nil {
		return err
	}
	if err := w.backlog(ctx, 16); err != nil {
		return err
	}
	var cut time.Time
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&cut); err != nil {
		return err
	}
	s.wire.Cut()
	// Calls on claims that the standby has come to their end within the send budget. From
	// then on the banks must receive nothing new.
	pause(ctx, sendBudget)
	before, err := w.paymentsHeard()
	if err != nil {
		return err
	}
	until := time.Now().Add(4 * time.Second)
	for time.Now().Before(until) {
		var cancelled int
		if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM (SELECT pg_cancel_backend(pid) AS done FROM pg_stat_activity
		  WHERE wait_event = 'SyncRep' AND application_name = 'railhead-relayer' AND datname = current_database()) c
		  WHERE done`).Scan(&cancelled); err != nil {
			return err
		}
		w.Injected += cancelled
		pause(ctx, 20*time.Millisecond)
	}
	var claimed int
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_attempts a WHERE a.state = 'DISPATCHING'
	  AND a.claimed_at > $1`, cut).Scan(&claimed); err != nil {
		return err
	}
	w.Hit += min(w.Injected, claimed)
	after, err := w.paymentsHeard()
	if err != nil {
		return err
	}
	if after != before {
		w.Broken("%d payments were sent on claims that no standby had", after-before)
	}
	if _, err := w.dies(ctx, s); err != nil {
		return err
	}
	return w.heldUntilAccepted(ctx)
}
