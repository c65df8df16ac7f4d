package alertdrill

import (
	"context"
	"errors"
	"fmt"
)

// databaseFaults returns the faults of the database and of its disk.
func databaseFaults() []fault {
	return []fault{
		{
			name: "RailheadHeldSnapshot", about: "a session holds a snapshot open", wants: ticket("RailheadHeldSnapshot"),
			inject: holdSnapshot,
			heal:   func(context.Context, *world) error { return nil }, // the runbook's command ends the session
		},
		{
			name: "RailheadEventsHeld", about: "a session leaves a transaction open that has written",
			wants:  ticket("RailheadEventsHeld"),
			inject: holdEvents,
			heal:   func(context.Context, *world) error { return nil }, // the runbook's command ends the session
		},
		{
			name: "RailheadWraparoundNear", about: "a second cell, on a server that has numbered 1.7 billion transactions " +
				"and never frozen any", wants: []string{"RailheadWraparoundNear/ticket", "RailheadWraparoundNear/page"},
			inject: func(ctx context.Context, w *world) ([]string, error) { return nil, w.startWorn(ctx) },
			heal:   func(ctx context.Context, w *world) error { return w.freeze(ctx) },
		},
		{
			name: "RailheadPartitionsRunningOut", about: "the reaper is stopped, and the empty partitions of the months to " +
				"come are dropped", wants: ticket("RailheadPartitionsRunningOut"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				return nil, errors.Join(w.stop("reaper"), w.dropMonthsAhead(ctx))
			},
			heal: func(ctx context.Context, w *world) error { return w.start(ctx, "reaper") },
		},
		{
			name: "RailheadDatabaseNearFull", about: fmt.Sprintf("the limit is %d MiB, and a table fills it up",
				sizeLimit>>20), wants: page("RailheadDatabaseNearFull"),
			inject: func(ctx context.Context, w *world) ([]string, error) {
				_, err := w.admin.Exec(ctx, `CREATE UNLOGGED TABLE public.filler AS
				  SELECT repeat(md5(g::text), 28) AS filler FROM generate_series(1, 240000) g`)
				return nil, err
			},
			heal: func(ctx context.Context, w *world) error {
				_, err := w.admin.Exec(ctx, `DROP TABLE public.filler`)
				return err
			},
		},
		{
			// Once the cell is one of several, it stays one.
			name: "RailheadCellTakesNothing", about: "the cell learns of a second one, which can't be reached, and was never " +
				"compared with it", wants: page("RailheadCellTakesNothing"),
			inject: joinDirectory,
			heal: func(ctx context.Context, w *world) error {
				_, err := w.shell(ctx, []string{"RAILHEAD_OPERATOR_URL_OWN=" + w.url("operator")},
					"railhead cell sync --without other --reason 'a run of the alerts' || test $? = 8") // a cell is away
				return err
			},
		},
		{
			name: "RailheadBucketsUntaken", about: "a move of a bucket without participants to another cell is begun, and its " +
				"command killed", wants: page("RailheadBucketsUntaken"),
			inject: beginMove,
			heal: func(ctx context.Context, w *world) error {
				_, err := w.admin.Exec(ctx, `SELECT `+cell+`.thaw_bucket(b.bucket, 'a run of the alerts')
					FROM `+cell+`.payment_buckets b WHERE b.leaving = b.version + 1`)
				return err
			},
		},
		{
			// This fault comes last: for a day after it no send counts as a first one, and no bucket may leave.
			name: "RailheadSuspensionOpen", about: "a suspension is opened, as by a component that misses rows",
			wants:  page("RailheadSuspensionOpen"),
			inject: openSuspension,
			heal:   func(context.Context, *world) error { return nil }, // the runbook's command ends it
		},
	}
}

// openSuspension opens a suspension. Where other cells are known, its map is compared without them, as the runbook's
// command wants it: none of them can be reached.
func openSuspension(ctx context.Context, w *world) ([]string, error) {
	_, err := w.admin.Exec(ctx, `SELECT `+cell+`.suspend_outbox('alerts', 'ROWS_MISSING', 'a run of the alerts', clock_timestamp())`)
	if err != nil {
		return nil, err
	}
	var since, others string
	err = w.admin.QueryRow(ctx, `SELECT to_json(s.opened_at) #>> '{}',
	    coalesce((SELECT string_agg(c.name, ',') FROM `+cell+`.payment_cells c WHERE NOT c.here), '')
	  FROM `+cell+`.payment_outbox_suspensions s WHERE s.accepted_at IS NULL`).Scan(&since, &others)
	if err == nil && others != "" {
		_, err = w.shell(ctx, []string{"RAILHEAD_OPERATOR_URL_OWN=" + w.url("operator")},
			"railhead cell sync --without "+others+" --reason 'a run of the alerts' || test $? = 8")
	}
	return []string{"SINCE=" + since}, err
}

// beginMove does the first step of railhead cell move.
func beginMove(ctx context.Context, w *world) ([]string, error) {
	if _, err := joinWith(ctx, w, "third"); err != nil {
		return nil, err
	}
	_, err := w.shell(ctx, []string{"RAILHEAD_OPERATOR_URL_OWN=" + w.url("operator")},
		"railhead cell sync --without other,third --reason 'a run of the alerts' || "+
			"railhead cell sync --without third --reason 'a run of the alerts' || test $? = 8") // they are away
	if err == nil {
		_, err = w.admin.Exec(ctx, `SELECT `+cell+`.freeze_bucket(b.bucket, 'third', 'a run of the alerts')
			FROM `+cell+`.payment_buckets b
			WHERE NOT EXISTS (
			  SELECT FROM `+cell+`.participant_outbox_sequences s WHERE `+cell+`.cell_bucket(s.participant_id) = b.bucket)
			ORDER BY b.bucket LIMIT 1`)
	}
	return nil, err
}

// joinDirectory makes the cell the first one of a directory, and lets it know a second one.
func joinDirectory(ctx context.Context, w *world) ([]string, error) { return joinWith(ctx, w, "other") }

func joinWith(ctx context.Context, w *world, name string) ([]string, error) {
	_, err := w.admin.Exec(ctx, `SELECT `+cell+`.learn_cells(d.id, jsonb_build_array(jsonb_build_object('name', $2::text, 'cell_id',
	    gen_random_uuid(), 'setting', upper($2::text), 'cell_schema', $1, 'rail_key_namespace', s.rail_key_namespace,
	    'joined_with', s.rail_key_namespace, 'reason', 'a run of the alerts', 'added_by', 'alerts', 'added_at', now())), '[]')
	  FROM `+cell+`.payment_outbox_settings s, `+cell+`.name_cell('own', 'OWN', $1, 'a run of the alerts') AS d (id)`, cell, name)
	return nil, err
}

func holdSnapshot(ctx context.Context, w *world) ([]string, error) {
	conn, err := w.admin.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	w.closing = append(w.closing, conn.Release)
	if _, err := conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return nil, err
	}
	var pid int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid() FROM `+cell+`.payment_rails LIMIT 1`).Scan(&pid); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("PID=%d", pid)}, nil
}

// holdEvents opens a transaction that has an id, and no snapshot that vacuum would wait for.
func holdEvents(ctx context.Context, w *world) ([]string, error) {
	conn, err := w.admin.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	w.closing = append(w.closing, conn.Release)
	if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
		return nil, err
	}
	var pid int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid() WHERE pg_current_xact_id() IS NOT NULL`).Scan(&pid); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("PID=%d", pid)}, nil
}

func (w *world) dropMonthsAhead(ctx context.Context) error {
	rows, err := w.admin.Query(ctx, `SELECT i.inhrelid::regclass::text
	  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	  WHERE i.inhparent = '`+cell+`.payment_outbox_attempts'::regclass
	    AND c.relname > 'payment_outbox_attempts_' || to_char(now() AT TIME ZONE 'UTC', '"y"YYYY"m"MM')
	    AND c.relname ~ '_y[0-9]{4}m[0-9]{2}$'`)
	if err != nil {
		return err
	}
	names, err := collect(rows)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("no partition is ahead of this month")
	}
	for _, name := range names {
		if _, err := w.admin.Exec(ctx, `DROP TABLE `+name); err != nil {
			return err
		}
	}
	return nil
}
