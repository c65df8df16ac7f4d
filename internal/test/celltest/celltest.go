// Package celltest gives every test a cell of its own: a cloned database with
// the roles of the matrix, the migrated and granted schema, a login for every
// role, and a rail named bank.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestEnqueue(t *testing.T) {
//		cell := celltest.New(t)
//		config := ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema}
//		store, err := ingest.Open(t.Context(), config)
//		...
//	}
//
// The template behind it is built once per server, from the migrations, the role
// matrix, the logins and the profile; a change of any of them makes a new one.
package celltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
)

// The logins of the cell, each a member of exactly one role. Relayer and reaper
// share theirs.
const (
	Ingest    = install.Ingest
	Relayer   = install.Relayer
	Reaper    = install.Reaper
	Callbacks = install.Callbacks
	API       = install.API
	Events    = install.Events
	Operator  = install.Operator
	Control   = install.Control
	Readonly  = install.Readonly
	Auditor   = install.Auditor
	Contract  = install.Contract
)

// Logins maps each login to its role.
func Logins() map[string]string {
	return install.Logins(Ingest, Relayer, Reaper, Callbacks, API, Events, Operator, Control, Readonly, Auditor,
		Contract)
}

// Bank is the rail that every cell has, and BankProfile its profile: a rail that answers finally
// and de-duplicates by key for a day. Fields that the profile leaves out have their defaults.
const (
	Bank        = "bank"
	BankProfile = `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"}`
)

// Cell is a cell that belongs to one test. Its database is dropped with the test; URL, Conn and
// Pool are those of [pgtest.DB].
type Cell struct {
	*pgtest.DB
	Schema string // the name of the cell
	t      testing.TB

	mu   sync.Mutex
	idle []*pgx.Conn // of the superuser
}

// New creates a cell on the server that the test binary shares.
func New(t testing.TB) *Cell {
	t.Helper()
	tpl, err := Template()
	if err != nil {
		t.Fatalf("template of a cell: %v", err)
	}
	return on(t, pgtest.New(t, pgtest.From(tpl)))
}

// InLocale creates a cell in a database that sorts and folds text by an ICU locale, for example
// "tr", where I folds to another letter than i.
func InLocale(t testing.TB, locale string) *Cell {
	t.Helper()
	tpl, err := Template()
	if err != nil {
		t.Fatalf("template of a cell: %v", err)
	}
	tpl.Locale = locale
	return on(t, pgtest.New(t, pgtest.From(tpl)))
}

// On creates a cell on a server that the test may halt and kill.
func On(t testing.TB, cluster *pgtest.Cluster) *Cell {
	t.Helper()
	tpl, err := Template()
	if err != nil {
		t.Fatalf("template of a cell: %v", err)
	}
	return on(t, cluster.New(t, pgtest.From(tpl)))
}

func on(t testing.TB, db *pgtest.DB) *Cell {
	c := &Cell{DB: db, Schema: migrations.DefaultCell, t: t}
	t.Cleanup(c.disconnect)
	c.Exec(install.Copied(c.Schema))
	return c
}

// Exec runs a statement as the superuser, on a connection that Exec and QueryRow share: a change
// to the session's state may or may not last.
func (c *Cell) Exec(sql string, args ...any) {
	c.t.Helper()
	err := c.withSuper(func(conn *pgx.Conn) error {
		_, err := conn.Exec(c.t.Context(), sql, args...)
		return err
	})
	if err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

// QueryRow reads one row as the superuser, on a connection of [Cell.Exec].
func (c *Cell) QueryRow(sql string, args []any, into ...any) {
	c.t.Helper()
	err := c.withSuper(func(conn *pgx.Conn) error {
		return conn.QueryRow(c.t.Context(), sql, args...).Scan(into...)
	})
	if err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

// RailKey returns the key by which the rail knows an instruction.
func (c *Cell) RailKey(outboxID [16]byte) string {
	c.t.Helper()
	var key string
	c.QueryRow(`SELECT 'rh' || replace(rail_key::text, '-', '') FROM `+c.Schema+`.payment_outbox_keys
		WHERE outbox_id = $1`, []any{outboxID}, &key)
	return key
}

// Int returns one number that a query reads as the superuser.
func (c *Cell) Int(sql string, args ...any) int {
	c.t.Helper()
	var n int
	c.QueryRow(sql, args, &n)
	return n
}

// ApplyProfile fills in the defaults of a profile, checks it, and puts it in force as the
// superuser. It returns the version. A rail that does not exist yet is created.
func (c *Cell) ApplyProfile(railType, profileJSON string) int {
	c.t.Helper()
	text, err := Canonical(railType, profileJSON)
	if err != nil {
		c.t.Fatalf("profile of %s: %v", railType, err)
	}
	return c.Int("SELECT version FROM "+c.Schema+".apply_rail_profile($1, $2, 'set by a test')", railType, string(text))
}

// ProfileInForce returns the version of the rail's profile by which claims are made.
func (c *Cell) ProfileInForce(railType string) int {
	c.t.Helper()
	return c.Int("SELECT profile_version FROM "+c.Schema+".payment_rails WHERE rail_type = $1", railType)
}

// SetTimeBudget puts a time budget in force as the superuser. The cell chooses its version.
func (c *Cell) SetTimeBudget(budget outbox.TimeBudget) {
	c.t.Helper()
	c.Exec("UPDATE "+c.Schema+".payment_outbox_settings SET claim_timeout_ms = $1, start_within_ms = $2, "+
		"record_within_ms = $3, drain_ms = $4, heartbeat_stale_ms = $5",
		budget.ClaimTimeout.Milliseconds(), budget.StartWithin.Milliseconds(), budget.RecordWithin.Milliseconds(),
		budget.Drain.Milliseconds(),
		budget.HeartbeatStale.Milliseconds())
}

// withSuper runs do on a connection, which it keeps for the next statement: opening one takes
// longer than most statements.
func (c *Cell) withSuper(do func(*pgx.Conn) error) error {
	conn, err := c.takeSuper()
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	err = do(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
	return err
}

// Superuser returns a connection of the superuser for the test alone, closed when it ends: one that is kept, if there
// is one.
func (c *Cell) Superuser() *pgx.Conn {
	c.t.Helper()
	conn, err := c.takeSuper()
	if err != nil {
		c.t.Fatalf("connecting: %v", err)
	}
	c.t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(c.t.Context())); err != nil && !conn.IsClosed() {
			c.t.Errorf("closing a connection of the superuser: %v", err)
		}
	})
	return conn
}

// takeSuper returns a kept connection that is still open, or a new one: some tests terminate every
// session, or restart the server.
func (c *Cell) takeSuper() (*pgx.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		conn := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if conn.Ping(c.t.Context()) == nil {
			return conn, nil
		}
	}
	config, err := pgx.ParseConfig(c.URL(""))
	if err != nil {
		return nil, err
	}
	// No statement is prepared: tests change the tables and functions that it uses.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	return pgx.ConnectConfig(c.t.Context(), config)
}

// disconnect ends the superuser's sessions before the database is dropped.
func (c *Cell) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		if err := conn.Close(context.WithoutCancel(c.t.Context())); err != nil && !conn.IsClosed() {
			c.t.Errorf("closing a connection of the superuser: %v", err)
		}
	}
}

// Canonical returns a profile with its defaults, in the form that the database stores.
func Canonical(railType, profileJSON string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(profileJSON), &fields); err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	fields["rail_type"] = railType
	named, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("naming the profile: %w", err)
	}
	profile, err := rails.ParseProfile(named)
	if err != nil {
		return nil, err
	}
	return profile.JSON()
}

// EnvLocale names the ICU locale of the cells that ask for none, so that any suite
// can be run on databases that do not sort by bytes.
const EnvLocale = "RAILHEAD_TEST_LOCALE"

// Template returns the template that every cell is a clone of. The digest covers everything that
// it is built from.
func Template() (pgtest.Template, error) {
	tpl, err := embedded()
	tpl.Locale = os.Getenv(EnvLocale)
	return tpl, err
}

// embedded is the template in the server's own locale. All of it is compiled in, so it is made once a
// process: reading the matrix and the migrations takes longer than many a test.
var embedded = sync.OnceValues(func() (pgtest.Template, error) {
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		return pgtest.Template{}, err
	}
	matrix, err := acl.Load()
	if err != nil {
		return pgtest.Template{}, err
	}
	bank, err := Canonical(Bank, BankProfile)
	if err != nil {
		return pgtest.Template{}, fmt.Errorf("profile of %s: %w", Bank, err)
	}
	sum := sha256.New()
	for _, migration := range all {
		fmt.Fprintln(sum, migration.Name, migration.SQL)
	}
	fmt.Fprintln(sum, matrix.SQL(migrations.DefaultCell))
	fmt.Fprintln(sum, Logins(), string(bank))
	return pgtest.Template{
		Name:   "cell",
		Digest: hex.EncodeToString(sum.Sum(nil)),
		Build:  func(ctx context.Context, adminURL string) error { return build(ctx, adminURL, bank) },
	}, nil
})

// build installs the cell, and its rail.
func build(ctx context.Context, adminURL string, bank []byte) (err error) {
	if _, err := install.Prepare(ctx, adminURL, migrations.DefaultCell, Logins(), install.NoPassword); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return fmt.Errorf("connecting to the test server: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	_, err = conn.Exec(ctx, "SELECT "+migrations.DefaultCell+".apply_rail_profile($1, $2, 'the rail of the tests')",
		Bank, string(bank))
	if err != nil {
		return fmt.Errorf("applying the profile of %s: %w", Bank, err)
	}
	return nil
}
