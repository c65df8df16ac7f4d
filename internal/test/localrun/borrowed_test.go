package localrun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestOthersServerIsNotTaken: a run on the server that DATABASE_URL names would send what waits in its cell to a
// simulated bank, and give its logins new passwords.
func TestOthersServerIsNotTaken(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	i := &installation{Options: Options{Cell: cell.Schema, DatabaseURL: cell.URL("")}, admin: cell.URL("")}
	refused := func(says string) {
		t.Helper()
		if err := i.borrow(t.Context()); !errors.Is(err, ErrBadOptions) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want it refused: %s", err, says)
		}
	}
	refused("no railhead dev has made it: its payments would be sent to a simulated bank") // it has a rail

	fresh := pgtest.New(t)
	i.admin = fresh.URL("")
	refused("which railhead dev has not made and would give new passwords") // the logins of this server's tests

	// A cell of another name is in use.
	i.admin, i.Cell = cell.URL(""), "local"
	refused("has cell " + cell.Schema + " in use, which no railhead dev has made")
	i.Cell = cell.Schema
	budget := outbox.TimeBudget{HeartbeatStale: timeBudget.HeartbeatStale}
	if err := install.SetTimeBudget(t.Context(), cell.URL(""), cell.Schema, budget, cellMark); err != nil {
		t.Fatal(err)
	}
	refused("which railhead dev has not made and would give new passwords") // the cell is one of local runs now
}

// TestServerOfOthers: roles belong to the whole server, so a run gives its logins those of cells in other databases.
func TestServerOfOthers(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.WithoutCancel(t.Context())) }) //nolint:errcheck // the test is over
	at := server.URL("postgres", pgserver.Superuser)
	i := &installation{Options: Options{Cell: "railhead", DatabaseURL: at}, admin: at}
	if err := i.borrow(t.Context()); err != nil {
		t.Errorf("an empty server: %v", err)
	}
	conn, err := i.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{
		"CREATE ROLE railhead_executor", "CREATE ROLE railhead_relayer_login LOGIN IN ROLE railhead_executor",
		"COMMENT ON ROLE railhead_relayer_login IS '" + loginMark + "'",
		"CREATE ROLE group_of_ours IN ROLE railhead_executor",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.borrow(t.Context()); err != nil {
		t.Errorf("a server with the logins of an earlier run: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE ROLE relayer_of_another LOGIN IN ROLE railhead_executor"); err != nil {
		t.Fatal(err)
	}
	err = i.borrow(t.Context())
	if !errors.Is(err, ErrBadOptions) || !strings.Contains(err.Error(), "relayer_of_another") {
		t.Errorf("a server on which another installation has the roles: %v", err)
	}
}

// TestNoVariableLeadsElsewhere: what a shell exports for another installation does not reach a child of a local run.
func TestNoVariableLeadsElsewhere(t *testing.T) {
	for name, value := range map[string]string{
		"RAILHEAD_CELLS": "EAST", "RAILHEAD_RELAYER_URL_EAST": "postgres://east", "DATABASE_URL": "postgres://east", "PGHOST": "east",
	} {
		t.Setenv(name, value)
	}
	private := &installation{server: new(pgserver.Server)}
	got := private.environment("RAILHEAD_CELL=railhead")
	for _, each := range got {
		name, _, _ := strings.Cut(each, "=")
		if strings.HasPrefix(name, "RAILHEAD_") && name != "RAILHEAD_CELL" || name == "DATABASE_URL" || name == "PGHOST" {
			t.Errorf("a child gets %s", each)
		}
	}
	if !slices.Contains(got, "RAILHEAD_CELL=railhead") {
		t.Error("a child does not get its own cell")
	}
	if !slices.Contains((&installation{}).environment(), "PGHOST=east") {
		t.Error("what the string in DATABASE_URL leaves to libpq is lost")
	}
}
