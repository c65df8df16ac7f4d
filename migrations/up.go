package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/railhead-pay/railhead/internal/engine"
)

// OwnerRole owns all objects of a cell. No session logs in as it.
const OwnerRole = "railhead_owner"

// Step is the state of one migration on a cell.
type Step struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time // zero if not applied
	Took      time.Duration
}

// ErrNoOwner is returned if the roles were not created yet.
var ErrNoOwner = errors.New("role " + OwnerRole + " does not exist: run railhead roles apply first")

// ErrEncoding is returned for a new cell in a database whose encoding is not UTF8. A cell that is already in one is
// migrated.
var ErrEncoding = errors.New("the database can't have a new cell")

// Changes are the changes of Up to a cell.
type Changes struct {
	Steps []Step
	// Baselined is set if the cell was made by the files before the baseline, was equal to
	// the baseline, and is now marked as migrated to it.
	Baselined bool
	// Restored are the names of the functions that were missing or changed by hand and were
	// made anew, in alphabetical order.
	Restored []string
}

// Up migrates a cell to the newest version and returns the changes. It applies the missing
// migrations, each in a transaction of its own, and then restores functions that were
// changed by hand. If the cell has a newer migration, it returns ErrOtherSchema and changes
// nothing. If the cell was made by the files before the baseline and differs from it, it
// returns ErrNotBaseline. It returns outbox.ErrUnfitServer, before it creates anything, on a
// server that takes guards of the cell away, ErrEncoding for a new cell in a database whose encoding is not UTF8, and
// ErrOtherSchema, at the end, if triggers were disabled or dropped by hand.
//
// Concurrent calls wait for each other on goose's session lock, so Up is safe from any
// number of processes and while relayers run. The login must be allowed to become
// railhead_owner and, for a new cell, to create a schema.
//
// A try of a migration waits about a second for locks that other transactions hold, because all
// enqueues of the cell may wait behind it. Then it is rolled back, and repeated after a pause, for
// DefaultWithin; after that the error is a *LockedError.
func Up(ctx context.Context, config *pgx.ConnConfig, cell string) (Changes, error) {
	return UpWith(ctx, config, cell, Patience{})
}

// UpWith is Up that tries again for as long as it is told to.
func UpWith(ctx context.Context, config *pgx.ConnConfig, cell string, patience Patience) (Changes, error) {
	all, err := All(cell)
	if err != nil {
		return Changes{}, err
	}
	on, err := open(ctx, config, cell, all)
	if err != nil {
		return Changes{}, err
	}
	defer on.db.Close()
	on.patience.Waits = patience.Waits
	if patience.Within > 0 {
		on.patience.Within = patience.Within
	}
	var changes Changes
	on.doing = "the comparison with the baseline"
	err = on.persist(ctx, func() (bool, error) {
		changes.Baselined, err = on.adopt(ctx, cell)
		return false, err
	})
	if err != nil {
		return changes, err
	}
	err = on.persist(ctx, func() (bool, error) {
		taken, err := on.migrate(ctx)
		changes.Steps = append(changes.Steps, taken...)
		return len(taken) > 0, err
	})
	if err != nil {
		return changes, fmt.Errorf("migrating cell %s: %w", cell, explained(err))
	}
	// A crash here leaves a cell at the newest version, whose functions may have been changed
	// by hand: every process refuses it, and the next Up restores them.
	on.doing = "the restoring of functions"
	err = on.persist(ctx, func() (bool, error) {
		changes.Restored, err = on.restore(ctx, cell)
		return false, err
	})
	if err != nil {
		return changes, fmt.Errorf("restoring the functions of cell %s: %w", cell, err)
	}
	return changes, on.guarded(ctx, cell)
}

// migrate applies the missing migrations and returns those that it has applied, also with an error.
func (o *opened) migrate(ctx context.Context) ([]Step, error) {
	results, err := o.provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
	}
	var taken []Step
	for _, result := range results {
		taken = append(taken, Step{
			Version: result.Source.Version, Name: nameOf(o.all, result.Source.Version),
			Applied: true, AppliedAt: time.Now(), Took: result.Duration,
		})
	}
	return taken, err
}

// guarded returns ErrOtherSchema if a trigger that guards the cell was disabled or dropped by
// hand. Triggers are not restored: rows may have been changed without them, so a person has to
// look first.
func (o *opened) guarded(ctx context.Context, cell string) (err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(driver any) error {
		on, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver of the connection is %T", driver)
		}
		return checkGuards(ctx, on.Conn(), cell)
	})
}

// Status lists every migration of this build and whether the cell has it.
func Status(ctx context.Context, config *pgx.ConnConfig, cell string) ([]Step, error) {
	all, err := All(cell)
	if err != nil {
		return nil, err
	}
	on, err := open(ctx, config, cell, all)
	if err != nil {
		return nil, err
	}
	defer on.db.Close()
	statuses, err := on.provider.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the version of cell %s: %w", cell, err)
	}
	steps := make([]Step, 0, len(statuses))
	for _, status := range statuses {
		steps = append(steps, Step{
			Version: status.Source.Version, Name: nameOf(on.all, status.Source.Version),
			Applied: status.State == goose.StateApplied, AppliedAt: status.AppliedAt,
		})
	}
	return steps, nil
}

// opened is a connection to a cell as its owner.
type opened struct {
	db       *sql.DB
	provider *goose.Provider
	locker   lock.SessionLocker
	all      []Migration
	config   *pgx.ConnConfig
	patience Patience
	sessions *sessions
	doing    string // what is being done, for a Wait
}

// sessions are the sessions of the pool, by their process ids.
type sessions struct {
	mu   sync.Mutex
	pids []int32
}

func (s *sessions) add(pid int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids = append(s.pids, pid)
}

func (s *sessions) all() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pids)
}

// open connects as the owner and prepares goose. Each migration is one
// transaction; its own lock_timeout bounds its waits for locks.
func open(ctx context.Context, config *pgx.ConnConfig, cell string, all []Migration) (*opened, error) {
	on := &opened{all: all, config: config, patience: Patience{Within: DefaultWithin}, sessions: new(sessions)}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		pid, err := becomeOwner(ctx, conn, cell)
		on.sessions.add(pid)
		return err
	}))
	steps := make([]*goose.Migration, 0, len(all))
	for _, migration := range all {
		steps = append(steps, goose.NewGoMigration(migration.Version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				on.doing = migration.Name
				return apply(ctx, tx, migration)
			},
		}, nil))
	}
	store, err := database.NewStore(database.DialectPostgres, cell+".schema_migrations")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the version table: %w", err), db.Close())
	}
	// Wait for a concurrent migration for up to five minutes, with a try each second.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300), lock.WithUnlockTimeout(1, 30))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the migration lock: %w", err), db.Close())
	}
	provider, err := goose.NewProvider("", db, nil,
		goose.WithStore(store), goose.WithSessionLocker(locker),
		goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing migrations: %w", err), db.Close())
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to migrate: %w", err), db.Close())
	}
	on.db, on.provider, on.locker = db, provider, locker
	return on, nil
}

// becomeOwner creates the schema if it does not exist and sets the owner's role, so that the
// login that migrates owns nothing. It returns the process id of the session.
func becomeOwner(ctx context.Context, conn *pgx.Conn, cell string) (pid int32, _ error) {
	if err := engine.Check(ctx, conn, cell); err != nil {
		return 0, err
	}
	var ownerThere, schemaThere, cellThere, standby bool
	var quoted, encoding string
	// With quote_all_identifiers the check for words of SQL below would refuse every name.
	if _, err := conn.Exec(ctx, "SET quote_all_identifiers = off"); err != nil {
		return 0, fmt.Errorf("preparing to migrate: %w", err)
	}
	// So a deadlock ends the migration, which is repeated, and not a caller; and an autovacuum that
	// holds a lock ends at once. Only superusers may set it.
	if _, err := conn.Exec(ctx, "SET deadlock_timeout = '50ms'"); err != nil && !isForbidden(err) {
		return 0, fmt.Errorf("preparing to migrate: %w", err)
	}
	err := conn.QueryRow(ctx, `
		SELECT to_regrole($1) IS NOT NULL, to_regnamespace($2) IS NOT NULL,
			EXISTS (SELECT FROM pg_class WHERE relname = 'schema_migrations' AND relnamespace = to_regnamespace($2)),
			quote_ident($2), pg_is_in_recovery(),
			getdatabaseencoding()::text, pg_backend_pid()`, OwnerRole, cell).
		Scan(&ownerThere, &schemaThere, &cellThere, &quoted, &standby, &encoding, &pid)
	switch {
	case err != nil:
		return 0, fmt.Errorf("looking for the owner role: %w", err)
	case standby:
		return 0, errors.New("the server is a standby and can't be written to: name the primary, " +
			"or add target_session_attrs=read-write to the connection string")
	case !ownerThere:
		return 0, ErrNoOwner
	case quoted != cell:
		return 0, fmt.Errorf("%q can't name a cell: it is a word of SQL", cell)
	case !cellThere && encoding != "UTF8":
		return 0, fmt.Errorf("%w: its encoding is %s, which can't hold every text that callers and rails send; "+
			"make one for the cell: CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'", ErrEncoding, encoding)
	}
	if !schemaThere {
		_, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+cell+" AUTHORIZATION "+OwnerRole)
		if err != nil && !isRace(err) {
			return 0, fmt.Errorf("making schema %s: %w", cell, err)
		}
	}
	if _, err := conn.Exec(ctx, "SET ROLE "+OwnerRole); err != nil {
		return 0, fmt.Errorf("becoming %s (the login needs to be a superuser or an administrator): %w", OwnerRole, err)
	}
	return pid, nil
}

// settings are the settings of each transaction that changes a cell.
const settings = "SET LOCAL lock_timeout = '1s'; SET LOCAL check_function_bodies = off; " +
	"SET LOCAL timezone = 'UTC'; SET LOCAL standard_conforming_strings = on; " +
	"SET LOCAL search_path = pg_catalog, pg_temp"

func apply(ctx context.Context, tx *sql.Tx, migration Migration) error {
	if _, err := tx.ExecContext(ctx, settings); err != nil {
		return fmt.Errorf("preparing %s: %w", migration.Name, err)
	}
	return run(ctx, tx, migration.Name, migration.SQL)
}

func nameOf(all []Migration, version int64) string {
	for _, migration := range all {
		if migration.Version == version {
			return migration.Name
		}
	}
	return ""
}
