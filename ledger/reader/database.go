package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Database is what a cell needs of its database: room, partitions for the months to come, vacuum, and logins.
type Database struct {
	Bytes       int64 // size of the database
	MonthsAhead int   // months after this one that have a partition, without a gap
	DefaultRows int64 // estimate of the rows in the archive's DEFAULT partitions
	DeadRows    int64 // of pending, which vacuum has not removed yet
	Wraparound  Wraparound
	// Holders keep vacuum from removing dead rows, the oldest first.
	Holders []SnapshotHolder
	// Logins are the members of Railhead's roles, by role and name.
	Logins []ServiceLogin
}

// SnapshotHolder is a session, a prepared transaction or a replication slot that prevents VACUUM from removing rows
// that died since its snapshot.
type SnapshotHolder struct {
	Kind               string // session, prepared or slot
	Name               string // the pid of a session
	Login, Application string // of a session; a prepared transaction has the login
	Transactions       int64  // that the server has numbered since its snapshot
	Known              time.Duration
}

// ServiceLogin is a login that is a member of one of Railhead's roles.
type ServiceLogin struct {
	Role, Login     string
	MayLogIn        bool
	PasswordEnded   bool // its VALID UNTIL has passed
	ConnectionLimit int  // -1: none
	Here, Elsewhere int64
}

// TableSize is a table with its indexes.
type TableSize struct {
	Schema, Name string
	Bytes        int64
}

// Expiring is a payment in pending that expires soon.
type Expiring struct {
	OutboxID      payment.ID
	ParticipantID string
	RailType      string
	ExpiresAt     time.Time
	InMS          int64 // until then by the database's clock; negative: it has expired, and is not ended yet
}

// The bounds of what is read of the database.
const (
	holdersShown  = 20
	loginsShown   = 200
	tablesShown   = 10
	ExpiringShown = 10   // payments that ExpiringSoon returns at most
	expiringRead  = 1000 // of each rail
)

// Database reads what a cell needs of its database. Its cost does not depend on the number of payments.
func (r *Reader) Database(ctx context.Context) (Database, error) {
	var d Database
	var now time.Time
	var live, expiring, heldMS int64
	var suspended, unconfirmed bool
	var untaken int64
	var attempts, instructions []string
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["gauges_server"], 0).QueryRow(func(row pgx.Row) error {
			return row.Scan(&now, &d.Bytes, &live, &d.DeadRows, &expiring, &d.DefaultRows, &suspended, &unconfirmed,
				&untaken, &heldMS, &d.Wraparound.Transactions, &d.Wraparound.Multixacts, &attempts, &instructions)
		})
		batch.Queue(r.db.SQL["database_holders"], holdersShown).Query(store.Collect(&d.Holders, scanSnapshotHolder))
		batch.Queue(r.db.SQL["database_logins"], loginsShown).
			Query(store.Collect(&d.Logins, pgx.RowToStructByPos[ServiceLogin]))
	})
	if err != nil {
		return Database{}, fmt.Errorf("reading the state of the database: %w", err)
	}
	d.MonthsAhead = min(monthsAhead(attempts, now), monthsAhead(instructions, now))
	return d, nil
}

func scanSnapshotHolder(row pgx.CollectableRow) (SnapshotHolder, error) {
	var h SnapshotHolder
	var login, application pgtype.Text
	var knownMS int64
	err := row.Scan(&h.Kind, &h.Name, &login, &application, &h.Transactions, &knownMS)
	h.Login, h.Application, h.Known = login.String, application.String, time.Duration(knownMS)*time.Millisecond
	return h, err
}

// LargestTables returns the largest tables of the database, those of others included. It waits for sessions that
// hold one of them exclusively, up to its timeout.
func (r *Reader) LargestTables(ctx context.Context) ([]TableSize, error) {
	var all []TableSize
	err := r.readWithin(ctx, gaugeTimeout, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["database_tables"], tablesShown).Query(store.Collect(&all, pgx.RowToStructByPos[TableSize]))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sizes of tables: %w", err)
	}
	return all, nil
}

// ExpiringSoon returns the payments in pending that expire within 15 minutes, the soonest first, and whether there
// are more than ExpiringShown.
func (r *Reader) ExpiringSoon(ctx context.Context) (soon []Expiring, more bool, err error) {
	err = r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["expiring_soon"], expiringRead, ExpiringShown+1).Query(store.Collect(&soon, scanExpiring))
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading payments that expire soon: %w", err)
	}
	more = len(soon) > ExpiringShown
	return soon[:min(len(soon), ExpiringShown)], more, nil
}

func scanExpiring(row pgx.CollectableRow) (Expiring, error) {
	var e Expiring
	var id pgtype.UUID
	err := row.Scan(&id, &e.ParticipantID, &e.RailType, &e.ExpiresAt, &e.InMS)
	e.OutboxID = payment.ID(id.Bytes)
	return e, err
}
