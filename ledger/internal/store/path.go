package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// PinPath has each session of a configuration begin with that search_path. A startup parameter would do as well, but
// poolers refuse it, also those that leave a client its session.
func PinPath(config *pgx.ConnConfig) {
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, max(config.ConnectTimeout, time.Second))
		defer cancel()
		if _, err := conn.Exec(ctx, "SET search_path = "+path).ReadAll(); err != nil {
			return fmt.Errorf("setting the search_path: %w", err)
		}
		return nil
	}
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
