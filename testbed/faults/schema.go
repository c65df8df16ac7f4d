package faults

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// schemaFaults returns the faults that change what the rows are stored in, under traffic.
func schemaFaults() []Fault {
	return []Fault{
		{
			Name: "partition_missing", About: "the archive has no partition for this month: DEFAULT takes the rows, and " +
				"becomes a partition when the reaper sees it",
			Adjust: func(o *Options) { o.Rounds = 1 }, Quiet: true, Inject: missPartition,
		},
		{
			Name: "migration_under_traffic", About: "schema and grants are brought up to date again and again, columns and " +
				"an index come, and relayers of another build take over one by one",
			Adjust: func(o *Options) { o.Relayers, o.Wave = 2, 60 }, Inject: migrateUnderTraffic,
		},
		{
			Name: "held_snapshot", About: "a snapshot is held while 20,000 rows of pending die: claims do not crawl over " +
				"what can't be cleaned up",
			Adjust: func(o *Options) { o.Rounds = 1; o.Rails = []string{Keyed}; o.Wave = 200; o.Callers = 8; o.Pace = 0 },
			Quiet:  true, Inject: holdSnapshot,
		},
	}
}

func missPartition(ctx context.Context, w *World) error {
	var names []string
	if err := w.admin.QueryRow(ctx, `SELECT array_agg(c.relname ORDER BY c.relname) FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid
	  WHERE i.inhparent = '`+cell+`.payment_outbox_attempts'::regclass
	  AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'`).Scan(&names); err != nil {
		return err
	}
	for _, name := range names {
		table := pgx.Identifier{cell, name}.Sanitize()
		if err := w.Lane.exec(ctx, w.database, "DROP TABLE "+table); err != nil {
			return err
		}
		w.Injected++
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("without a partition: %v", err)
		return nil
	}
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_attempts_default`).Scan(&w.Hit); err != nil {
		return err
	}
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	// A reaper looks after partitions when it starts, and every hour.
	if err := w.reapers[0].retire(0); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if _, err := w.StartReaper(ctx); err != nil {
		return err
	}
	err := await.Until(ctx, 15*time.Second, "the rows of DEFAULT to have a partition of their own", func() (bool, error) {
		var left, partitions int
		err := w.admin.QueryRow(ctx, `SELECT (SELECT count(*) FROM `+cell+`.payment_outbox_attempts_default),
		  (SELECT count(*) FROM pg_inherits i
		  WHERE i.inhparent = '`+cell+`.payment_outbox_attempts'::regclass)`).Scan(&left, &partitions)
		return left == 0 && partitions >= len(names), err
	})
	if err != nil {
		w.Broken("%v", err)
	}
	return nil
}

func migrateUnderTraffic(ctx context.Context, w *World) error {
	// Another build of the same source, as the next version would be: other bytes,
	// other process, same installation.
	next := filepath.Join(w.dir, "railhead-next")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags", "faultpoint", "-ldflags=-s", "-o",
		next, "./cmd/railhead")
	command.Dir = w.Lane.built.root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the next version: %w\n%s", err, output)
	}
	built := w.Lane.built
	changes := []string{
		"ALTER TABLE %[1]s.payment_outbox_pending ADD COLUMN of_next_version text",
		"ALTER TABLE %[1]s.payment_outbox_attempts ADD COLUMN of_next_version text",
		"CREATE INDEX CONCURRENTLY of_next_version ON %[1]s.payment_outbox_keys (participant_id, created_at)",
		"ALTER TABLE %[1]s.payment_outbox_attempts DROP COLUMN of_next_version",
		"ALTER TABLE %[1]s.payment_outbox_pending DROP COLUMN of_next_version",
		"DROP INDEX %[1]s.of_next_version",
	}
	for n, change := range changes {
		if n%2 == 0 {
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
		}
		w.Injected++
		if err := w.patiently(ctx, fmt.Sprintf(change, cell)); err != nil {
			return err
		}
		if err := blowMigrate(ctx, w); err != nil {
			return err
		}
		w.Hit++
		if n >= len(w.relayers) || n >= 2 {
			continue
		}
		// A rolling restart: old and new work side by side meanwhile.
		w.Lane.built.Railhead = next
		_, err := w.StartRelayer(ctx)
		w.Lane.built = built
		if err != nil {
			return err
		}
		if err := w.relayers[n].retire(w.Options.Drain); err != nil {
			return err
		}
	}
	return w.Snapshot(ctx)
}

// patiently changes the schema as a migration does: it waits only briefly for its lock,
// and tries again.
func (w *World) patiently(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, w.Lane.Server.URL(w.database, ""))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SET lock_timeout = '300ms'"); err != nil {
		return err
	}
	var last error
	err = await.Until(ctx, 20*time.Second, "a lock for "+sql, func() (bool, error) {
		_, last = conn.Exec(ctx, sql)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return nil
}

// crawlSlack is how long the machine, which is shared, may stall. Beyond it, claims may
// take twice the time that they take without dead rows.
const crawlSlack = time.Second

func holdSnapshot(ctx context.Context, w *World) error {
	before, err := w.claimed(ctx)
	if err != nil {
		return err
	}
	tx, err := w.admin.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_pending`); err != nil {
		return err
	}
	if err := w.Operate(ctx, "rail", "pause", Keyed, "--reason", "held snapshot"); err != nil {
		return err
	}
	if err := w.enqueueTogether(ctx, Keyed, w.Options.Wave); err != nil {
		return err
	}
	for range 20_000 / w.Options.Wave {
		tag, err := w.admin.Exec(ctx, `UPDATE `+cell+`.payment_outbox_pending SET next_attempt_at = clock_timestamp()`)
		if err != nil {
			return err
		}
		w.Injected += int(tag.RowsAffected())
	}
	if err := w.Operate(ctx, "rail", "resume", Keyed, "--reason", "held snapshot"); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("during a held snapshot: %v", err)
		return nil
	}
	after, err := w.claimed(ctx)
	if err != nil {
		return err
	}
	w.Hit = w.Options.Wave
	if after > 2*before+crawlSlack {
		w.Broken("the p99 from enqueue to claim is %s, and %s with %d dead rows", before, after, w.Injected)
	}
	return nil
}

// claimed returns the 99th percentile of the time from enqueue to claim of a wave that is
// enqueued in one transaction.
func (w *World) claimed(ctx context.Context) (time.Duration, error) {
	var since time.Time
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&since); err != nil {
		return 0, err
	}
	if err := w.enqueueTogether(ctx, Keyed, w.Options.Wave); err != nil {
		return 0, err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		return 0, err
	}
	var seconds float64
	err := w.admin.QueryRow(ctx, `SELECT coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY
		extract(epoch FROM a.claimed_at - k.created_at)), 0)
	  FROM `+cell+`.payment_outbox_keys k
	  JOIN `+cell+`.payment_outbox_attempts a ON a.outbox_id = k.outbox_id AND a.attempt_no = 1
	  WHERE k.created_at > $1`, since).Scan(&seconds)
	return time.Duration(seconds * float64(time.Second)), err
}
