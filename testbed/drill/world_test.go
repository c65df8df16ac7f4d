package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// The rails of the drill, by what their bank does with a key that it has seen.
const (
	bare  = "bare"  // executes every send
	keyed = "keyed" // executes once
)

// quick holds the lines that both profiles share.
const quick = `acceptance: FINAL
id_after_refusal: NEW
timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 2s, body: 500ms}
codes: {table: iso20022}
`

var profiles = map[string]string{
	bare:  quick + "resend_on_unknown: NEVER",
	keyed: quick + "resend_on_unknown: SAME_KEY\nkey_window: 24h\nanswer_covers_key: true",
}

// name is the prefix of the names of participants and payments of the drill.
const name = "drill-1"

// world is an installation as the page presupposes it, and the part of the test in it: the callers
// and the banks.
type world struct {
	t         *testing.T
	dir       string
	server    *pgserver.Server
	banks     map[string]*simrail.Served
	ingest    *ingest.Ingest
	statement string
	terminals map[string]*terminal
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), banks: make(map[string]*simrail.Served)}
	w.statement = filepath.Join(w.dir, "statement")
	server, err := pgserver.Start(t.Context(), pgserver.Options{Major: major(t), Settings: pgserver.TestSettings()})
	if err != nil {
		t.Fatalf("server of the drill: %v", err)
	}
	w.server = server
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("removing the server of the drill: %v", err)
		}
	})
	budget := outbox.TimeBudget{StartWithin: time.Second, HeartbeatStale: 3 * time.Second}
	if _, err := install.On(t.Context(), server, "railhead", budget); err != nil {
		t.Fatal(err)
	}
	w.openBanks()
	w.openTerminals(w.build())
	if w.ingest, err = ingest.Open(t.Context(), ledger.Config{URL: w.url(install.Ingest), Cell: "railhead"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.ingest.Close)
	return w
}

// major picks a version of PostgreSQL that has all programs that the page uses. A server from npm
// or from a bare server package has only the server's programs.
func major(t *testing.T) int {
	t.Helper()
	var lacking []string
	for _, major := range []int{0, 15, 16, 17, 18} { // 0: the one that every test takes
		found, err := pgserver.Find(t.Context(), major)
		if errors.Is(err, pgserver.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole := true
		for _, program := range []string{"psql", "pg_basebackup", "pg_verifybackup"} {
			if _, err := os.Stat(found.Path(program)); err != nil {
				lacking, whole = append(lacking, found.Path(program)), false
			}
		}
		if whole {
			return found.Major
		}
	}
	if lacking == nil {
		t.Fatal(pgserver.ErrNotFound)
	}
	t.Skipf("the drill was not run: it needs PostgreSQL's client programs, and these are missing: %q",
		slices.Compact(slices.Sorted(slices.Values(lacking))))
	return 0
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

// build returns the folder of the railhead binary.
func (w *world) build() string {
	w.t.Helper()
	dir := filepath.Join(w.dir, "bin")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "railhead"), "./cmd/railhead")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, output)
	}
	return dir
}

// openBanks starts the banks and writes the rails file with their addresses.
func (w *world) openBanks() {
	w.t.Helper()
	var all []railsfile.Rail
	for rail, profile := range profiles {
		bank, err := simrail.Serve(railsim.Config{
			LedgerPath: w.ledger(rail), Behaviour: railsim.Behaviour{NoDedupe: rail == bare}, Mode: railsim.Sync,
			Draw: railsim.DrawByArrival,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() {
			if err := bank.Close(); err != nil {
				w.t.Error(err)
			}
		})
		w.banks[rail] = bank
		all = append(all, railsfile.Rail{Name: rail, URL: bank.URL, Profile: profile, Reference: railsfile.Key})
	}
	text, err := railsfile.Text(all...)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.rails(), text, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rails() string             { return filepath.Join(w.dir, "rails.yaml") }
func (w *world) ledger(rail string) string { return filepath.Join(w.dir, rail+".jsonl") }

// openTerminals opens the page's two terminals, with the variables that it names.
func (w *world) openTerminals(bin string) {
	w.t.Helper()
	data, host := w.server.DataDir(), w.server.SocketDir()
	path := "PATH=" + w.server.Binaries().Dir + ":" + bin + ":" + os.Getenv("PATH")
	as, backup := w.postgres(), filepath.Join(host, "backup")
	if err := os.Mkdir(backup, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if as != nil {
		if err := os.Chown(backup, int(as.Uid), int(as.Gid)); err != nil {
			w.t.Fatal(err)
		}
	}
	free, err := child.FreeAddr()
	if err != nil {
		w.t.Fatal(err)
	}
	operator := []string{
		path, "HOME=" + w.dir, "RAILHEAD_RAILS_FILE=" + w.rails(), "RAILHEAD_STATE_DIR=" + filepath.Join(w.dir, "state"),
		"RAILHEAD_HTTP_ADDR=" + free, "RAIL=" + bare, "STATEMENT=" + w.statement, "DRILL=" + name,
		"RAILHEAD_POLL=100ms", "RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REFRESH_EVERY=300ms",
		"RAILHEAD_REAP_EVERY=500ms", "RAILHEAD_REAP_GRACE=1s",
	}
	for component, login := range map[string]string{
		"INGEST": "ingest", "RELAYER": "relayer", "REAPER": "reaper", "OPERATOR": "operator", "READER": "readonly", "AUDITOR": "auditor",
	} {
		operator = append(operator, "RAILHEAD_"+component+"_URL="+w.url("railhead_"+login+"_login"))
	}
	postgres := []string{
		path, "PGDATA=" + data, "PGHOST=" + host, "PGPORT=5432", "PGDATABASE=" + install.Database,
		"PGUSER=" + pgserver.Superuser, "BACKUP=" + backup,
	}
	w.terminals = map[string]*terminal{
		// The server that the page has restored is not a child of this process.
		"postgres": openTerminal(w.t, "postgres", w.readable(), postgres, as, "pg_ctl stop --silent --mode=immediate"),
		"operator": openTerminal(w.t, "operator", w.dir, operator, nil, ":"),
	}
	w.terminals["operator"].run(w.t, block{step: "0", text: `railhead rail apply "$RAILHEAD_RAILS_FILE" --reason "first installation"`})
}

// postgres returns the account that the server runs as, or nil if it is this process's.
func (w *world) postgres() *syscall.Credential {
	w.t.Helper()
	info, err := os.Stat(w.server.DataDir())
	if err != nil {
		w.t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
}

// readable makes a folder that the server's account may enter and this process may write to.
func (w *world) readable() string {
	w.t.Helper()
	dir := filepath.Join(w.server.SocketDir(), "terminal")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// enqueue calls as a caller does, for the first time or again.
func (w *world) enqueue(rail, participant, id string) payment.Receipt {
	w.t.Helper()
	receipt, err := w.ingest.Enqueue(w.t.Context(), payment.Instruction{
		InstructionID: id, ParticipantID: participant, IdempotencyKey: id, RailType: rail,
		Payload: json.RawMessage(`{"amount": "1.00", "currency": "EUR", "debtor": {"account": "drill"}, "creditor": {"account": "drill"}}`),
	})
	if err != nil {
		w.t.Fatalf("enqueue of %s: %v", id, err)
	}
	return receipt
}

// publish writes the statement of a bank: exactly the payments that it has executed, and a line about something else,
// as Windows writes it.
func (w *world) publish(rail string) {
	w.t.Helper()
	var text strings.Builder
	for _, record := range w.executed(rail) {
		fmt.Fprintf(&text, "%s\t%s\r\n", record.Reference, record.ID)
	}
	text.WriteString("booking fee\t1.00\r\n")
	if err := os.WriteFile(w.statement, []byte(text.String()), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// executed returns the executions in the bank's ledger file.
func (w *world) executed(rail string) []railsim.Record {
	w.t.Helper()
	records, err := railsim.ReadLedger(w.ledger(rail))
	if err != nil {
		w.t.Fatal(err)
	}
	var moved []railsim.Record
	for _, record := range records {
		if record.Kind == railsim.Executed {
			moved = append(moved, record)
		}
	}
	return moved
}

// query reads one row of text as the superuser.
func (w *world) query(sql string, args ...any) string {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url(pgserver.Superuser))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(w.t.Context()))
	var text string
	if err := conn.QueryRow(w.t.Context(), sql, args...).Scan(&text); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// state returns the state of an instruction in the cell, "none" if the cell has no such
// instruction.
func (w *world) state(id string) string {
	w.t.Helper()
	return w.query(`SELECT coalesce(max(state), 'none') FROM railhead.supervisor_outbox_status
		WHERE instruction_id = $1`, id)
}

// await polls until a statement returns what is wanted.
func (w *world) await(want, sql string, args ...any) {
	w.t.Helper()
	got := ""
	if err := await.Until(w.t.Context(), time.Minute, want, func() (bool, error) {
		got = w.query(sql, args...)
		return got == want, nil
	}); err != nil {
		w.t.Fatalf("%s %v is %q: %v", sql, args, got, err)
	}
}
