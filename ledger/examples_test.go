package ledger_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// example is the Go of docs/ingest.md.
func example(ctx context.Context, client *railhead.Client) error {
	receipt, err := client.Enqueue(ctx, railhead.Instruction{
		InstructionID: "INV-9", ParticipantID: "p1", IdempotencyKey: "INV-9-a", RailType: "bank",
		Payload: []byte(`{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}`),
	})
	if err != nil {
		return err // a *railhead.Fault where it was refused
	}
	status, err := client.Await(ctx, railhead.Key{InstructionID: "INV-9", IdempotencyKey: "INV-9-a"})
	if err != nil {
		return err
	}
	fmt.Println(receipt.Replayed, status.State, status.Certainty, status.RailReference)
	return nil
}

// section is "How you learn what became of it" of docs/ingest.md.
func section(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/ingest.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## How you learn what became of it\n")
	if !found {
		t.Fatal("docs/ingest.md does not say how a caller learns what became of an instruction")
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

func block(t *testing.T, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(section(t))
	if found == nil {
		t.Fatalf("docs/ingest.md has no example in %s there", language)
	}
	return found[1]
}

// dispatching pays what is enqueued until the test ends.
func (d *desk) dispatching() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			time.Sleep(200 * time.Millisecond)
			claimed, err := d.exec.Turn(ctx, outbox.Turn{Claim: request(lane("bank", 10, 1))})
			if err != nil {
				continue
			}
			var turn outbox.Turn
			for _, claim := range claimed.Claims {
				turn.Outcomes = append(turn.Outcomes, told(sameKey, claim, payment.ResultAccepted, "b-1"))
				turn.Finished = append(turn.Finished, claim.ClaimID)
			}
			if _, err := d.exec.Turn(ctx, turn); err != nil && ctx.Err() == nil {
				d.t.Errorf("recording: %v", err)
			}
		}
	}()
}

// clients is where scripts/install-clients.sh puts them.
func clients(t *testing.T) string {
	t.Helper()
	folder := "/var/cache/railhead/clients"
	if os.Geteuid() != 0 {
		folder = "../build/clients"
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// needsClient skips where the client of a language can't be had, or is left out on
// purpose. .ci/run sees to it that both are there.
func needsClient(t *testing.T, folder, program string) {
	t.Helper()
	if os.Getenv("RAILHEAD_WITHOUT_CLIENTS") != "" {
		t.Skip("RAILHEAD_WITHOUT_CLIENTS is set: the examples in other languages are not run")
	}
	if _, err := os.Stat(filepath.Join(clients(t), folder)); err != nil {
		t.Skipf("%v: run scripts/install-clients.sh", err)
	}
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(err)
	}
}

// TestExamples runs what docs/ingest.md shows to callers in SQL, Go, Node and Python.
func TestExamples(t *testing.T) {
	t.Parallel()
	t.Run("sql", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("psql"); err != nil {
			t.Skip("there is no psql here")
		}
		d := newDesk(t)
		out := d.asCaller("psql", "-X", "-q", "-A", "-t", "-v", "VERBOSITY=verbose", "-f",
			d.script("example.sql", block(t, "sql")))
		for _, want := range []string{"RH002", "PENDING\n", "PENDING|NOT_SENT|\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("psql printed %q, want %q in it", out, want)
			}
		}
	})
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		source, err := os.ReadFile("examples_test.go")
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(source), "client *railhead.Client) error {\n")
		body, _, _ = strings.Cut(body, "\treturn nil\n}")
		same(t, "the example that is run", strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n"+block(t, "go"))
		d := newDesk(t)
		d.dispatching()
		client, err := railhead.Open(t.Context(), railhead.Config{URL: d.URL(celltest.Ingest)})
		d.must(err)
		defer client.Close()
		d.must(example(t.Context(), client))
		same(t, "paid", d.Int(`SELECT count(*) FROM railhead.v_outbox_attempts WHERE state = 'DISPATCHED'
			AND instruction_id = 'INV-9'`), 1)
	})
	t.Run("js", func(t *testing.T) {
		t.Parallel()
		needsClient(t, "node_modules/pg", "node")
		d := newDesk(t)
		d.dispatching()
		same(t, "printed", d.asCaller("node", d.script("example.js", block(t, "js"))), "DISPATCHED ACCEPTED b-1\n")
		refused := strings.ReplaceAll(strings.ReplaceAll(block(t, "js"), "'10.50'", "'10,50'"), "INV-10", "INV-10-x")
		if out := d.asCaller("node", d.script("refused.js",
			strings.Split(refused, "let wake")[0]+"await client.end() }\nmain()")); out != "refused RH002 payload.amount "+
			"FORM\n" {
			t.Errorf("printed %q", out)
		}
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		needsClient(t, "python/psycopg", "/usr/bin/python3")
		d := newDesk(t)
		d.dispatching()
		same(t, "printed", d.asCaller("/usr/bin/python3", d.script("example.py", block(t, "python"))),
			"DISPATCHED ACCEPTED b-1\n")
		refused := strings.ReplaceAll(strings.ReplaceAll(block(t, "python"), `"10.50"`, `"10,50"`), "INV-11", "INV-11-x")
		if out := d.asCaller("/usr/bin/python3",
			d.script("refused.py", strings.Split(refused,
				"    conn.execute(\"SELECT railhead.listen")[0])); out != "refused RH002 payload.amount FORM\n" {
			t.Errorf("printed %q", out)
		}
	})
}

func (d *desk) script(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	d.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// asCaller runs a program with the server in the variables of libpq, and the clients
// where Node and Python look for them.
func (d *desk) asCaller(program string, arguments ...string) string {
	d.t.Helper()
	config, err := pgx.ParseConfig(d.URL(celltest.Ingest))
	d.must(err)
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	folder := clients(d.t)
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), "PGHOST="+config.Host, "PGPORT="+strconv.Itoa(int(config.Port)),
		"PGUSER="+config.User,
		"PGPASSWORD="+config.Password, "PGDATABASE="+config.Database, "NODE_PATH="+filepath.Join(folder, "node_modules"),
		"PYTHONPATH="+filepath.Join(folder, "python"))
	out, err := command.CombinedOutput()
	if err != nil {
		d.t.Errorf("%s: %v: %s", program, err, out)
	}
	return string(out)
}
