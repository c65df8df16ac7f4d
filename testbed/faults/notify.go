package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifyFaults returns the faults of the notifier. Its notifications may be lost and
// forged, and that must have no effect on payments.
func notifyFaults() []Fault {
	return []Fault{
		{
			Name: "notification_lost", About: "no notifier notifies: the poll finds everything",
			Adjust: func(o *Options) { o.Poll = 300 * time.Millisecond }, Inject: loseNotifications, Quiet: true,
		},
		{
			Name: "notification_storm", About: "a login that may only read forges thousands of notifications a second",
			Adjust: func(o *Options) { o.Rounds = 4 }, Inject: storm,
		},
	}
}

func loseNotifications(ctx context.Context, w *World) error {
	if err := w.Lane.exec(ctx, w.database, `ALTER TABLE `+cell+`.payment_outbox_pending DISABLE TRIGGER payment_outbox_pending_notify`); err != nil {
		return err
	}
	for range w.Options.Rounds {
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		if err := w.AwaitCallers(ctx); err != nil {
			return err
		}
		if _, err := w.AwaitRest(ctx); err != nil {
			return err
		}
	}
	var slowest time.Duration
	if err := w.admin.QueryRow(ctx, `SELECT count(*), max(a.claimed_at - k.created_at)
	  FROM `+cell+`.payment_outbox_keys k
	  JOIN `+cell+`.payment_outbox_attempts a ON a.outbox_id = k.outbox_id
	  AND a.attempt_no = 1`).Scan(&w.Hit, &slowest); err != nil {
		return err
	}
	// The machine is shared: it may stall for 2 s.
	if slowest > w.Options.Poll+2*time.Second {
		w.Broken("without a notifier an instruction waited %s, the poll is every %s", slowest, w.Options.Poll)
	}
	return w.Lane.exec(ctx, w.database, `ALTER TABLE `+cell+`.payment_outbox_pending ENABLE TRIGGER payment_outbox_pending_notify`)
}

// commitsMax is the most transactions a second that an installation may make under a
// storm of notifications: turns keep their pace.
const commitsMax = 300

func storm(ctx context.Context, w *World) error {
	conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, loginReadonly))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	before, err := w.commits(ctx)
	if err != nil {
		return err
	}
	begun, forged := time.Now(), 0
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		for end := time.Now().Add(time.Second); time.Now().Before(end); forged++ {
			if _, err := conn.Exec(ctx, `SELECT pg_notify($1, 'storm ' || i) FROM generate_series(1, 500) i`, cell+".outbox_pending"); err != nil {
				return err
			}
			w.Injected += 500
		}
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	after, err := w.commits(ctx)
	if err != nil {
		return err
	}
	if rate := float64(after-before-int64(forged)) / time.Since(begun).Seconds(); rate > commitsMax {
		w.Broken("under a storm of notifications the installation made %.0f transactions a second", rate)
	}
	w.Hit = w.Injected
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("under a storm of notifications: %v", err)
	}
	return nil
}

func (w *World) commits(ctx context.Context) (int64, error) {
	var n int64
	err := w.admin.QueryRow(ctx, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
	return n, err
}
