package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// failoverFaults returns the faults in which the primary is lost, stopped or demoted. In
// all but the last, its streaming standby takes over.
func failoverFaults() []Fault {
	// The processes are started once both servers exist.
	late := func(o *Options) {
		o.Relayers, o.Reapers, o.Wave, o.Callers, o.Rounds = 0, 0, 160, 6, 1
		o.HealWithin = time.Minute
	}
	return []Fault{
		{
			Name: "failover_async",
			About: "the standby stalls under load, the primary and one of two relayers die, the standby takes over: what " +
				"was acknowledged meanwhile is gone, and nothing is paid twice",
			Adjust: late, Inject: failoverAsync, Quiet: true,
		},
		{
			Name: "failover_sync",
			About: "the primary of a synchronous standby dies under load, with the standby streaming or stalled, and the " +
				"standby takes over: nothing is lost",
			Adjust: late, Inject: failoverSync, Quiet: true,
		},
		{
			Name: "failover_cancelled_wait",
			About: "the relayer's waits for a stalled synchronous standby are cancelled, which the server reports as " +
				"success, and then the standby takes over: nothing was sent on such a claim",
			// With few slots and quick callers, something is left to be claimed when nothing new
			// comes.
			Adjust: func(o *Options) { late(o); o.Concurrency, o.Pace = 1, time.Millisecond },
			Inject: failoverCancelled, Quiet: true,
		},
		{
			Name: "failover_switchover",
			About: "the primary is stopped in order, the standby takes over, and the old primary comes back at its address " +
				"as a standby",
			Adjust: late, Inject: switchover, Quiet: true,
		},
		{
			Name:  "primary_read_only",
			About: "the primary turns read-only under live connections, as one that was demoted behind its address (25006)",
			// With few slots and quick callers, something waits when it happens.
			Adjust: func(o *Options) { o.Wave, o.Rounds, o.Concurrency, o.Pace = 120, 2, 1, time.Millisecond },
			Inject: readOnlyPrimary,
		},
	}
}

// paired starts the pair of servers, the processes that connect to them, and traffic.
func (w *World) paired(ctx context.Context, relayers int) (*standby, error) {
	s, err := w.follow(ctx)
	if err != nil {
		return nil, err
	}
	w.Options.Relayers, w.Options.Reapers = relayers, 1
	for range relayers {
		if _, err := w.StartRelayer(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := w.StartReaper(ctx); err != nil {
		return nil, err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return nil, err
	}
	pause(ctx, time.Duration(300+w.draws.IntN(500))*time.Millisecond)
	// The rows of this snapshot must never be lost: the standby has to have them.
	if err := w.Snapshot(ctx); err != nil {
		return nil, err
	}
	var seen string
	if err := w.admin.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&seen); err != nil {
		return nil, err
	}
	return s, w.standbyHas(ctx, seen)
}

// dies kills the primary with all its processes, and promotes the standby.
func (w *World) dies(ctx context.Context, s *standby) (last time.Time, err error) {
	if err := w.Lane.Server.Kill9(); err != nil {
		return last, err
	}
	return w.promote(ctx, s)
}

func failoverAsync(ctx context.Context, w *World) error {
	s, err := w.paired(ctx, 2)
	if err != nil {
		return err
	}
	w.Injected++
	s.wire.Cut()
	pause(ctx, time.Duration(200+w.draws.IntN(600))*time.Millisecond)
	died := make(chan error, 1)
	go func() { died <- w.relayers[0].Kill() }() // its memory of answers is lost with the primary
	last, err := w.dies(ctx, s)
	if err := errors.Join(err, <-died); err != nil {
		return err
	}
	// What was acknowledged before the last commit that the standby had is still there. What
	// is acknowledged from now on is on the new server.
	w.windows = append(w.windows, Window{From: last, To: time.Now()})
	if err := w.heldUntilAccepted(ctx); err != nil {
		return err
	}
	facts, err := w.Facts(ctx)
	if err != nil {
		return err
	}
	w.Hit += Judge(facts).LostInWindow
	return nil
}

// backlog waits until at least n payments are pending, so that the next turns have
// something to claim.
func (w *World) backlog(ctx context.Context, n int) error {
	return await.Until(ctx, startedWithin, "payments to wait", func() (bool, error) {
		var waiting int
		err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_pending`).Scan(&waiting)
		return waiting >= n, err
	})
}

// paymentsHeard counts the sends that reached the banks.
func (w *World) paymentsHeard() (int, error) {
	n := 0
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		heard, err := bank.heard()
		if err != nil {
			return 0, err
		}
		for _, request := range heard {
			if request.Op == "payment" {
				n++
			}
		}
	}
	return n, nil
}

// heldUntilAccepted checks what has to follow a failover: only the lanes of rails that
// de-duplicate by key go on before an operator has accepted the server.
func (w *World) heldUntilAccepted(ctx context.Context) error {
	var since time.Time
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&since); err != nil {
		return err
	}
	return w.suspendedUntilAccepted(ctx, suspension{since: since, goOn: []string{Keyed, Asked}})
}

func switchover(ctx context.Context, w *World) error {
	s, err := w.paired(ctx, 1)
	if err != nil {
		return err
	}
	w.Injected++
	old := w.Lane.Server
	if err := old.Halt(ctx); err != nil {
		return err
	}
	if _, err := w.promote(ctx, s); err != nil {
		return err
	}
	// The old primary comes back at its address as a standby: a client that connects to it
	// first must go on to the other server.
	wire, err := NewWire("old", AnyPort, s.server.TCPAddr())
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func(context.Context) error { wire.Close(); return nil })
	if err := w.returns(ctx, old, wire); err != nil {
		return err
	}
	w.Hit++
	return w.heldUntilAccepted(ctx)
}

func readOnlyPrimary(ctx context.Context, w *World) error {
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		if err := w.backlog(ctx, 1+w.draws.IntN(16)); err != nil {
			return err
		}
		if err := w.readOnly(ctx, true); err != nil {
			return err
		}
		w.Injected++
		pause(ctx, time.Duration(1500+w.draws.IntN(2000))*time.Millisecond)
		pending, _, err := w.waiting(ctx)
		if err != nil {
			return err
		}
		// The fault was met if payments that should move could not.
		if pending > 0 {
			w.Hit++
		}
		if err := w.readOnly(ctx, false); err != nil {
			return err
		}
		begun := time.Now()
		if err := await.Until(ctx, 30*time.Second, "the relayer to be back", func() (bool, error) {
			now, err := w.beats(ctx, w.relayers[0].Name)
			return now.After(begun), err
		}); err != nil {
			w.Broken("30 s after the server could be written to again: %v", err)
		}
	}
	return nil
}

// readOnly makes the cell's tables refuse every write, or accept writes again. They
// refuse as a server does that was demoted, in open sessions too. The server's default
// alone would not: it does not apply to a transaction that says READ WRITE.
func (w *World) readOnly(ctx context.Context, on bool) error {
	const refuse = `
		CREATE OR REPLACE FUNCTION public.demoted() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = format('cannot execute %s in a read-only transaction', TG_OP);
		END $$`
	act := `CREATE OR REPLACE TRIGGER demoted BEFORE INSERT OR UPDATE
		OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION public.demoted()`
	if !on {
		act = `DROP TRIGGER IF EXISTS demoted ON %s`
	}
	// One table at a time: concurrent writers lock the tables in an order of their own.
	var tables []string
	err := w.admin.QueryRow(ctx, `
		SELECT array_agg(c.oid::regclass::text ORDER BY c.relname) FROM pg_class c
		WHERE c.relnamespace = '`+cell+`'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`).Scan(&tables)
	if err != nil {
		return fmt.Errorf("listing the tables: %w", err)
	}
	if err := w.Lane.exec(ctx, w.database, refuse); err != nil {
		return err
	}
	for _, table := range tables {
		var last error
		err := await.Until(ctx, startedWithin, "table "+table+" to be told", func() (bool, error) {
			last = w.Lane.exec(ctx, w.database, `SET lock_timeout = '2s'; `+fmt.Sprintf(act, table))
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%w (%w)", err, last)
		}
	}
	if on {
		return nil
	}
	return w.Lane.exec(ctx, w.database, `DROP FUNCTION public.demoted()`)
}
