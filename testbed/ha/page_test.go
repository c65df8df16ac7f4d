package ha

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/railsim"
)

// bareProfile is the profile of a rail that executes whatever arrives.
const bareProfile = `acceptance: FINAL
id_after_refusal: NEW
timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 2s, body: 500ms}
codes: {table: iso20022}
resend_on_unknown: NEVER`

var typePage = flag.Bool("page", false, "build a highly available cell by the words of its page")

// TestPage runs steps 2 to 8 of the chapter as they are printed. The test is the bank, and
// judges by its ledger.
func TestPage(t *testing.T) {
	if !*typePage {
		t.Skip("a cell of three hosts takes minutes: make test PKG=./testbed/ha ARGS=-page")
	}
	hosts := newPageHosts(t)
	ledger := pageBank(t, hosts)
	for _, step := range []string{"2", "3", "4", "5", "6"} {
		doStep(t, hosts, step)
	}
	wantExecuted(t, ledger, "before-1", "after-1")
	doStep(t, hosts, "7")
	doStep(t, hosts, "8")
	// The restore has forgotten a payment that the bank executed, and nothing else.
	wantExecuted(t, ledger, "before-1", "after-1", "forgotten-1")
	if got := inCell(t, hosts); !slices.Equal(got, []string{"after-1", "before-1"}) {
		t.Errorf("after the restore the cell has %q", got)
	}
	if all := hosts.primaries(t.Context()); len(all) != 1 {
		t.Errorf("%d hosts lead", len(all))
	}
}

func newPageHosts(t *testing.T) *Hosts {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin+"/", "./cmd/railhead")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	hosts, err := NewHosts(t.Context(), Programs{Root: "../..", Railhead: bin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the logs of the hosts are in %s", hosts.dir)
			return
		}
		if err := hosts.Discard(); err != nil {
			t.Error(err)
		}
	})
	// The account of the servers runs the program too.
	program := filepath.Join(hosts.dir, "railhead")
	text, err := os.ReadFile(filepath.Join(bin, "railhead"))
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	hosts.path = hosts.dir + ":" + hosts.path
	return hosts
}

// pageBank starts the bank, sets the variables of the host of the applications, and returns
// the bank's ledger.
func pageBank(t *testing.T, hosts *Hosts) string {
	t.Helper()
	ledger := filepath.Join(t.TempDir(), "bank.jsonl")
	bank, err := simrail.Serve(railsim.Config{
		LedgerPath: ledger, Behaviour: railsim.Behaviour{NoDedupe: true}, Mode: railsim.Sync, Draw: railsim.DrawByArrival})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bank.Close() })
	text, err := railsfile.Text(railsfile.Rail{Name: "bare", URL: bank.URL, Profile: bareProfile,
		Reference: railsfile.Instruction})
	if err != nil {
		t.Fatal(err)
	}
	rails := filepath.Join(hosts.dir, "application", "rails.yaml")
	if err := os.WriteFile(rails, text, 0o644); err != nil {
		t.Fatal(err)
	}
	free, err := child.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	hosts.more = []string{"RAIL=bare", "RAILHEAD_RAILS_FILE=" + rails, "RAILHEAD_HTTP_ADDR=" + free,
		"RAILHEAD_STATE_DIR=" + filepath.Join(hosts.dir, "application", "state"), "LOGIN_PASSWORD=" + secret,
		"RAILHEAD_HEARTBEAT_EVERY=500ms", "RAILHEAD_REFRESH_EVERY=500ms"}
	for variable, login := range map[string]string{"RELAYER": "relayer_1", "REAPER": "reaper_1", "INGEST": "ingest_1",
		"OPERATOR": "operator_1", "READER": "reader_1"} {
		hosts.more = append(hosts.more, "RAILHEAD_"+variable+"_URL="+hosts.URL(database, login))
	}
	return ledger
}

func doStep(t *testing.T, hosts *Hosts, step string) {
	t.Helper()
	begun := time.Now()
	if err := hosts.Step(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	t.Logf("step %s took %s", step, time.Since(begun).Round(time.Second))
}

// wantExecuted compares the bank's ledger with the payments that it must have executed, once
// each.
func wantExecuted(t *testing.T, ledger string, want ...string) {
	t.Helper()
	records, err := railsim.ReadLedger(ledger)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, record := range records {
		if record.Kind == railsim.Executed {
			got = append(got, record.Reference)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the bank executed %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// inCell returns the instructions of the cell, sorted.
func inCell(t *testing.T, hosts *Hosts) (all []string) {
	t.Helper()
	var last error
	if err := await.Until(t.Context(), time.Minute, "the instructions of the cell", func() (bool, error) {
		conn, err := pgx.Connect(t.Context(), hosts.URL(database, ""))
		if last = err; err != nil {
			return false, nil
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		last = conn.QueryRow(t.Context(), `SELECT array_agg(instruction_id ORDER BY instruction_id)
			FROM railhead.payment_outbox_keys`).Scan(&all)
		return last == nil, nil
	}); err != nil {
		t.Fatal(err, last)
	}
	return all
}
