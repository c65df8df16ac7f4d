// Package upgrade migrates a cell from the last released build to this one, under traffic.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/railsim"
)

// released is the commit of the last released build, and releasedSchema the migration that it
// needs. The commit that follows a release sets both.
const (
	released       = "12ace0b7e564e7876cc4c3688baa2d18b7907542"
	releasedSchema = 13
)

const repository = "../.."

// enough is how many payments each phase has to see.
const enough = 20

// TestUpgrade installs the last released build, enqueues and dispatches with it, migrates the cell
// up under traffic, restarts an old relayer on the new schema, and runs old and new relayers
// together and then the new ones alone. The bank executes every send, so that its ledger shows
// what was sent twice.
//
// Where no migration came since the release, the new build gets one: a function has another
// body, and a table a column more.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.old, "roles", "apply")
	w.run(w.old, "migrate", "up")
	w.run(w.old, "roles", "apply")
	if err := install.EnsureLogins(t.Context(), w.url(pgserver.Superuser)); err != nil {
		t.Fatal(err)
	}
	w.run(w.old, "rail", "apply", w.rails, "--reason", "first installation")

	w.enqueueUntilEnd()
	first := w.start(w.old, "relayer", "old-1")
	w.start(w.old, "reaper", "old-reaper")
	w.dispatchedBy("old-1", enough)

	w.run(w.new, "migrate", "up")
	w.run(w.new, "roles", "apply")
	if got := w.version(); got <= releasedSchema {
		t.Fatalf("the cell is at migration %d after the upgrade, want one above %d", got, releasedSchema)
	}
	w.dispatchedBy("old-1", enough)
	w.start(w.old, "relayer", "old-2") // as after a crash in the middle of the upgrade
	w.dispatchedBy("old-2", enough)
	w.start(w.new, "relayer", "new-1")
	w.start(w.new, "reaper", "new-reaper")
	w.dispatchedBy("new-1", enough)
	w.stop(first)
	w.dispatchedBy("new-1", enough)

	sent := w.settle()
	if fresh := w.query(`SELECT count(*) FROM railhead.supervisor_outbox_status WHERE state <> 'DISPATCHED'`); fresh != 0 {
		t.Errorf("%d instructions are not DISPATCHED", fresh)
	}
	records, err := railsim.ReadLedger(w.ledger)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, record := range records {
		if record.Kind == railsim.Executed {
			times[record.Reference]++
		}
	}
	for key, n := range times {
		if n != 1 {
			t.Errorf("the bank has executed %s %d times", key, n)
		}
	}
	if len(times) != sent {
		t.Errorf("the bank has executed %d payments, and %d were enqueued", len(times), sent)
	}
	w.run(w.new, append([]string{"prove", "run"}, proofs...)...)
}

// proofs are the proofs about rows. The proof of the schema compares with the committed text,
// which does not contain a migration made for this test.
var proofs = []string{"grants", "transitions", "sequence", "nothing-lost"}

// world is an installation under traffic.
type world struct {
	t                  *testing.T
	dir, rails, ledger string
	old, new           string // binaries
	server             *pgserver.Server
	env                []string
	end                context.CancelFunc
	enqueued           chan error
	sent               atomic.Int64
	seen               map[string]int64 // by worker, when the last phase ended
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), seen: map[string]int64{}}
	w.build()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Settings: pgserver.TestSettings()})
	if err != nil {
		t.Fatalf("server of the upgrade: %v", err)
	}
	w.server = server
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("removing the server of the upgrade: %v", err)
		}
	})
	admin, err := install.Create(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	w.openBank()
	w.env = append(os.Environ(), "RAILHEAD_ADMIN_URL="+admin, "RAILHEAD_RAILS_FILE="+w.rails,
		"RAILHEAD_POLL=100ms", "RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REFRESH_EVERY=300ms", "RAILHEAD_REAP_EVERY=500ms")
	for component, login := range map[string]string{
		"INGEST": "ingest", "RELAYER": "relayer", "REAPER": "reaper", "OPERATOR": "operator", "READER": "readonly", "AUDITOR": "auditor",
	} {
		w.env = append(w.env, "RAILHEAD_"+component+"_URL="+w.url("railhead_"+login+"_login"))
	}
	return w
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

// build makes the binaries: of the released commit as git archive gives it, and of this tree.
func (w *world) build() {
	w.t.Helper()
	command := func(dir, name string, args ...string) *exec.Cmd {
		c := exec.Command(name, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath")
		return c
	}
	must := func(c *exec.Cmd) {
		w.t.Helper()
		if output, err := c.CombinedOutput(); err != nil {
			w.t.Fatalf("%v: %v\n%s", c.Args, err, output)
		}
	}
	if err := command(repository, "git", "cat-file", "-e", released+"^{commit}").Run(); err != nil {
		w.t.Skipf("the upgrade was not run: the released commit %s is not here. It needs a whole clone (git fetch "+
			"--unshallow)", released)
	}
	w.old, w.new = filepath.Join(w.dir, "railhead-old"), filepath.Join(w.dir, "railhead-new")
	before, after := filepath.Join(w.dir, "old"), filepath.Join(w.dir, "new")
	if err := errors.Join(os.Mkdir(before, 0o755), os.Mkdir(after, 0o755)); err != nil {
		w.t.Fatal(err)
	}
	archive := filepath.Join(w.dir, "old.tar")
	must(command(repository, "git", "archive", "--format=tar", "-o", archive, released))
	must(command(before, "tar", "-xf", archive))
	must(command(before, "go", "build", "-o", w.old, "./cmd/railhead"))

	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		w.t.Fatal(err)
	}
	if all[len(all)-1].Version > releasedSchema {
		must(command(repository, "go", "build", "-o", w.new, "./cmd/railhead"))
		return
	}
	w.copyTo(after)
	folder := filepath.Join(after, "migrations")
	body := filepath.Join(folder, "functions", "lock_payment.sql")
	text, err := os.ReadFile(body)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(body, []byte(strings.Replace(string(text), "AS $$\n", "AS $$\n  -- of the next build\n", 1)),
		0o644); err != nil {
		w.t.Fatal(err)
	}
	file, err := migrations.Next(folder, "of_the_next_build", 0, false)
	if err != nil {
		w.t.Fatal(err)
	}
	number, err := os.OpenFile(filepath.Join(folder, "sql", file), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = number.WriteString("\nALTER TABLE {cell}.payment_outbox_keys ADD COLUMN of_the_next_build text;\n")
	if err := errors.Join(err, number.Close()); err != nil {
		w.t.Fatal(err)
	}
	must(command(after, "go", "build", "-o", w.new, "./cmd/railhead"))
}

// copyTo copies the files of this tree.
func (w *world) copyTo(dir string) {
	w.t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = repository
	names, err := list.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(repository, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// openBank starts a bank that executes every send, and writes the rails file that leads to it.
func (w *world) openBank() {
	w.t.Helper()
	w.ledger, w.rails = filepath.Join(w.dir, "ledger.jsonl"), filepath.Join(w.dir, "rails.yaml")
	bank, err := simrail.Serve(railsim.Config{
		LedgerPath: w.ledger, Behaviour: railsim.Behaviour{NoDedupe: true}, Mode: railsim.Sync, Draw: railsim.DrawByArrival,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := bank.Close(); err != nil {
			w.t.Error(err)
		}
	})
	text, err := railsfile.Text(railsfile.Rail{
		Name: "bare", URL: bank.URL, Reference: railsfile.Key,
		Profile: `acceptance: FINAL
resend_on_unknown: NEVER
id_after_refusal: NEW
timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 2s, body: 500ms}
codes: {table: iso20022}`,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.rails, text, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a command to its end.
func (w *world) run(binary string, args ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, binary, args...)
	command.Env = w.env
	if output, err := command.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %v: %v\n%s", filepath.Base(binary), args, err, output)
	}
}

// start starts a component, which ends with the test.
func (w *world) start(binary, component, name string) *child.Process {
	w.t.Helper()
	p, err := child.Command{
		Name: name, Binary: binary, Args: []string{component}, Log: filepath.Join(w.dir, name+".log"),
		Env: append(w.env, "RAILHEAD_WORKER_ID="+name, "RAILHEAD_STATE_DIR="+filepath.Join(w.dir, name),
			"RAILHEAD_HTTP_ADDR=127.0.0.1:0"),
	}.Start()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.stop(p)
		text, err := os.ReadFile(p.Log)
		if err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			w.t.Logf("%s, its last lines:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	return p
}

// stop ends a component as an operator does.
func (w *world) stop(p *child.Process) {
	w.t.Helper()
	if err := errors.Join(p.Died(), p.Stop(time.Minute)); err != nil {
		w.t.Error(err)
	}
}

// enqueueUntilEnd enqueues as a caller by SQL does, until the upgrade has ended.
func (w *world) enqueueUntilEnd() {
	w.t.Helper()
	ingest, err := pgx.Connect(w.t.Context(), w.url(install.Ingest))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.end, w.enqueued = cancel, make(chan error, 1)
	const payload = `{"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}`
	go func() {
		defer ingest.Close(context.WithoutCancel(ctx))
		for n := 1; ctx.Err() == nil; n++ {
			_, err := ingest.Exec(context.WithoutCancel(ctx), `SELECT * FROM railhead.enqueue_payment_outbox($1, $2, $3, 'bare', $4)`,
				fmt.Sprintf("i-%d", n), fmt.Sprintf("p-%d", n%7), fmt.Sprintf("k-%d", n), payload)
			if err != nil {
				w.enqueued <- fmt.Errorf("enqueue of i-%d: %w", n, err)
				return
			}
			w.sent.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(15 * time.Millisecond):
			}
		}
		w.enqueued <- nil
	}()
}

// settle ends the traffic, waits until nothing is under way, and returns how many instructions
// were enqueued.
func (w *world) settle() int {
	w.t.Helper()
	w.end()
	if err := <-w.enqueued; err != nil {
		w.t.Fatal(err)
	}
	w.await("nothing to be under way", func() bool {
		return w.query(`SELECT (SELECT count(*) FROM railhead.payment_outbox_pending) + (SELECT count(*)
			FROM railhead.payment_outbox_claims)`) == 0
	})
	return int(w.sent.Load())
}

// dispatchedBy waits until a worker has dispatched the given number more than at the end of the
// phase before.
func (w *world) dispatchedBy(worker string, more int64) {
	w.t.Helper()
	var now int64
	w.await(worker+" to dispatch", func() bool {
		now = w.query(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'
			AND worker_id LIKE '%` + worker + `%'`)
		return now >= w.seen[worker]+more
	})
	w.seen[worker] = now
}

func (w *world) version() int64 {
	return w.query(`SELECT max(version_id) FROM railhead.schema_migrations WHERE is_applied`)
}

// query reads one number as the superuser.
func (w *world) query(sql string) (n int64) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url(pgserver.Superuser))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(w.t.Context()))
	if err := conn.QueryRow(w.t.Context(), sql).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	if err := await.Until(w.t.Context(), time.Minute, what, func() (bool, error) {
		select {
		case err := <-w.enqueued:
			return false, fmt.Errorf("the traffic ended: %w", err)
		default:
			return done(), nil
		}
	}); err != nil {
		w.t.Fatal(err)
	}
}
