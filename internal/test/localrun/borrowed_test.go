package localrun

import (
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

	conn, err := i.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := i.isOwnCell(t.Context(), conn); err != nil {
		t.Errorf("a database without the cell: %v", err)
	}
	budget := outbox.TimeBudget{HeartbeatStale: timeBudget.HeartbeatStale}
	if err := install.SetTimeBudget(t.Context(), cell.URL(""), cell.Schema, budget, cellMark); err != nil {
		t.Fatal(err)
	}
	i.admin = cell.URL("")
	refused("which railhead dev has not made and would give new passwords") // the cell is one of local runs now
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
