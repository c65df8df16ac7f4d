package pgtest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// PoolSize is the most connections that a pool of [DB.Pool] opens.
	PoolSize = 8

	setUpTimeout    = 2 * time.Minute // building a template included
	tearDownTimeout = 30 * time.Second
	releaseTimeout  = 3 * time.Second // for connections to come back to a pool at the end of a test
)

// DB is a database that belongs to one test.
type DB struct {
	Name    string // of the database
	cluster *Cluster
}

// Option changes what New creates.
type Option func(*options)

type options struct{ template Template }

// From makes the new database a clone of t; without it the database is empty.
func From(t Template) Option { return func(o *options) { o.template = t } }

// New makes a database on the server that the test binary shares, starting one if TEST_DATABASE_URL
// names none. The database is dropped when the test ends. Without a PostgreSQL the test fails; it is
// never skipped.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	c, err := shared.cluster(t.Context())
	if err != nil {
		t.Fatalf("server for tests: %v", err)
	}
	return c.New(t, opts...)
}

// New makes a database on c, dropped when the test ends. The test fails if a session of it is by
// then still inside a transaction.
func (c *Cluster) New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	o := options{template: empty()}
	for _, opt := range opts {
		opt(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), setUpTimeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		t.Fatalf("waiting for one of %d test databases: %v", maxDatabases, context.Cause(ctx))
	}
	db, err := c.clone(ctx, o.template)
	if err != nil {
		<-c.slots
		t.Fatalf("making a test database: %v", err)
	}
	t.Cleanup(func() {
		defer func() { <-c.slots }()
		db.tearDown(t)
	})
	return db
}

// clone copies the template by the strategy of [strategyOn].
func (c *Cluster) clone(ctx context.Context, tpl Template) (*DB, error) {
	const tries = 3
	err := c.keepLease(ctx)
	if err != nil {
		return nil, err
	}
	for range tries {
		if err = c.ensure(ctx, tpl); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s%s_%x_%d", databasePrefix, tpl.Name, c.id, c.created.Add(1))
		err = c.retry(func() error {
			_, err := c.admin.Exec(ctx, `CREATE DATABASE `+quote(name)+` TEMPLATE `+quote(tpl.database())+` STRATEGY `+c.strategy)
			return err
		})
		switch {
		case err == nil:
			return &DB{Name: name, cluster: c}, nil
		case isState(err, stateNoDatabase):
			c.forget(tpl) // another process, of another digest, dropped it as stale
		case isState(err, stateDuplicateDatabase), isState(err, stateObjectInUse):
		default:
			return nil, err
		}
	}
	return nil, err
}

// URL returns the connection string for a login; "" is the server's admin.
func (db *DB) URL(user string) string {
	u, err := urlFor(db.cluster.adminURL, db.Name, user)
	if err != nil {
		return err.Error() // can't be: the template was built through the same function
	}
	return u
}

// Conn returns a connection as user ("" is the admin), closed when the test ends.
func (db *DB) Conn(t testing.TB, user string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL(user))
	if err != nil {
		t.Fatalf("connecting as %q: %v", user, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), releaseTimeout)
		defer cancel()
		if err := conn.Close(ctx); err != nil && !conn.IsClosed() {
			t.Errorf("closing the connection of %q: %v", user, err)
		}
	})
	return conn
}

// Pool returns a pool of at most [PoolSize] connections as user ("" is the admin), closed when the
// test ends. The test fails if a connection was not released.
func (db *DB) Pool(t testing.TB, user string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(db.URL(user))
	if err != nil {
		t.Fatalf("pool of %q: %v", user, err)
	}
	cfg.MaxConns = PoolSize
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("pool of %q: %v", user, err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			pool.Close() // waits for acquired connections, without a bound
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(releaseTimeout):
			t.Errorf("pool of %q: %d connections not released", user, pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// tearDown looks for sessions that the test has left behind, then drops the database.
func (db *DB) tearDown(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), tearDownTimeout)
	defer cancel()
	left, err := db.inTransaction(ctx)
	if err != nil {
		t.Errorf("sessions left on %s: %v", db.Name, err)
	}
	for _, s := range left {
		t.Errorf("session left inside a transaction: %v", s)
	}
	if err := db.drop(ctx); err != nil {
		t.Errorf("dropping the test database: %v", err)
	}
}

func (db *DB) drop(ctx context.Context) error {
	return db.cluster.retry(func() error {
		_, err := db.cluster.admin.Exec(ctx, `DROP DATABASE IF EXISTS `+quote(db.Name)+` WITH (FORCE)`)
		return err
	})
}

// AdminURL is the superuser's connection string of the server's database "postgres".
func (db *DB) AdminURL() string { return db.cluster.adminURL }

// String returns the quoted name of the database, for test logs.
func (db *DB) String() string { return strconv.Quote(db.Name) }
