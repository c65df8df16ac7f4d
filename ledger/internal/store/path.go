package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// path is the search_path of every session, whatever the database or the login has. With another one a function or an
// operator that some login has created, in schema public or in one with the name of a login, is preferred to
// PostgreSQL's own where its arguments match better, and runs with the rights of the session's login.
const path = "pg_catalog, pg_temp"

// LocalPath sets it for a transaction that has just begun: behind a transaction pooler a setting of the session would
// affect others.
const LocalPath = "SET LOCAL search_path = " + path

// ReadSQL begins a transaction that only reads, whatever the login's defaults: one that is serializable and deferrable
// waits for those of others.
const ReadSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"

// sessionSQL sets what statements outside of a transaction rely on, whatever the database or the login has: the
// search_path, and that each of them sees what is committed when it begins.
const sessionSQL = "SET search_path = " + path + "; SET default_transaction_isolation = 'read committed'"

// Pooled reports whether a configuration allows for a transaction pooler: prepared statements with names need one
// session throughout.
func Pooled(config *pgx.ConnConfig) bool {
	return config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
}

// PinSession has each session of a configuration begin with sessionSQL. Startup parameters would do as well, but
// poolers refuse them, also those that leave a client its session. A configuration that allows for a transaction
// pooler is left as it is: its sessions are those of other clients, too.
func PinSession(config *pgx.ConnConfig) {
	if Pooled(config) {
		return
	}
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, max(config.ConnectTimeout, time.Second))
		defer cancel()
		if _, err := conn.Exec(ctx, sessionSQL).ReadAll(); err != nil {
			return fmt.Errorf("setting the search_path and the isolation of the session: %w", err)
		}
		return nil
	}
}

// checkIsolation returns ErrUnfitServer if single statements have an isolation above READ COMMITTED.
func checkIsolation(ctx context.Context, tx pgx.Tx, loaded Statements) error {
	var isolation, login string
	if err := tx.QueryRow(ctx, loaded["isolation"]).Scan(&isolation, &login); err != nil {
		return fmt.Errorf("reading the isolation of the login: %w", err)
	}
	if isolation == "read committed" || isolation == "read uncommitted" {
		return nil
	}
	return fmt.Errorf("%w: login %s has default_transaction_isolation = %s, in which a token is not read, and behind a "+
		"pooler a process does not change that: ALTER ROLE %s SET default_transaction_isolation = 'read committed'",
		outbox.ErrUnfitServer, login, isolation, pgx.Identifier{login}.Sanitize())
}

// inPath reads in a transaction with that search_path.
func inPath(ctx context.Context, conn *pgx.Conn, read func(pgx.Tx) error) (err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: ReadSQL + "; " + LocalPath})
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	defer func() { err = errors.Join(err, Rollback(ctx, tx)) }()
	return read(tx)
}
