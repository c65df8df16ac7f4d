package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// recorder replaces the T of a test that is meant to fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, format)
}

// end runs the clean-ups in the order of the testing package.
func (r *recorder) end() string {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.errors, "\n")
}

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	tpl := roleTemplate("separate", "1")
	for range 20 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			db := New(t, From(tpl))
			pool := db.Pool(t, "")
			if _, err := pool.Exec(t.Context(), "CREATE TABLE mine (n int)"); err != nil {
				t.Fatal(err)
			}
			var user, name string
			err := db.Conn(t, "pgtest_teller").QueryRow(t.Context(),
				"SELECT current_user::text, current_database()::text").Scan(&user, &name)
			if err != nil || user != "pgtest_teller" || name != db.Name {
				t.Errorf("connected as %q to %q: %v", user, name, err)
			}
		})
	}
}

func TestServerIsDurable(t *testing.T) {
	t.Parallel()
	conn := New(t).Conn(t, "")
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var v string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&v); err != nil || v != "on" {
			t.Errorf("%s is %q (%v); the tests claim durability", setting, v, err)
		}
	}
}

func TestDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	db := New(r)
	pool := db.Pool(r, "")
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := r.end(); said != "" {
		t.Errorf("a clean test was told: %s", said)
	}
	if err := run(t.Context(), db.URL(""), "SELECT 1"); !isState(err, stateNoDatabase) {
		t.Errorf("connecting to the dropped database: %v", err)
	}
}

func TestLeftoverTransactionFails(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	db := New(r)
	conn, err := pgx.Connect(t.Context(), db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	all, err := db.Sessions(t.Context())
	if err != nil || len(all) != 1 || all[0].State != "idle in transaction" || all[0].User != pgserver.Superuser {
		t.Errorf("sessions %v, error %v", all, err)
	}
	if said := r.end(); !strings.Contains(said, "left inside a transaction") {
		t.Errorf("a test that left a transaction open was told: %q", said)
	}
	if err := run(t.Context(), db.URL(""), "SELECT 1"); !isState(err, stateNoDatabase) {
		t.Errorf("connecting to the dropped database: %v", err)
	}
}

func TestHeldConnectionFails(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	pool := New(r).Pool(r, "")
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if said := r.end(); !strings.Contains(said, "not released") {
		t.Errorf("a test that kept a connection was told: %q", said)
	}
}

func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	if got := New(t).Pool(t, "").Config().MaxConns; got != PoolSize {
		t.Errorf("pool of %d connections, want %d", got, PoolSize)
	}
}

func TestRestartedServer(t *testing.T) {
	t.Parallel()
	srv, c := Server(t, pgserver.Options{})
	db := c.New(t)
	if err := run(t.Context(), db.URL(""), "CREATE TABLE t (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := srv.Kill9(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), db.URL(""), "SELECT n FROM t"); err != nil {
		t.Errorf("after the crash: %v", err)
	}
	c.New(t) // connections of before the crash must not stand in the way
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for admin, want := range map[string]string{
		"postgres://postgres@/postgres?host=%2Ftmp%2Frh-1&port=5432": "teller /tmp/rh-1 db ",
		"postgresql://boss:secret@db.example:6000/x?dbname=y":        "teller db.example db ",
		"postgres://db.example/x?user=boss":                          "teller db.example db ",
		"postgres://teller:own@db.example/x":                         "teller db.example db own",
	} {
		u, err := urlFor(admin, "db", "teller")
		if err != nil {
			t.Errorf("%s: %v", admin, err)
			continue
		}
		cfg, err := pgxpool.ParseConfig(u)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		cc := cfg.ConnConfig
		if got := strings.Join([]string{cc.User, cc.Host, cc.Database, cc.Password}, " "); got != want {
			t.Errorf("%s became %s: %q, want %q", admin, u, got, want)
		}
	}
	if _, err := urlFor("host=/tmp user=x", "db", ""); err == nil {
		t.Error("a connection string of the other form was accepted and not understood")
	}
}

// BenchmarkNew measures the cost of a test database: `go test -bench New ./internal/test/pgtest`.
func BenchmarkNew(b *testing.B) {
	c, err := shared.cluster(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := c.ensure(b.Context(), empty()); err != nil {
		b.Fatal(err)
	}
	var create time.Duration
	for b.Loop() {
		began := time.Now()
		db, err := c.clone(b.Context(), empty())
		create += time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		db.tearDown(b)
	}
	b.ReportMetric(float64(create.Milliseconds())/float64(b.N), "create-ms/op")
}
