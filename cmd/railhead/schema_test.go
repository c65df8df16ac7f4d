package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/migrations"
)

// A function of a cell that was changed by hand, and a cell that a newer build has migrated.
const (
	olderFunction = `DO $do$ BEGIN
		EXECUTE replace(pg_get_functiondef('railhead.refusal_covers_all_sends'::regproc), 'SELECT', 'SELECT /* as it was */');
	END $do$`
	newerMigration = `DO $do$ BEGIN
		EXECUTE regexp_replace(pg_get_functiondef('railhead.schema_version()'::regprocedure), 'migration [0-9]+, serves [0-9]+', 'migration 99, serves 98');
	END $do$; INSERT INTO railhead.schema_migrations (version_id, is_applied) VALUES (99, true)`
)

// TestAnotherSchemaIsRefused starts every process on a cell that another build has
// migrated: none works, each prints the command to run, and that corrects it.
func TestAnotherSchemaIsRefused(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	cell, who := m.cell, m.who
	commands := map[string][]string{
		"relayer": {"relayer"}, "reaper": {"reaper"}, "both": {"run"}, "callbacks": {"callbacks"},
		"ingest": {"enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", "k1", "--rail", "bank",
			"--amount", "1.00", "--currency", "EUR"},
		"operator": {"rail", "pause", "bank", "--reason", "a test"},
		"reader":   {"status"},
	}
	refused := func(says string) {
		t.Helper()
		for name, args := range commands {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got := within(ctx, who, args...)
			cancel()
			if got.code != exitFailure || !strings.Contains(got.errors, says) {
				t.Errorf("%s ends with %d and says %q; want %d and %q", name, got.code, got.errors, exitFailure, says)
			}
		}
	}
	cell.Exec(olderFunction)
	refused("(refusal_covers_all_sends differ): find out by whom, then run railhead migrate up and railhead roles apply")
	if got := who.want(exitOK, "migrate", "up", "--dry-run"); !strings.Contains(got.errors, "refusal_covers_all_sends") {
		t.Errorf("a dry run says %s", got.errors)
	}
	if got := who.want(exitOK, "migrate", "up"); !strings.Contains(got.errors,
		"0 migrations applied, 1 functions restored (refusal_covers_all_sends)") {
		t.Errorf("migrate up says %s", got.errors)
	}
	if got := who.want(exitOK, "migrate", "up", "--dry-run"); !strings.Contains(got.errors, "nothing would change") {
		t.Errorf("a dry run after it says %s", got.errors)
	}
	who.want(exitOK, "roles", "apply")
	who.want(exitOK, "roles", "diff")
	for _, name := range []string{"ingest", "operator", "reader"} {
		who.want(exitOK, commands[name]...)
	}

	cell.Exec(newerMigration)
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	refused(fmt.Sprintf("is at migration 99, which works with binaries that need migration 98 or a newer one, and this "+
		"binary ends at %d: start a binary as new as the one that migrated it", all[len(all)-1].Version))
	for _, act := range [][]string{{"migrate", "up"}, {"roles", "apply"}} {
		if got := who.want(exitFailure, act...); !strings.Contains(got.errors, "migration 99") {
			t.Errorf("%v of an older binary says %s", act, got.errors)
		}
	}
}

// within runs a command that may not end by itself.
func within(ctx context.Context, c command, args ...string) ran {
	c.t.Helper()
	var out, errs strings.Builder
	cmd := c.process(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func(cmd *exec.Cmd) {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}(cmd)
	_ = cmd.Wait()
	close(ended)
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}
