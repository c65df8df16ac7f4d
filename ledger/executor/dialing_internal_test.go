package executor

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// named returns the connection to a host of which a look-up returns what is given.
func named(t *testing.T, lookup func(context.Context, string) ([]string, error)) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://u@db.example/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.ConnectTimeout, config.LookupFunc = 200*time.Millisecond, lookup
	return config
}

// connectUntil calls connect as the turns of a relayer do, each for a moment, until what is expected has happened.
func connectUntil(t *testing.T, d *dialing, config *pgx.ConnConfig, happened func() bool) {
	t.Helper()
	for begun := time.Now(); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("it did not happen; %d failures, the last of them %v", d.failures, d.last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := d.connect(ctx, config); err == nil {
			t.Error("a session without a server")
		}
		cancel()
	}
}

// TestArmByANameOfSeveralAddresses tests a host name with two addresses, the first of which takes connections and says
// nothing: the second one is tried.
func TestArmByANameOfSeveralAddresses(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	answers, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	var tries atomic.Int64
	go func() {
		for {
			conn, err := answers.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			conn.Close()
		}
	}()
	config := named(t, func(context.Context, string) ([]string, error) {
		return []string{silent.Addr().String(), answers.Addr().String()}, nil
	})
	var d dialing
	defer d.close(t.Context())
	connectUntil(t, &d, config, func() bool { return tries.Load() > 0 })
}

// TestArmByANameThatHangs tests a look-up of the host that does not end by itself: the attempt ends, and there are
// others.
func TestArmByANameThatHangs(t *testing.T) {
	t.Parallel()
	var d dialing
	defer d.close(t.Context())
	config := named(t, func(ctx context.Context, _ string) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	connectUntil(t, &d, config, func() bool { return d.failures >= 2 })
}
