package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
)

// identityKey finds the server behind a connection in its custom data.
const identityKey = "railhead.server"

// sameServer refuses to claim through a connection to another server than the
// one that it was decided for, which is the one that CheckServer saw last unless
// the caller names it: between two checks the pool may have reconnected after a
// failover or a restore, to a server that forgot what was sent, and between a check
// and what the caller makes of it lanes may be claimed that should be suspended. A
// connection is asked once: it never changes its server, nor the server its timeline
// or its start under it. One that leads to a pooler is asked each time, for the
// pooler changes its server.
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
	if !known || db.pooled {
		var timeline pgtype.Int8
		if err := conn.QueryRow(ctx, db.SQL["server_identity"]).Scan(&behind.SystemIdentifier, &timeline, &behind.StartedAt); err != nil {
			return err
		}
		behind.Timeline = timeline.Int64
		data[identityKey] = behind
	}
	if !behind.Same(want) {
		db.Pool.Reset() // whichever of the two was the old one, nothing is kept of it
		return fmt.Errorf("%w: it was %s on timeline %d, started %s, and is %s on timeline %d, started %s", outbox.ErrServerChanged,
			want.SystemIdentifier, want.Timeline, want.StartedAt.UTC().Format(time.RFC3339),
			behind.SystemIdentifier, behind.Timeline, behind.StartedAt.UTC().Format(time.RFC3339))
	}
	return nil
}
