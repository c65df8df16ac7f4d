package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestAdministratorHearsOfLocalCommits has an administrator's commits wait for a standby
// that never answers, and cancels the waits. PostgreSQL then reports success with a
// warning, also in another language: the command must not report success.
func TestAdministratorHearsOfLocalCommits(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	who := at(t, cell)
	super := cell.Conn(t, "")
	do := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	do(`ALTER ROLE postgres IN DATABASE ` + cell.Name + ` SET client_min_messages = 'error'`)
	do(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	do(`SELECT pg_reload_conf()`)
	waits := cell.Conn(t, "")
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if _, err := waits.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE wait_event = 'SyncRep'`); err != nil {
				t.Errorf("cancelling waits: %v", err)
				return
			}
		}
	}()
	defer func() {
		do(`ALTER SYSTEM RESET synchronous_standby_names`)
		do(`SELECT pg_reload_conf()`)
		close(ended)
		<-stopped
	}()
	for _, args := range [][]string{
		{"token", "create", "--name", "shop", "--participant", "p1", "--reason", "to be tested"},
		{"roles", "login", "local_commits", "--role", "railhead_readonly", "--no-password"},
		{"migrate", "up", "--cell", "another"},
	} {
		got := who.want(exitFailure, args...)
		if !strings.Contains(got.errors, "may not be on its standby") || strings.Contains(got.out, "rht_") {
			t.Errorf("%v: %s%s", args, got.out, got.errors)
		}
	}
}

// TestRefusalWaitsForTheStandby: after an act whose commit no standby has, the same command is not refused as if it had
// been done for good, and its advice is not to look at what this server alone has.
func TestRefusalWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	who := at(t, cell)
	enqueued(who, "INV-1")
	standby(t, cell, "'absent'")
	for _, try := range []string{"the act", "the same act again"} {
		got := who.want(exitUnreachable, "payment", "cancel", "INV-1", "--reason", "to be tested")
		if !strings.Contains(got.errors, outbox.ErrCommitUnknown.Error()) || !strings.Contains(got.errors, repeatOnPayment) {
			t.Errorf("%s: %s%s", try, got.out, got.errors)
		}
	}
	standby(t, cell, "DEFAULT")
	got := who.want(exitNotAllowed, "payment", "cancel", "INV-1", "--reason", "to be tested")
	if !strings.Contains(got.errors, "the instruction is CANCELLED") {
		t.Errorf("with the standby: %s%s", got.out, got.errors)
	}
}

// TestEnqueueWithoutTheStandby: an enqueue does not wait for a standby longer than an act does, and says what to do.
func TestEnqueueWithoutTheStandby(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	standby(t, cell, "'absent'")
	line := `{"instruction_id": "i", "participant_id": "p2", "idempotency_key": "i", "rail_type": "bank",` +
		`"payload": {"amount": "10.50", "currency": "EUR"}}`
	t.Run("away", func(t *testing.T) {
		for name, args := range map[string][]string{
			"one": {"enqueue", "--instruction-id", "INV-1", "--participant-id", "p1", "--idempotency-key", "INV-1",
				"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR"},
			"a file": {"enqueue", "--file", "-"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				who := at(t, cell)
				who.stdin = line
				back := time.AfterFunc(40*time.Second, func() { // a command without a bound ends then
					cell.Exec("ALTER SYSTEM SET synchronous_standby_names = DEFAULT")
					cell.Exec("SELECT pg_reload_conf()")
				})
				defer back.Stop()
				begun := time.Now()
				got := who.want(exitUnreachable, args...)
				if took := time.Since(begun); took > 40*time.Second {
					t.Errorf("it took %s", took)
				}
				if !strings.Contains(got.errors, outbox.ErrCommitUnknown.Error()) ||
					!strings.Contains(got.errors, "Run the same command again") {
					t.Errorf("it said %s%s", got.out, got.errors)
				}
			})
		}
	})
	standby(t, cell, "DEFAULT") // or the database can't be dropped
}

// standby names the synchronous standby of a cell's server. With one that is away it returns once commits wait.
func standby(t *testing.T, cell *celltest.Cell, name string) {
	t.Helper()
	super := cell.Conn(t, "")
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = ` + name, `SELECT pg_reload_conf()`} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for waits := name != "'absent'"; !waits; {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := cell.Conn(t, "").Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', 'written')")
		cancel()
		if err != nil && !pgconn.Timeout(err) {
			t.Fatal(err)
		}
		cell.QueryRow("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')", nil, &waits)
	}
}
