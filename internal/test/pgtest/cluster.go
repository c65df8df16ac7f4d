package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxDatabases is how many test databases one Cluster has at once.
	maxDatabases = 32
	// adminConns is how many connections create and drop databases.
	adminConns = 4
)

// Cluster is a server on which test databases are made. [New] uses one shared by the test binary; a
// proof that stops or kills its server opens a Cluster of its own.
type Cluster struct {
	adminURL string
	admin    *pgxpool.Pool
	strategy string        // of CREATE DATABASE
	slots    chan struct{} // one per database in flight
	created  atomic.Int64

	// lease holds a session-level advisory lock on id, by which other processes know that the
	// databases named after id still have an owner.
	id int32

	mu    sync.Mutex // for all below
	lease *pgx.Conn
	ready map[string]bool // templates known to be built, by database name
}

// Open connects to the server that adminURL, a superuser's connection string, leads to, and drops
// the test databases that dead processes have left on it.
func Open(ctx context.Context, adminURL string) (_ *Cluster, err error) {
	cfg, err := pgxpool.ParseConfig(adminURL)
	if err != nil {
		return nil, fmt.Errorf("connection string of the test server: %w", err)
	}
	cfg.MaxConns = adminConns
	c := &Cluster{adminURL: adminURL, slots: make(chan struct{}, maxDatabases), ready: map[string]bool{}}
	if c.admin, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	var folder string
	if err := c.admin.QueryRow(ctx, `SHOW data_directory`).Scan(&folder); err != nil {
		return nil, fmt.Errorf("asking the test server for its folder: %w", err)
	}
	c.strategy = strategyOn(folder)
	if err := c.takeLease(ctx); err != nil {
		return nil, err
	}
	return c, c.dropOrphans(ctx)
}

// strategyOn says how a server with its data in folder copies a database. FILE_COPY forces two
// checkpoints of the whole server. WAL_LOG writes the ten megabytes of a template to the log instead:
// faster on a disk, and half as fast in memory, where a checkpoint has nothing to wait for (46 ms to 24).
func strategyOn(folder string) string {
	if strings.HasPrefix(folder, "/dev/shm/") {
		return "FILE_COPY"
	}
	return "WAL_LOG"
}

// takeLease takes an id that no living process has.
func (c *Cluster) takeLease(ctx context.Context) error {
	const tries = 10
	for range tries {
		c.id = rand.Int32()
		if got, err := c.lock(ctx); err != nil || got {
			return err
		}
	}
	return fmt.Errorf("no free lease for test databases in %d tries", tries)
}

// keepLease takes the lease again if the server was restarted meanwhile. Until then another
// process could have dropped our databases as orphans, but a test that restarts its server has
// that server for itself.
func (c *Cluster) keepLease(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease != nil && c.lease.Ping(ctx) == nil {
		return nil
	}
	got, err := c.lock(ctx)
	if err == nil && !got {
		err = errors.New("it is taken: a session of before the restart still lives")
	}
	if err != nil {
		return fmt.Errorf("taking the lease of test databases again: %w", err)
	}
	return nil
}

func (c *Cluster) lock(ctx context.Context) (got bool, err error) {
	if c.lease != nil {
		if err := c.lease.Close(ctx); err != nil && !c.lease.IsClosed() {
			return false, err
		}
	}
	if c.lease, err = pgx.Connect(ctx, c.adminURL); err != nil {
		return false, fmt.Errorf("connecting to the test server: %w", err)
	}
	err = c.lease.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockClassLease, c.id).Scan(&got)
	return got, err
}

// retry runs f, and runs it again over new connections if the server has closed the old ones: it
// may have been restarted since. It must be safe to run f twice.
func (c *Cluster) retry(f func() error) error {
	err := f()
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); err == nil ||
		ok && !strings.HasPrefix(pgErr.Code, stateClassShutdown) {
		return err
	}
	c.admin.Reset()
	return f()
}

// Close ends the connections of the Cluster. Databases of tests that still run keep their names but
// lose the lease, so that the next process drops them.
func (c *Cluster) Close(ctx context.Context) error {
	c.admin.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == nil {
		return nil
	}
	return c.lease.Close(ctx)
}

// urlFor returns adminURL with another database and, unless user is "", another login. A password
// in adminURL is only the admin's; on servers that ask other logins for one too it comes from
// PGPASSWORD or the password file.
func urlFor(adminURL, database, user string) (string, error) {
	u, err := url.Parse(adminURL)
	if err != nil {
		return "", fmt.Errorf("connection string of the test server: %w", err)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("connection string of the test server: want the form postgres://user@host/database")
	}
	if user != "" && user != u.User.Username() {
		u.User = url.User(user)
	}
	u.Path = "/" + database
	q := u.Query()
	q.Del("dbname") // would win over the path
	if user != "" {
		q.Del("user")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
