// Package store has the common parts of the roles of the ledger: connections to a cell,
// the text of its statements, transactions and how they end, errors, and rows.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/engine"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// sessionSettings determine how text between a process and the server is interpreted,
// whatever the login's defaults: in another encoding a payload would not match its
// fingerprint. A pooler keeps exactly these settings for each of its clients.
var sessionSettings = map[string]string{
	"client_encoding": "UTF8", "datestyle": "ISO, MDY", "standard_conforming_strings": "on",
}

// checksWithin bounds the checks of a new connection, which are some ten round trips, unless ledger.Config allows more
// time to connect.
const checksWithin = 5 * time.Second

// statementsMax is more than a process sends different statements. A cache that is smaller would forget what a
// connection has described.
const statementsMax = 512

// DB has the connections of one role to one cell, and the statements of that cell.
type DB struct {
	Pool   *pgxpool.Pool
	SQL    Statements
	Log    *slog.Logger                  // nil: none
	Server atomic.Pointer[outbox.Server] // the last one that Executor.CheckServer read
	pooled bool                          // the connection string allows for a pooler
	check  atomic.Pointer[connCheck]     // of each new connection; nil: none
	fresh  atomic.Bool                   // set by ReadCommitted
}

type connCheck = func(context.Context, pgx.Tx) error

// OnConnect sets a check of every connection that is made from now on, in a transaction that only reads; one that
// fails it is not used.
func (db *DB) OnConnect(check func(context.Context, pgx.Tx) error) { db.check.Store(&check) }

// ReadCommitted has every connection that is made from now on refused (outbox.ErrUnfitServer) on which single
// statements are above READ COMMITTED, which a process sets itself where there is no pooler.
func (db *DB) ReadCommitted() { db.fresh.Store(true) }

// Open makes a pool of connections to the writable server. A connection fails with
// outbox.ErrOtherSchema if another build has migrated the cell, and with
// outbox.ErrUnfitServer on a server that takes guards of the cell away. The pool counts on
// each connection what the server says by which a commit may be lost (engine.Doubt).
func Open(ctx context.Context, config ledger.Config) (*DB, error) {
	loaded, err := LoadStatements(config.Cell)
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckURL(config.URL); err != nil {
		return nil, err
	}
	pool, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the connection string of %s: %w", config.Name, err)
	}
	if config.MaxConns < 0 || config.MaxConns > 100 {
		return nil, fmt.Errorf("a pool of %d connections: must be 1 to 100", config.MaxConns)
	}
	pool.MaxConns = config.MaxConns
	if pool.MaxConns == 0 {
		pool.MaxConns = 4
	}
	pool.MaxConnLifetime = time.Hour
	pool.MaxConnIdleTime = 10 * time.Minute
	conn := pool.ConnConfig
	conn.ConnectTimeout = config.ConnectTimeout
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = 5 * time.Second
	}
	if config.Name != "" {
		conn.RuntimeParams["application_name"] = config.Name
	}
	maps.Copy(conn.RuntimeParams, sessionSettings)
	conn.StatementCacheCapacity = max(conn.StatementCacheCapacity, statementsMax)
	conn.DescriptionCacheCapacity = max(conn.DescriptionCacheCapacity, statementsMax)
	conn.ValidateConnect = Writable
	conn.OnNotice = (&warnings{log: config.Log}).note
	conn.Tracer = config.Tracer
	conn.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error {
		c.CustomData()[doubtKey] = new(doubts)
		return nil
	}
	schema := &SchemaCheck{Cell: config.Cell}
	db := &DB{SQL: loaded, Log: config.Log, pooled: Pooled(conn)}
	PinSession(conn)
	pool.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		// The pool gives no bound, and has no place for another one before this one has failed.
		ctx, cancel := context.WithTimeout(ctx, max(conn.ConnectTimeout, checksWithin))
		defer cancel()
		// It comes first: on another engine the others would fail, and not say why.
		if err := engine.Check(ctx, c, config.Cell); err != nil {
			return err
		}
		// Behind a pooler the session has the search_path of the login.
		return inPath(ctx, c, func(tx pgx.Tx) error {
			if err := notePooler(ctx, c, loaded); err != nil {
				return err
			}
			if err := schema.On(ctx, tx); err != nil {
				return err
			}
			if err := checkCollations(ctx, tx, loaded); err != nil {
				return err
			}
			if db.fresh.Load() {
				if err := checkIsolation(ctx, tx, loaded); err != nil {
					return err
				}
			}
			if check := db.check.Load(); check != nil {
				return (*check)(ctx, tx)
			}
			return nil
		})
	}
	if db.Pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, fmt.Errorf("opening the pool of %s: %w", config.Name, err)
	}
	return db, nil
}

// Prefer replaces each statement for which there is another with the same name after the
// prefix.
func (db *DB) Prefer(prefix string) {
	own := make(Statements, len(db.SQL))
	for name, text := range db.SQL {
		if _, there := db.SQL[prefix+name]; !there {
			own[strings.TrimPrefix(name, prefix)] = text
		}
	}
	db.SQL = own
}

// checkCollations returns ErrUnsafeServer if an index of the cell sorts keys by a
// collation of the server's libraries instead of by their bytes. After an update of the
// library that changes the order, such an index misses keys, and a repeated call makes a
// second payment.
func checkCollations(ctx context.Context, conn pgx.Tx, loaded Statements) error {
	var index, table, collation string
	switch err := conn.QueryRow(ctx, loaded["collations"]).Scan(&index, &table, &collation); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("reading the collations of the keys: %w", err)
	}
	return fmt.Errorf("%w: index %s of %s sorts by collation %s, which may change with the server's libraries, "+
		`so that it misses keys that are there: give its columns COLLATE "C" as docs/operations.md says`,
		outbox.ErrUnsafeServer, index, table, collation)
}
