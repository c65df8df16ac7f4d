package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// stopTimeout bounds the end of the shared server.
const stopTimeout = 30 * time.Second

// shared is the one global of the package: a test binary has no other place from which its tests,
// which the testing package calls without arguments of ours, could share a server.
var shared sharedCluster

type sharedCluster struct {
	mu     sync.Mutex
	c      *Cluster
	server *pgserver.Server // nil with TEST_DATABASE_URL
	err    error            // of the first attempt: a machine without PostgreSQL fails fast for all tests
}

func (s *sharedCluster) cluster(ctx context.Context) (*Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil && s.err == nil {
		// The end of the first test must not end the server of the others.
		s.err = s.open(context.WithoutCancel(ctx))
	}
	return s.c, s.err
}

func (s *sharedCluster) open(ctx context.Context) error {
	url := os.Getenv(pgserver.EnvURL)
	if url == "" {
		srv, err := pgserver.Start(ctx, pgserver.Options{Settings: pgserver.TestSettings()})
		if err != nil {
			return err
		}
		s.server, url = srv, srv.URL("postgres", "")
	}
	c, err := Open(ctx, url)
	if err != nil {
		return err
	}
	s.c = c
	return nil
}

func (s *sharedCluster) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.c != nil {
		errs = append(errs, s.c.Close(ctx))
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Main runs the tests and then ends the server that they may have started. Call it from TestMain.
// Without it, and if the test binary crashes, the server dies with the process all the same; only
// its temporary folder stays until the next start of a server.
func Main(m *testing.M) {
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := shared.close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ending the server for tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// MainOn is like Main, for tests that share one database, as Examples do: a clone of from, which
// prepare prepares before they run. The function that prepare returns is called after them.
func MainOn(m *testing.M, from Template, prepare func(ctx context.Context, db *DB) (end func() error, err error)) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	db, end, err := prepared(ctx, from, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing the database of these tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	ctx, cancel = context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := errors.Join(end(), db.drop(ctx), shared.close(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "ending what these tests ran on:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func prepared(
	ctx context.Context, from Template, prepare func(context.Context, *DB) (func() error, error),
) (*DB, func() error, error) {
	c, err := shared.cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err := c.clone(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	end, err := prepare(ctx, db)
	return db, end, err
}

// AdminURL returns the superuser's connection string of the server that the test binary shares,
// for tests that inspect the cluster itself.
func AdminURL(t testing.TB) string {
	t.Helper()
	c, err := shared.cluster(t.Context())
	if err != nil {
		t.Fatalf("server for tests: %v", err)
	}
	return c.adminURL
}

// Server starts a server for one test, to be halted, killed and restarted at will, and a Cluster on
// it. Both end with the test. Settings of opts are added to [pgserver.TestSettings].
func Server(t testing.TB, opts pgserver.Options) (*pgserver.Server, *Cluster) {
	t.Helper()
	settings := pgserver.TestSettings()
	maps.Copy(settings, opts.Settings)
	opts.Settings = settings
	srv, err := pgserver.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("server for this test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := srv.Stop(ctx); err != nil {
			t.Errorf("stopping the server: %v", err)
		}
	})
	c, err := Open(t.Context(), srv.URL("postgres", ""))
	if err != nil {
		t.Fatalf("server for this test: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Logf("closing the cluster: %v", err) // its server may be down on purpose
		}
	})
	return srv, c
}
