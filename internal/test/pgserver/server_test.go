package pgserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStart(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	settings := TestSettings()
	settings["application_name"] = "it's"
	srv := start(t, Options{TempRoot: root, Settings: settings})

	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"server_encoding": "UTF8", "max_connections": "300", "listen_addresses": "", "TimeZone": "UTC",
		"unix_socket_directories": srv.SocketDir(),
	} {
		if got := query(t, srv.URL("", ""), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	got := query(t, srv.URL("", ""), "SELECT reset_val FROM pg_settings WHERE name = 'application_name'")
	if got != "it's" {
		t.Errorf("setting with a quote arrived as %q", got)
	}
	fi, err := os.Stat(srv.SocketDir())
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("socket folder has mode %v; with trust authentication it must be 0700", fi.Mode().Perm())
	}
	pid := srv.PID()
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, alive := lookup(pid); alive || srv.PID() != 0 {
		t.Errorf("server %d survived Stop", pid)
	}
	wantEmpty(t, root)
	if err := srv.Restart(t.Context()); err == nil {
		t.Error("a stopped server restarted, its files are gone")
	}
}

func TestTwoServersAtOnce(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	a, b := start(t, Options{TempRoot: root}), start(t, Options{TempRoot: root})
	query(t, a.URL("", ""), "SELECT set_config('a.b', 'c', false)")
	if a.SocketDir() == b.SocketDir() || a.PID() == b.PID() {
		t.Fatal("the servers are the same")
	}
	if err := a.StopImmediate(t.Context()); err != nil {
		t.Fatal(err)
	}
	query(t, b.URL("", ""), "SELECT 'still here'")
}

func TestLastingData(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	opts := Options{TempRoot: root, DataDir: filepath.Join(root, "lasting", "pg")}
	srv := start(t, opts)
	execute(t, srv.URL("", ""), "CREATE TABLE t AS SELECT 42 AS n")
	if _, err := Start(t.Context(), opts); !errors.Is(err, ErrInUse) {
		t.Fatalf("second server on the same data: %v, want ErrInUse", err)
	}
	query(t, srv.URL("", ""), "SELECT 'not disturbed'")
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, root)

	srv = start(t, opts)
	if got := query(t, srv.URL("", ""), "SELECT n::text FROM t"); got != "42" {
		t.Errorf("read %q after a restart, want 42", got)
	}
	if notes := srv.Notes(); len(notes) != 0 {
		t.Errorf("an ordinary start has notes: %q", notes)
	}
}

func TestHaltKillRestart(t *testing.T) {
	t.Parallel()
	srv := start(t, Options{TempRoot: tempRoot(t)})
	url := srv.URL("", "")
	execute(t, url, "CREATE TABLE t AS SELECT 1 AS n")

	// A backend in the middle of work must not outlive Kill9: it could still commit.
	busy, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close(context.WithoutCancel(t.Context()))
	backend := int(busy.PgConn().PID())
	done := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.WithoutCancel(t.Context()), "SELECT count(*) FROM generate_series(1, 1e12)")
		done <- err
	}()

	old := srv.PID()
	exited := srv.Exited()
	if err := srv.Kill9(); err != nil {
		t.Fatal(err)
	}
	<-exited
	if err := <-done; err == nil {
		t.Error("the query ended well although its server was killed")
	}
	for _, pid := range []int{old, backend} {
		if _, alive := lookup(pid); alive {
			t.Errorf("process %d survived Kill9", pid)
		}
	}
	for _, step := range []func(context.Context) error{srv.Restart, srv.Restart, srv.Halt, srv.Restart} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if srv.URL("", "") != url {
		t.Error("the address changed over a restart")
	}
	if got := query(t, url, "SELECT n::text FROM t"); got != "1" {
		t.Errorf("read %q after the crash, want 1", got)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	srv := start(t, Options{TempRoot: tempRoot(t), TCP: "127.0.0.1:0"})
	execute(t, srv.URL("", ""), "CREATE ROLE teller LOGIN")

	open := "postgres://teller@" + srv.TCPAddr() + "/postgres?sslmode=disable"
	for _, url := range []string{open, srv.TCPURL(srv.TCPAddr(), "", "teller")} {
		if conn, err := pgx.Connect(t.Context(), url); err == nil {
			conn.Close(t.Context())
			t.Error("a login without a password came in over TCP")
		}
	}
	if err := srv.AllowTCP(t.Context(), "teller", Superuser); err != nil {
		t.Fatal(err)
	}
	addr := srv.TCPAddr()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"teller", Superuser} {
		if got := query(t, srv.TCPURL(addr, "", user), "SELECT current_user::text"); got != user {
			t.Errorf("over TCP as %q, want %q", got, user)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"long root":         {Options{TempRoot: "/tmp/" + strings.Repeat("x", 60)}, "socket paths"},
		"name of a setting": {Options{Settings: map[string]string{"a = 'b'\nfsync": "off"}}, "not the name"},
		"line in a setting": {Options{Settings: map[string]string{"work_mem": "1MB\nfsync = off"}}, "line break"},
		"TCP for everybody": {Options{TCP: "0.0.0.0:0"}, "loopback"},
		"unknown setting":   {Options{Settings: map[string]string{"no_such_thing": "1"}}, "no_such_thing"},
		"foreign folder":    {Options{DataDir: "/usr"}, "neither empty nor a data folder"},
		"missing version":   {Options{Major: 98}, "98"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tempRoot(t)
			if tc.opts.TempRoot == "" {
				tc.opts.TempRoot = root
			}
			srv, err := Start(t.Context(), tc.opts)
			if err == nil {
				t.Fatal(errors.Join(errors.New("started"), srv.Stop(t.Context())))
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q lacks %q", err, tc.want)
			}
			wantEmpty(t, root)
		})
	}
}

func TestStartTimeout(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no longer wanted")
	cancel(cause)
	if _, err := Start(ctx, Options{TempRoot: root}); err == nil {
		t.Error("started under an ended context")
	}
	wantEmpty(t, root)
}

func TestURLEscapes(t *testing.T) {
	t.Parallel()
	srv := &Server{run: "/tmp/rh-1 &x", port: 5432}
	cfg, err := pgx.ParseConfig(srv.URL("a b/c?", "it's @me"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "/tmp/rh-1 &x" || cfg.Database != "a b/c?" || cfg.User != "it's @me" {
		t.Errorf("parsed as host %q, database %q, user %q", cfg.Host, cfg.Database, cfg.User)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	if err := Reachable("/tmp/does/not/exist/yet"); err != nil {
		t.Error(err)
	}
	if err := Reachable("/dev/null/x"); err == nil {
		t.Error("a path below a device counts as reachable")
	}
	if os.Geteuid() != 0 {
		return // folders of others are the server's own problem only where it changes account
	}
	private := filepath.Join(tempRoot(t), "root-only")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Reachable(filepath.Join(private, "data")); err == nil || !strings.Contains(err.Error(), private) {
		t.Errorf("folder of root alone: %v, want an error that names it", err)
	}
	link := filepath.Join(tempRoot(t), "link")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	if err := Reachable(filepath.Join(link, "not", "yet")); err == nil || !strings.Contains(err.Error(), private) {
		t.Errorf("link into a folder of root alone: %v, want an error that names the folder", err)
	}
	if err := os.Mkdir(filepath.Join(private, "open"), 0o755); err != nil {
		t.Fatal(err)
	}
	deeper := filepath.Join(tempRoot(t), "deeper")
	if err := os.Symlink(filepath.Join(private, "open"), deeper); err != nil {
		t.Fatal(err)
	}
	if err := Reachable(deeper); err == nil || !strings.Contains(err.Error(), private) {
		t.Errorf("link to an open folder in a closed one: %v, want an error that names the closed one", err)
	}
}

func TestStopUnderEndedContext(t *testing.T) {
	t.Parallel()
	root := tempRoot(t)
	srv := start(t, Options{TempRoot: root})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, root)
}
