package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// ofTwo are the variables of a process of the cells east and west.
func ofTwo(east, west *celltest.Cell, more ...string) []string {
	var env []string
	for setting, cell := range map[string]*celltest.Cell{"EAST": east, "WEST": west} {
		env = append(env, "RAILHEAD_RELAYER_URL_"+setting+"="+cell.URL(celltest.Relayer),
			"RAILHEAD_REAPER_URL_"+setting+"="+cell.URL(celltest.Reaper))
	}
	return append(env, more...)
}

// paid awaits the payment of so many instructions of a cell.
func paid(t *testing.T, cell *celltest.Cell, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d paid", want), func() bool {
		return cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`) == want
	})
}

// readiness reads /readyz.
func readiness(t *testing.T, metrics string) (status int, text string) {
	t.Helper()
	answer, err := http.Get(strings.TrimSuffix(metrics, "/metrics") + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(read)
}

// TestOneProcessServesSeveralCells: a relayer and a reaper of one process work for each cell, whose metrics have
// its label; a cell that can't be reached keeps no other one waiting, and /readyz names it.
func TestOneProcessServesSeveralCells(t *testing.T) {
	t.Parallel()
	east, west, memory := celltest.New(t), celltest.New(t), t.TempDir()
	enqueued(at(t, east), "INV-1")
	enqueued(at(t, west), "INV-1", "INV-2")
	metrics := start(t, "run", "postgres://unknown@127.0.0.1:1/nowhere", ofTwo(east, west,
		"RAILHEAD_CELLS=EAST,WEST,NORTH", "DATABASE_URL_NORTH=postgres://unknown@127.0.0.1:1/nowhere",
		"RAILHEAD_STATE_DIR="+memory)...)
	paid(t, east, 1)
	paid(t, west, 2)
	awaitMetrics(t, metrics,
		`attempts_total{cell="EAST",state="DISPATCHED"} 1`, `attempts_total{cell="WEST",state="DISPATCHED"} 2`,
		`outbox_pending_depth{cell="WEST",rail="bank"} 0`, `railhead_components{cell="EAST",kind="reaper",status="fresh"} 1`,
		`railhead_rail_in_flight{cell="WEST",rail="bank"} 0`, `railhead_reaper_cycles_total{cell="EAST",result="ok"}`,
		`railhead_database_up{cell="EAST"} 1`, `railhead_database_up{cell="NORTH"} 0`,
		`railhead_build_info{component="relayer"`, `railhead_component_info{cell="NORTH",component="reaper"} 1`)
	eventually(t, "only the cell that can't be reached not to be ready", func() bool {
		status, said := readiness(t, metrics)
		return status == http.StatusOK && strings.HasPrefix(said, "ready\nrelayer of NORTH: ") &&
			strings.Contains(said, "reaper of NORTH: ") && !strings.Contains(said, "EAST") && !strings.Contains(said, "WEST")
	})
	for _, file := range []string{"relayer-railhead-EAST", "reaper-railhead-WEST"} {
		if _, err := os.Stat(filepath.Join(memory, file+"-server.json")); err != nil {
			t.Error(err)
		}
	}
}

// TestCellThatCantBeServed: a component that can't go on in one cell is started again until it can, and those of
// the other cell work meanwhile.
func TestCellThatCantBeServed(t *testing.T) {
	t.Parallel()
	east, west := celltest.New(t), celltest.New(t)
	metrics := start(t, "relayer", "postgres://unknown@127.0.0.1:1/nowhere", ofTwo(east, west,
		"RAILHEAD_CELLS=EAST,WEST", "RAILHEAD_DRAIN_WEST=7s", "RAILHEAD_WORKER_ID=box", "RAILHEAD_LOG_FORMAT=text")...)
	eventually(t, "the cell that can't be served", func() bool {
		_, said := readiness(t, metrics)
		return strings.Contains(said, "relayer of WEST: it could not go on, and is started again soon: ")
	})
	enqueued(at(t, east), "INV-1")
	enqueued(at(t, west), "INV-1")
	paid(t, east, 1)
	if n := west.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`); n != 0 {
		t.Errorf("the cell that can't be served has %d rows of the archive", n)
	}
	budget := outbox.DefaultTimeBudget()
	budget.Drain = 7 * time.Second
	west.SetTimeBudget(budget)
	paid(t, west, 1)
	awaitMetrics(t, metrics, `attempts_total{cell="WEST",state="DISPATCHED"} 1`,
		`railhead_rail_in_flight{cell="WEST",rail="bank"} 0`)
	// The one that could not go on wrote one heartbeat, or more of them where it was started again too soon.
	if n := west.Int(`SELECT count(*) FROM railhead.outbox_heartbeats
		WHERE kind = 'relayer' AND name IN ('box-west', 'box-west-2')`); n != 2 {
		t.Error("a relayer that was started again has the name of the one before")
	}
}

// TestComponentsOfOneProcessHaveTheirOwnNames: a relayer is counted as one, whichever component of its process
// has reported first.
func TestComponentsOfOneProcessHaveTheirOwnNames(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	start(t, "run", cell.URL(celltest.Relayer), "RAILHEAD_WORKER_ID=box")
	eventually(t, "both heartbeats", func() bool {
		return cell.Int(`SELECT count(*) FROM railhead.outbox_heartbeats
			WHERE (name, kind) IN (('box-relayer', 'relayer'), ('box-reaper', 'reaper'))`) == 2
	})
}

// TestSettingsOfCells: every fault of RAILHEAD_CELLS is named, with the variable to set, and a component that
// works for one cell says so.
func TestSettingsOfCells(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, says string
		env        []string
	}{
		{"relayer", "RAILHEAD_CELLS: \"west\" is not the name of a setting", []string{"RAILHEAD_CELLS=EAST,west"}},
		{"relayer", "RAILHEAD_CELLS names EAST twice", []string{"RAILHEAD_CELLS=EAST, EAST"}},
		{"relayer", "RAILHEAD_CELLS names no cell", []string{"RAILHEAD_CELLS=,"}},
		// The connection string of one cell is never that of another one.
		{"relayer", "for cell WEST: set RAILHEAD_RELAYER_URL_WEST", []string{
			"RAILHEAD_CELLS=WEST", "RAILHEAD_RELAYER_URL=postgres:///east", "DATABASE_URL=postgres:///east", "PGHOST=/tmp",
		}},
		{"reaper", "for cell WEST: set RAILHEAD_REAPER_URL_WEST", []string{
			"RAILHEAD_CELLS=EAST,WEST", "DATABASE_URL_EAST=postgres:///east",
		}},
		{"reaper", "RAILHEAD_CELL_WEST: \"West\" can't name a cell", []string{
			"RAILHEAD_CELLS=WEST", "RAILHEAD_CELL_WEST=West", "DATABASE_URL_WEST=postgres:///west",
		}},
		{"reaper", "for cell WEST: RAILHEAD_POLL: ", []string{
			"RAILHEAD_CELLS=WEST", "RAILHEAD_POLL_WEST=often", "DATABASE_URL_WEST=postgres:///west",
		}},
		{"callbacks", "callbacks works for one cell", []string{"RAILHEAD_CELLS=EAST"}},
	} {
		got := command{t: t, env: test.env}.want(exitUsage, test.kind)
		if !strings.Contains(got.errors, test.says) {
			t.Errorf("%v: it does not say %q:\n%s", test.env, test.says, got.errors)
		}
	}
}

// TestVariablesOfCellsAreNoOthers: no variable is that of a cell by accident, and the list names those that cells
// may have.
func TestVariablesOfCellsAreNoOthers(t *testing.T) {
	t.Parallel()
	listed, ofCells := listedVariables(t), 0
	for field := range reflect.TypeFor[settings]().Fields() {
		variable, of := field.Tag.Get("env"), field.Tag.Get("cell")
		if of == "" {
			continue
		}
		ofCells++
		for name := range listed {
			if setting, is := strings.CutPrefix(name, variable+"_"); is && settingShape.MatchString(setting) {
				t.Errorf("%s is also %s of a cell with setting %s", name, variable, setting)
			}
		}
	}
	if ofCells < 25 {
		t.Errorf("only %d variables can be those of a cell", ofCells)
	}
}
