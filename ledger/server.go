package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// CheckServer reads the server's facts and refuses one that may forget what it
// has committed, with ErrUnsafeServer and every setting that is wrong.
func (e *Executor) CheckServer(ctx context.Context) (payment.Server, error) {
	var server payment.Server
	var fsync, pages, commit, standby bool
	var timeline pgtype.Int8
	var upMs int64
	err := e.pool.QueryRow(ctx, e.sql["server_facts"]).Scan(
		&fsync, &pages, &commit, &server.Version, &standby, &server.SystemIdentifier, &timeline, &upMs)
	if err != nil {
		return payment.Server{}, fmt.Errorf("reading the server's facts: %w", err)
	}
	e.server.Store(&serverIdentity{server.SystemIdentifier, timeline.Int64})
	server.Timeline, server.Up = timeline.Int64, time.Duration(upMs)*time.Millisecond
	var all []error
	for _, check := range []struct {
		ok  bool
		say string
	}{
		{fsync, "fsync is off: a crash of the machine loses committed claims, and they would be sent again"},
		{pages, "full_page_writes is off: a crash can tear pages of the archive"},
		{commit, "synchronous_commit is off: a claim could be sent before it is durable"},
		{!standby, "the server is a standby and can't be written to"},
		{server.Version >= 150000, "the server is older than PostgreSQL 15"},
	} {
		if !check.ok {
			all = append(all, errors.New(check.say))
		}
	}
	if len(all) > 0 {
		return server, fmt.Errorf("%w: %w", payment.ErrUnsafeServer, errors.Join(all...))
	}
	return server, nil
}

// TimelineAccepted reports whether a person has said that sending may go on
// after the failover or restore that led to this server and timeline.
func (e *Executor) TimelineAccepted(ctx context.Context, server payment.Server) (bool, error) {
	var accepted bool
	err := e.pool.QueryRow(ctx, e.sql["timeline_accepted"], server.SystemIdentifier, server.Timeline).Scan(&accepted)
	if err != nil {
		return false, fmt.Errorf("looking whether the timeline was accepted: %w", err)
	}
	return accepted, nil
}

// serverIdentity changes in a failover or a restore.
type serverIdentity struct {
	system   string
	timeline int64
}

// identityKey finds the server behind a connection in its custom data.
const identityKey = "railhead.server"

// sameServer refuses to claim through a connection to another server than the
// one that it was decided for, which is the one that CheckServer saw last unless
// the caller names it: between two checks the pool may have reconnected after a
// failover, to a server that forgot what was sent, and between a check and what
// the caller makes of it lanes may be claimed that should be held. A connection is asked
// once: it never changes its server, nor the server its timeline under it. One
// that leads to a pooler is asked each time, for the pooler changes its server.
func (e *Executor) sameServer(ctx context.Context, conn *pgx.Conn, on payment.Server) error {
	checked := e.server.Load()
	if checked == nil {
		return nil // nobody asked yet, so nobody relies on it
	}
	want := *checked
	if on.SystemIdentifier != "" {
		want = serverIdentity{on.SystemIdentifier, on.Timeline}
	}
	data := conn.PgConn().CustomData()
	behind, known := data[identityKey].(serverIdentity)
	if !known || e.pooled {
		var timeline pgtype.Int8
		if err := conn.QueryRow(ctx, e.sql["server_identity"]).Scan(&behind.system, &timeline); err != nil {
			return err
		}
		behind.timeline = timeline.Int64
		data[identityKey] = behind
	}
	if behind != want {
		e.pool.Reset() // whichever of the two was the old one, nothing is kept of it
		return fmt.Errorf("%w: it was %s on timeline %d and is %s on timeline %d", payment.ErrServerChanged,
			want.system, want.timeline, behind.system, behind.timeline)
	}
	return nil
}
