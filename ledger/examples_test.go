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
		inTheLanguage(t, "js", "node", "INV-10", "await client.query(`INSERT INTO orders VALUES ('INV-10')`)")
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		needsClient(t, "python/psycopg", "/usr/bin/python3")
		inTheLanguage(t, "python", "/usr/bin/python3", "INV-11", `conn.execute("INSERT INTO orders VALUES ('INV-11')")`)
	})
}

// ownStatements is where an example says that those of its reader belong.
var ownStatements = regexp.MustCompile(`(//|#) your own statements belong here.*`)

// inTheLanguage runs an example as it is printed, and then with the statement of a caller who stores an order: a
// refusal leaves no order without its payment, and one for now, such as by a closed gate, is repeated.
func inTheLanguage(t *testing.T, language, program, id, stores string) {
	d := newDesk(t)
	d.do(`CREATE TABLE public.orders (id text)`)
	d.do(`GRANT INSERT ON public.orders TO railhead_ingest`)
	printed := block(t, language)
	whole := ownStatements.ReplaceAllString(printed, stores)
	if whole == printed {
		t.Fatal("the example does not say where the caller's own statements belong")
	}
	with := func(more string) string { return strings.ReplaceAll(whole, id, id+more) }
	stored := func(more string) string {
		return d.text(`SELECT (SELECT count(*) FROM public.orders WHERE id = $1) || ' and ' ||
			(SELECT count(*) FROM railhead.payment_outbox_keys WHERE instruction_id = $1)`, id+more)
	}
	run := func(name, text string) (string, error) {
		return d.run(program, d.script(name, text))
	}

	out, err := run("refused", strings.ReplaceAll(with("-x"), "10.50", "10,50"))
	if same(t, "a refusal", out, "refused RH002 payload.amount FORM\n"); err == nil {
		t.Error("a refusal ended the example without an error")
	}
	same(t, "orders and payments of a refusal", stored("-x"), "0 and 0")

	d.dispatching()
	same(t, "printed", d.asCaller(program, d.script("printed", printed)), "DISPATCHED ACCEPTED b-1\n")
	operators := d.operator()
	_, err = operators.CloseEnqueue(t.Context(), theBank, why, time.Time{})
	d.must(err)
	opened := make(chan error, 1)
	go func() {
		for t.Context().Err() == nil && d.Int(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'an example'
				AND state = 'idle' AND query = 'ROLLBACK'`) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		_, err := operators.OpenEnqueue(t.Context(), theBank, why)
		opened <- err
	}()
	out, err = run("closed", with("-y"))
	d.must(<-opened)
	if same(t, "a gate that is closed and opened", out, "DISPATCHED ACCEPTED b-1\n"); err != nil {
		t.Error(err)
	}
	same(t, "orders and payments behind the gate", stored("-y"), "1 and 1")
}

func (d *desk) script(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	d.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// asCaller runs a program as run does, and insists on its success.
func (d *desk) asCaller(program string, arguments ...string) string {
	d.t.Helper()
	out, err := d.run(program, arguments...)
	if err != nil {
		d.t.Errorf("%s: %v: %s", program, err, out)
	}
	return out
}

// run runs a program with the server in the variables of libpq, and the clients
// where Node and Python look for them.
func (d *desk) run(program string, arguments ...string) (string, error) {
	d.t.Helper()
	config, err := pgx.ParseConfig(d.URL(celltest.Ingest))
	d.must(err)
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	folder := clients(d.t)
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), "PGHOST="+config.Host, "PGPORT="+strconv.Itoa(int(config.Port)),
		"PGUSER="+config.User, "PGAPPNAME=an example",
		"PGPASSWORD="+config.Password, "PGDATABASE="+config.Database, "NODE_PATH="+filepath.Join(folder, "node_modules"),
		"PYTHONPATH="+filepath.Join(folder, "python"))
	out, err := command.CombinedOutput()
	return string(out), err
}
