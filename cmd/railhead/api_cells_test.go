package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// twoCellsBegun are the cells east and west of one directory, of which west takes the bucket of p1, 985.
func twoCellsBegun(t *testing.T) *cellWorld {
	w := newCellWorld(t)
	delete(w.cells, "north")
	east := w.at("east")
	east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	east.want(exitOK, "cell", "add", "west", "--setting", "WEST", "--reason", "we grow")
	east.want(exitOK, "cell", "assign", "west", "985", "--reason", "we grow")
	return w
}

// shut lets no session into a cell's database, and ends those that are there; or opens it again.
func shut(cell, by *celltest.Cell, closed bool) {
	var name string
	cell.QueryRow(`SELECT current_database()`, nil, &name)
	by.Exec(fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS %t`, name, !closed))
	if closed {
		by.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = $2`, name,
			celltest.API)
	}
}

// TestAPIServesSeveralCells: one process takes the instructions of both cells by a token that both have, also while the
// database of one is away, whose participants get 503; and those of that one when it is back.
func TestAPIServesSeveralCells(t *testing.T) {
	t.Parallel()
	w := twoCellsBegun(t)
	admin := command{t: t, env: w.inCells("RAILHEAD_ADMIN_URL", "")}
	token := strings.TrimSpace(admin.want(exitOK, "token", "create", "--name", "shop", "--participant", "p1,p2", "--cells",
		"EAST,WEST", "--reason", "a test").out)
	file := filepath.Join(t.TempDir(), "addr")
	env := append(w.inCells("RAILHEAD_API_URL", celltest.API), w.inCells("RAILHEAD_METRICS_URL", celltest.Readonly)...)
	metrics := start(t, "api", "postgres://unknown@127.0.0.1:1/nowhere", append(env, "RAILHEAD_CELLS=EAST,WEST",
		"RAILHEAD_API_ADDR_FILE="+file, "RAILHEAD_HEARTBEAT_EVERY=200ms")...)
	var addr []byte
	awaitThat(t, func() (err error) {
		addr, err = os.ReadFile(file)
		return err
	})
	post := func(participant string, n int) (int, string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"instruction_id": fmt.Sprintf("i-%s-%d", participant, n),
			"participant_id": participant, "rail_type": "bank", "payload": map[string]string{"amount": "10.50",
				"currency": "EUR"}})
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+strings.TrimSpace(string(addr))+"/v1/instructions", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", fmt.Sprintf("k-%d", n))
		answered, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answered.Body.Close()
		text, err := io.ReadAll(answered.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answered.StatusCode, string(text)
	}
	want := func(participant string, n, status int) {
		t.Helper()
		if got, text := post(participant, n); got != status {
			t.Errorf("%s: %d %s, want %d", participant, got, text, status)
		}
	}
	want("p1", 1, 201)
	want("p2", 1, 201)
	want("p1", 1, 200)
	if east, west := keysOf(w.cells["east"]), keysOf(w.cells["west"]); east != 1 || west != 1 {
		t.Errorf("%d instructions are in east, and %d in west", east, west)
	}
	awaitMetrics(t, metrics, `railhead_api_answers_total{class="2xx",operation="enqueue"} 3`,
		`railhead_database_up{cell="EAST"} 1`, `railhead_components{cell="WEST",kind="ingest",status="fresh"} 1`,
		`railhead_component_info{cell="EAST",component="api"} 1`, `railhead_component_info{cell="WEST",component="api"} 1`)

	shut(w.cells["west"], w.cells["east"], true)
	eventually(t, "the cell that is away to be named", func() bool {
		status, said := readiness(t, metrics)
		return status == http.StatusOK && strings.Contains(said, "cell WEST: ") && !strings.Contains(said, "cell EAST")
	})
	want("p1", 2, 503)
	want("p2", 2, 201)
	shut(w.cells["west"], w.cells["east"], false)
	eventually(t, "the cell that is back", func() bool {
		status, _ := post("p1", 2)
		return status == 201
	})
	if west := keysOf(w.cells["west"]); west != 2 {
		t.Errorf("%d instructions are in west, want 2", west)
	}
}

// keysOf counts the instructions of a cell.
func keysOf(cell *celltest.Cell) int {
	return cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`)
}

// TestAPIOfSeveralCellsIsChecked: a process does not start with a setting that leads to another cell, or with cells of
// two directories, where one key could be two payments, or without the right to enqueue in none but cells that have a
// map.
func TestAPIOfSeveralCellsIsChecked(t *testing.T) {
	t.Parallel()
	w := twoCellsBegun(t)
	who := command{t: t, env: append(w.inCells("RAILHEAD_API_URL", celltest.API), "RAILHEAD_CELLS=EAST,WEST")}
	says := func(code int, what string, more ...string) {
		t.Helper()
		if got := (command{t: t, env: append(who.env, more...)}).want(code, "api"); !strings.Contains(got.errors, what) {
			t.Errorf("it does not say %q:\n%s", what, got.errors)
		}
	}
	says(exitUsage, "for cell NORTH: set RAILHEAD_API_URL_NORTH", "RAILHEAD_CELLS=EAST,NORTH")
	says(exitUsage, "a setting leads to another cell", "RAILHEAD_API_URL_WEST="+w.cells["east"].URL(celltest.API))
	other := newCellWorld(t)
	other.at("west").want(exitOK, "cell", "add", "west", "--setting", "WEST", "--first", "--reason", "another one")
	says(exitUsage, "a cell is of another directory", "RAILHEAD_API_URL_WEST="+other.cells["west"].URL(celltest.API))
	w.cells["west"].Exec(`REVOKE EXECUTE ON FUNCTION railhead.require_directory FROM railhead_api`)
	says(exitDenied, "railhead roles apply grants them")
	w.cells["west"].Exec(`GRANT EXECUTE ON FUNCTION railhead.require_directory TO railhead_api`)
	w.cells["west"].Exec("UPDATE railhead.payment_outbox_settings SET allow_second_key = true")
	says(exitUsage, "second keys")
}
