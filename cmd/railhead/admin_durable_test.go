package main

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
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
