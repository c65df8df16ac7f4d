// Package engine refuses servers on which a cell would lose guards: databases that speak
// PostgreSQL's protocol and are not PostgreSQL, tables whose rows are elsewhere, sessions
// without triggers, and poolers that spread a transaction over several sessions.
//
// docs/scale.md lists what a cell needs of its server, and which engines have it.
package engine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

//go:embed facts.sql
var factsSQL string

// Conn is the part of a connection that Check uses: no transaction may be open on it.
type Conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// likenesses are engines that speak PostgreSQL's protocol, by what their version() contains,
// and which of the needs in docs/scale.md their documentation does not promise.
var likenesses = []struct{ mark, name, lacks string }{
	{"CockroachDB", "CockroachDB", "LISTEN and NOTIFY, by which payments are noticed, and advisory locks, " +
		"by which two migrations are kept apart"},
	{"-YB-", "YugabyteDB", "one server with one log, by which a database that went back in time is noticed"},
	{"Greenplum", "Greenplum", "one server with one log, by which a database that went back in time is noticed, " +
		"and triggers on distributed tables"},
	{"Redshift", "Amazon Redshift", "triggers and unique indexes, which guard the archive and keys"},
	{"RisingWave", "RisingWave", "triggers and unique indexes, which guard the archive and keys"},
	{"Materialize", "Materialize", "triggers and unique indexes, which guard the archive and keys"},
	{"QuestDB", "QuestDB", "triggers and unique indexes, which guard the archive and keys"},
	{"CrateDB", "CrateDB", "transactions and triggers, which guard everything"},
}

// Check returns outbox.ErrUnfitServer, with the guard that would be missing, unless the connection leads
// to a PostgreSQL on which the guards of the cell work. The cell need not exist. It reads
// within one transaction, which it rolls back: four round trips.
func Check(ctx context.Context, on Conn, cell string) (err error) {
	tx, err := on.Begin(ctx)
	if err != nil {
		return beginError(err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }() // without its time the connection is closed
	var version string
	var began time.Time
	// An engine that is not PostgreSQL may refuse the statement after this one.
	if err := tx.QueryRow(ctx, "SELECT version(), transaction_timestamp()").Scan(&version, &began); err != nil {
		return fmt.Errorf("reading the version of the server: %w", err)
	}
	for _, likeness := range likenesses {
		if strings.Contains(version, likeness.mark) {
			return fmt.Errorf("%w: it is %s, which is not PostgreSQL and lacks %s",
				outbox.ErrUnfitServer, likeness.name, likeness.lacks)
		}
	}
	if !strings.HasPrefix(version, "PostgreSQL ") {
		return fmt.Errorf("%w: it calls itself %.100q and not PostgreSQL, so nothing is known of triggers and locks on it",
			outbox.ErrUnfitServer, version)
	}
	// Only what is exactly PostgreSQL's was called until now.
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = pg_catalog, pg_temp"); err != nil {
		return fmt.Errorf("setting the search_path: %w", err)
	}
	var facts struct {
		role      string
		there     bool
		shards    bool
		began     time.Time
		elsewhere *string
	}
	err = tx.QueryRow(ctx, factsSQL, cell).Scan(&facts.role, &facts.there, &facts.shards, &facts.began, &facts.elsewhere)
	switch {
	case err != nil:
		return fmt.Errorf("reading what the server says of itself: %w", err)
	case !facts.began.Equal(began):
		return fmt.Errorf("%w: two statements of one transaction were executed in two: "+
			"a pooler in between gives each statement a session, so a claim and its record are not one; "+
			"connect without it, or in its transaction mode", outbox.ErrUnfitServer)
	case facts.role == "replica":
		return fmt.Errorf("%w: session_replication_role is replica for this login, so ordinary triggers do not fire "+
			"and foreign keys are not checked: reset it", outbox.ErrUnfitServer)
	case facts.elsewhere != nil:
		return fmt.Errorf("%w: table %s", outbox.ErrUnfitServer, *facts.elsewhere)
	case !facts.there && facts.shards:
		return fmt.Errorf("%w: citus.enable_schema_based_sharding is on, so a new cell would be distributed by Citus, "+
			"whose triggers do not reach the shards, where the rows are: set it to off for this login", outbox.ErrUnfitServer)
	}
	return nil
}

// beginError explains why no transaction could begin.
func beginError(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && strings.Contains(refused.Message, "statement pooling") {
		return fmt.Errorf("%w: the pooler in between is in statement mode, which knows no transactions (%s): "+
			"connect without it, or set its pool_mode to transaction", outbox.ErrUnfitServer, refused.Message)
	}
	return fmt.Errorf("beginning a transaction: %w", err)
}
