package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
)

// Keys of a connection's custom data.
const (
	identityKey = "railhead.server" // the server's identity
	poolerKey   = "railhead.pooler" // true: notePooler has found a pooler in between
)

// notePooler notes whether a pooler is between a new connection and its server: a pooler gives its clients a key for
// cancellations of its own, whose process is not the server's. The connection string need not say so, because newer
// poolers prepare statements by name in whichever session they use, so that all works without the parameter.
func notePooler(ctx context.Context, conn *pgx.Conn, loaded Statements) error {
	found, err := FindPooler(ctx, conn, loaded)
	conn.PgConn().CustomData()[poolerKey] = found
	return err
}

// FindPooler reports whether a pooler is between a connection and its server, as far as that shows (notePooler).
func FindPooler(ctx context.Context, conn *pgx.Conn, loaded Statements) (bool, error) {
	var pid int64
	if err := conn.QueryRow(ctx, loaded["session_process"]).Scan(&pid); err != nil {
		return false, fmt.Errorf("reading the process of the session: %w", err)
	}
	return pid != int64(conn.PgConn().PID()), nil
}

// behindPooler reports whether a connection's server may change from one transaction to the next.
func (db *DB) behindPooler(conn *pgx.Conn) bool {
	found, _ := conn.PgConn().CustomData()[poolerKey].(bool)
	return found || db.pooled
}

// sameServer returns ErrServerChanged if a connection is to another server than the one
// on which the claim was decided. That is on, or if on is zero the one that CheckServer
// read last. Between two checks the pool may have reconnected, after a failover or a
// restore, to a server that has lost the rows of sends; and between a check and the
// reaction of the caller, lanes might be claimed that should be suspended. The identity
// of a connection is read once, because its server, timeline and start never change.
// Behind a pooler it is read each time, because the pooler changes the server.
func (db *DB) sameServer(ctx context.Context, conn *pgx.Conn, on outbox.Server) error {
	checked := db.Server.Load()
	if checked == nil {
		return nil // no check was made yet, so nothing relies on it
	}
	want := *checked
	if on.SystemIdentifier != "" {
		want = on
	}
	data := conn.PgConn().CustomData()
	behind, known := data[identityKey].(outbox.Server)
	if !known || db.behindPooler(conn) {
		var timeline pgtype.Int8
		row := conn.QueryRow(ctx, db.SQL["server_identity"])
		if err := row.Scan(&behind.SystemIdentifier, &timeline, &behind.StartedAt); err != nil {
			return err
		}
		behind.Timeline = timeline.Int64
		data[identityKey] = behind
	}
	if !behind.Same(want) {
		db.Pool.Reset() // either of the two may be the old one
		return fmt.Errorf("%w: it was %s on timeline %d, started %s, and is %s on timeline %d, started %s",
			outbox.ErrServerChanged, want.SystemIdentifier, want.Timeline, want.StartedAt.UTC().Format(time.RFC3339),
			behind.SystemIdentifier, behind.Timeline, behind.StartedAt.UTC().Format(time.RFC3339))
	}
	return nil
}
