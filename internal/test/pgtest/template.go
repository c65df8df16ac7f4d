package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Advisory locks, all taken in the database "postgres": advisory locks are per database, roles are
// not.
const (
	lockClassTemplates int32 = 0x72687470 // held while templates and roles change
	lockClassLease     int32 = 0x7268646c // with a process's id, as long as it may own databases
)

// Names of databases: rht_<name>_<digest>, _new at the end while it is built; rhd_<name>_<lease
// id>_<number>.
const (
	templatePrefix = "rht_"
	databasePrefix = "rhd_"
	buildingSuffix = "_new"
)

// The SQLSTATEs that code branches on.
const (
	stateDuplicateDatabase = "42P04"
	stateNoDatabase        = "3D000"
	stateObjectInUse       = "55006"
	stateClassShutdown     = "57P0" // 57P01 to 57P05: the server ended the session
)

// Template describes how to build the database that test databases are clones of.
type Template struct {
	// Name tells templates apart, for example "railhead": 1 to 20 of a-z, 0-9 and _.
	Name string
	// Digest identifies everything that Build depends on, for example a hash of all migrations.
	// Another digest under the same Name replaces the old template.
	Digest string
	// Locale is the ICU locale by which the database sorts and folds text, for example "tr"; "" is the
	// server's own. Templates that differ in it alone may share a Name.
	Locale string
	// Build fills the empty database that adminURL leads to, as superuser. It may create roles. It
	// must close its connections. Another process may be waiting for it, so ctx is worth obeying.
	Build func(ctx context.Context, adminURL string) error
}

var (
	templateName   = regexp.MustCompile(`^[a-z0-9_]{1,20}$`)
	templateLocale = regexp.MustCompile(`^[a-z]{0,8}$`)
)

// empty returns the template of empty databases.
func empty() Template {
	return Template{Name: "empty", Digest: "1", Build: func(context.Context, string) error { return nil }}
}

func (t Template) validate() error {
	var errs []error
	if !templateName.MatchString(t.Name) {
		errs = append(errs, fmt.Errorf("template name %q: want 1 to 20 of a-z, 0-9 and _", t.Name))
	}
	if !templateLocale.MatchString(t.Locale) {
		errs = append(errs, fmt.Errorf("template %s: locale %q: want a language such as tr", t.Name, t.Locale))
	}
	if t.Digest == "" {
		errs = append(errs, fmt.Errorf("template %s: no digest", t.Name))
	}
	if t.Build == nil {
		errs = append(errs, fmt.Errorf("template %s: no Build", t.Name))
	}
	return errors.Join(errs...)
}

func (t Template) database() string {
	sum := sha256.Sum256([]byte(t.Digest))
	return t.prefix() + hex.EncodeToString(sum[:8])
}

// prefix returns the prefix of the names of this template's databases, for any digest.
func (t Template) prefix() string {
	if t.Locale == "" {
		return templatePrefix + t.Name + "_"
	}
	return templatePrefix + t.Name + "_" + t.Locale + "_"
}

// sorting returns the part of CREATE DATABASE about the locale.
func (t Template) sorting() string {
	if t.Locale == "" {
		return ""
	}
	return ` LOCALE_PROVIDER icu ICU_LOCALE '` + t.Locale + `' LOCALE 'C'`
}

// ensure builds the template unless it exists. Half-built templates have another name until their
// last step, so one that exists is complete.
func (c *Cluster) ensure(ctx context.Context, t Template) error {
	if err := t.validate(); err != nil {
		return err
	}
	name := t.database()
	c.mu.Lock()
	defer c.mu.Unlock() // one build per process at a time; the advisory lock does it between processes
	if c.ready[name] {
		return nil
	}
	err := c.underLock(ctx, func(conn *pgx.Conn) error {
		exists, err := hasDatabase(ctx, conn, name)
		if err != nil || exists {
			return err
		}
		if err := dropStale(ctx, conn, t); err != nil {
			return err
		}
		return c.build(ctx, conn, t)
	})
	if err != nil {
		return fmt.Errorf("template %s: %w", t.Name, err)
	}
	c.ready[name] = true
	return nil
}

// forget makes the next ensure check again: another process has replaced the template.
func (c *Cluster) forget(t Template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ready, t.database())
}

// underLock runs f while no other process changes templates, roles or orphans. It takes a session
// lock and not a transaction's, because CREATE DATABASE can't run in a transaction. The connection
// is closed at the end, which releases the lock in any case.
func (c *Cluster) underLock(ctx context.Context, f func(*pgx.Conn) error) (err error) {
	conn, err := pgx.Connect(ctx, c.adminURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1, 0)`, lockClassTemplates); err != nil {
		return fmt.Errorf("waiting for the lock on templates: %w", err)
	}
	return f(conn)
}

// build makes the template under a temporary name. A crash before the rename leaves <name>_new,
// which the next build of that Name drops.
func (c *Cluster) build(ctx context.Context, conn *pgx.Conn, t Template) error {
	temp := t.database() + buildingSuffix
	if err := execAll(ctx, conn, `CREATE DATABASE `+quote(temp)+` TEMPLATE template0`+t.sorting()); err != nil {
		return err
	}
	tempURL, err := urlFor(c.adminURL, temp, "")
	if err != nil {
		return err
	}
	if err := t.Build(ctx, tempURL); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	err = execAll(ctx, conn,
		`ALTER DATABASE `+quote(temp)+` WITH ALLOW_CONNECTIONS false IS_TEMPLATE true`,
		`ALTER DATABASE `+quote(temp)+` RENAME TO `+quote(t.database()))
	if isState(err, stateObjectInUse) {
		return fmt.Errorf("connections left open by Build: %w", err)
	}
	return err
}

// dropStale drops half-built templates and those of other digests. One that is being cloned right
// now, by a checkout of another version, stays until the next build.
func dropStale(ctx context.Context, conn *pgx.Conn, t Template) error {
	names, err := databases(ctx, conn, t.prefix())
	if err != nil {
		return err
	}
	for _, name := range names {
		digest := strings.TrimSuffix(strings.TrimPrefix(name, t.prefix()), buildingSuffix)
		if _, err := hex.DecodeString(digest); err != nil {
			continue // "rht_a_b_<digest>" belongs to template a_b, not to a
		}
		err := execAll(ctx, conn,
			`ALTER DATABASE `+quote(name)+` WITH IS_TEMPLATE false`,
			`DROP DATABASE IF EXISTS `+quote(name)+` WITH (FORCE)`)
		if err != nil && !isState(err, stateObjectInUse) {
			return fmt.Errorf("dropping the stale template %s: %w", name, err)
		}
	}
	return nil
}

// dropOrphans drops the test databases whose process no longer holds its lease.
func (c *Cluster) dropOrphans(ctx context.Context) error {
	return c.underLock(ctx, func(conn *pgx.Conn) error {
		names, err := databases(ctx, conn, databasePrefix)
		if err != nil {
			return err
		}
		for _, name := range names {
			id, ok := leaseOf(name)
			if !ok || id == c.id {
				continue
			}
			var dead bool
			err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, lockClassLease, id).Scan(&dead)
			if err != nil {
				return err
			}
			if !dead {
				continue
			}
			if err := execAll(ctx, conn, `DROP DATABASE IF EXISTS `+quote(name)+` WITH (FORCE)`); err != nil {
				return fmt.Errorf("dropping %s, left by an earlier run: %w", name, err)
			}
		}
		return nil
	})
}

// leaseOf returns the lease id in rhd_<name>_<id>_<number>.
func leaseOf(database string) (int32, bool) {
	parts := strings.Split(database, "_")
	if len(parts) < 4 {
		return 0, false
	}
	id, err := strconv.ParseUint(parts[len(parts)-2], 16, 31)
	return int32(id), err == nil
}

func databases(ctx context.Context, conn *pgx.Conn, prefix string) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT datname::text FROM pg_database WHERE starts_with(datname, $1)`, prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func hasDatabase(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var ok bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&ok)
	return ok, err
}

func execAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func isState(err error, state string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == state
}
