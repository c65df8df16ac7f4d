package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lockFaults returns the faults that withhold from the installation what it needs of the
// server: a table, connections, rows that can be claimed.
func lockFaults() []Fault {
	return []Fault{
		{
			Name: "pending_locked", About: "another session holds an exclusive lock on pending for seconds: no attempt is burnt",
			Inject: lockPending,
		},
		{
			Name: "connections_exhausted", About: "others hold every connection of the server while the relayer needs new ones",
			Adjust: func(o *Options) { o.Rounds = 1 }, Inject: exhaust,
		},
		{
			Name: "poison_rows", About: "rows that can't be claimed stand first in every lane: their neighbours go through, " +
				"they wait for an operator",
			Adjust: func(o *Options) { o.Rounds = 1 }, Inject: poison, Quiet: true,
		},
	}
}

func lockPending(ctx context.Context, w *World) error {
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		w.Injected++
		if err := w.locked(ctx, time.Duration(1500+w.draws.IntN(2000))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// locked holds an exclusive lock on pending, and checks that no claim is added to the
// archive meanwhile.
func (w *World) locked(ctx context.Context, lasting time.Duration) error {
	conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, ""))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE `+cell+`.payment_outbox_pending IN ACCESS EXCLUSIVE MODE`); err != nil {
		return err
	}
	const claims = `SELECT count(*) FROM ` + cell + `.payment_outbox_attempts WHERE state IN ('DISPATCHING', 'INQUIRING')`
	var before, after, blocked int
	if err := tx.QueryRow(ctx, claims).Scan(&before); err != nil {
		return err
	}
	for end := time.Now().Add(lasting); time.Now().Before(end); pause(ctx, 100*time.Millisecond) {
		var now int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE NOT granted
			AND relation = '`+cell+`.payment_outbox_pending'::regclass`).Scan(&now); err != nil {
			return err
		}
		blocked = max(blocked, now)
	}
	if err := tx.QueryRow(ctx, claims).Scan(&after); err != nil {
		return err
	}
	if after != before {
		w.Broken("%d claims were made while pending was locked", after-before)
	}
	if blocked > 0 {
		w.Hit++
	}
	return tx.Commit(ctx)
}

// exhaust fills the server with idle sessions and then ends sessions of the installation,
// which has to reconnect and can't.
func exhaust(ctx context.Context, w *World) error {
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	var held []*pgx.Conn
	defer func() {
		for _, conn := range held {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	w.Injected++
	refused := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, loginReadonly))
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "53300" {
			refused++
			if err := w.killBackend(ctx); err != nil {
				return err
			}
			pause(ctx, 50*time.Millisecond)
			continue
		}
		if err != nil {
			return fmt.Errorf("filling the server: %w", err)
		}
		held = append(held, conn)
	}
	w.Injected, w.Hit = 1, refused
	return w.Snapshot(ctx)
}

// poison corrupts one waiting row of each rail: its next number does not fit into its
// type, so that no claim of it ever succeeds.
func poison(ctx context.Context, w *World) error {
	orders := w.Options.Wave
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_rails SET paused = true, paused_by = 'proof', paused_at = now(), pause_reason = 'poison'
	  WHERE rail_type = '*'`); err != nil {
		return err
	}
	if _, err := w.Traffic(orders); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_outbox_pending p
		SET attempt_count = 2147483647, priority = 0,
	  next_attempt_at = p.next_attempt_at - interval '1 hour'
	  WHERE p.outbox_id IN (SELECT DISTINCT ON (rail_type) outbox_id FROM `+cell+`.payment_outbox_pending
	  ORDER BY rail_type, outbox_id)`); err != nil {
		return err
	}
	w.Injected = len(w.Options.Rails)
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_rails SET paused = false
		WHERE rail_type = '*'`); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("rows that can't be claimed hold up their neighbours: %v", err)
	}
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_dead_letters
		WHERE reason = 'UNCLAIMABLE'`).Scan(&w.Hit); err != nil {
		return err
	}
	// The proofs would rightly report the rows that were corrupted here.
	return w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_outbox_pending SET attempt_count = 0
		WHERE attempt_count = 2147483647`)
}
