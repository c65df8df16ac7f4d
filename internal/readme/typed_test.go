package readme

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestTypedExamples runs, on what make run starts, every command and file that README.md,
// the pages of docs and the help texts show; each has to end as the page says. What is
// not run here is in the list [elsewhere], which has no entry too many. At the end all
// that the examples have enqueued is paid.
func TestTypedExamples(t *testing.T) {
	t.Parallel()
	i := startInstallation(t)
	all := allExamples(t, filepath.Join(i.dir, "bin", "railhead"))
	d := &desk{installation: i, folders: map[string]string{}, used: map[int]bool{}}
	d.prepare(all)
	for _, e := range all {
		t.Run(e.String(), func(t *testing.T) { d.run(t, e) })
	}
	for n, each := range elsewhere {
		if !d.used[n] {
			t.Errorf("the list of what is run elsewhere has %s %q, which is nowhere", each.page, each.begins)
		}
	}
	for _, id := range []string{"invoice-4711", "invoice-4712", "INV-7", "INV-8", "INV-9", "INV-12"} {
		i.await(id+" is paid", `SELECT EXISTS (SELECT FROM railhead.supervisor_outbox_status WHERE instruction_id = $1
			AND state = 'DISPATCHED')`, id)
	}
	i.await("all that examples have enqueued is paid", `SELECT NOT EXISTS (SELECT FROM railhead.supervisor_outbox_status
		WHERE participant_id <> 'scene' AND instruction_id NOT LIKE 'run-%' AND state <> 'DISPATCHED')`)
}

// desk is where the examples are typed.
type desk struct {
	*installation
	payments payments
	folders  map[string]string // by page: what one block writes, the next one reads
	used     map[int]bool      // entries of the list elsewhere
	file     string            // the file of instructions of docs/cli.md
}

// Databases of the installation's server: that of make run, and one for the pages that
// begin with an empty one.
const newDatabase = "payments"

// fresh are the blocks that are typed with an installation of their own, by page.
var fresh = map[string]bool{"docs/rails.md": true}

// firstInstallation begins the block that makes that installation.
const firstInstallation = "railhead roles apply          # the roles, once a cluster"

// prepare makes the logins that pages name, and payments in every state.
func (d *desk) prepare(all []example) {
	for _, e := range all {
		if e.page == "docs/cli.md" && e.language == "json" {
			d.file = e.text
		}
	}
	d.write(filepath.Join(d.dir, "bin"), "generate", "#!/bin/sh\ncat instructions.jsonl\n")
	if err := os.Chmod(filepath.Join(d.dir, "bin", "generate"), 0o755); err != nil {
		d.t.Fatal(err)
	}
	for login, role := range map[string]string{
		"ops_1": "railhead_operator", "ingest_api": "railhead_ingest", "my_auditor": "railhead_auditor", "my_control": "railhead_control",
	} {
		d.installation.run("railhead roles login " + login + " --role " + role + " --no-password")
	}
	conn, err := pgx.Connect(d.t.Context(), d.logins["admin"])
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(d.t.Context()))
	if _, err := conn.Exec(d.t.Context(), "CREATE DATABASE "+newDatabase); err != nil {
		d.t.Fatal(err)
	}
	states := map[string]int{"closed": 3} // those of the code that a page speaks of
	for _, e := range all {
		for _, command := range e.commands() {
			if r := ruleOf(command); r.state != "" && slices.Contains(shell, e.language) {
				states[r.state]++
			}
		}
	}
	d.payments = d.scene(states)
}

// folder is where a page is typed, with the files that it speaks of.
func (d *desk) folder(t *testing.T, page string) string {
	t.Helper()
	if d.folders[page] != "" {
		return d.folders[page]
	}
	dir, err := os.MkdirTemp(d.dir, "page-*")
	if err != nil {
		t.Fatal(err)
	}
	rails, err := os.ReadFile(filepath.Join(d.dir, "run", "rails.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(dir, "rails.yaml", string(rails))
	d.write(dir, "instructions.jsonl", d.file)
	d.writeCertificate(dir)
	d.folders[page] = dir
	return dir
}

func (d *desk) run(t *testing.T, e example) {
	if n, found := runElsewhere(e.page, e.text, true); found {
		d.used[n] = true
		return
	}
	whole := d.t
	d.t = t // what fails below fails this example
	defer func() { d.t = whole }()
	switch e.language {
	case "sql":
		d.psql(t, e)
	case "go":
		d.goRun(t, e)
	case "js":
		d.client(t, e, "node", "node_modules/pg")
	case "python":
		d.client(t, e, "/usr/bin/python3", "python/psycopg")
	case "json":
		d.write(d.folder(t, e.page), "line.jsonl", e.text)
		d.script(t, e, "railhead enqueue --file line.jsonl", 0)
	case "yaml":
		if e.text != string(railconfig.Example()) {
			t.Error("it is not what railhead rail example prints")
		}
		d.write(d.folder(t, e.page), "shown.yaml", e.text)
		d.script(t, e, "railhead rail check shown.yaml", 0)
	default:
		if !slices.Contains(shell, e.language) {
			t.Fatalf("a block in %s: it is neither run nor known to be no command", e.language)
		}
		d.typed(t, e)
	}
}

// needs skips where a program is not there that an example is typed with.
func (d *desk) needs(t *testing.T, text string) {
	t.Helper()
	for _, program := range []string{"psql", "jq"} {
		if !regexp.MustCompile(`\b` + program + `\b`).MatchString(text) {
			continue
		}
		if err := d.command(t.Context(), d.dir, "bash", "-c", "command -v "+program).Run(); err != nil {
			t.Skipf("there is no %s here", program)
		}
	}
}

// script types lines and returns what they print.
func (d *desk) script(t *testing.T, e example, lines string, want int) string {
	t.Helper()
	d.needs(t, lines)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := d.command(ctx, d.folder(t, e.page), "bash", "-euo", "pipefail", "-x", "-c", lines)
	if fresh[e.page] || strings.Contains(e.text, firstInstallation) {
		cmd.Env = append(cmd.Env, d.inDatabase(newDatabase)...)
	}
	cmd.Env = append(cmd.Env, "RELAYER_PASSWORD=relays-by-night-4711", "AUDITOR_PASSWORD=audits-by-night-4711",
		"INGEST_PASSWORD=takes-by-night-4711",
		"BANK_API_KEY=k", "BANK_TOKEN=t", "WALLET_SIGNING_KEY=s", "WALLET_CALLBACK_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZg==",
		"WALLET_CALLBACK_SECRET_OLD=whsec_MDEyMzQ1Njc4OWFiY2RlZg==", "KAFKA_PASSWORD=k")
	output, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("exit code %d (%v), want %d, of\n%s\n%s", code, err, want, lines, output)
	}
	return string(output)
}

// refusal is what a page says of a statement that fails.
var (
	refusal = regexp.MustCompile(`(?m)^-- ERROR: (\w+)`)
	refused = regexp.MustCompile(`ERROR:  (\w+):`)
)

// psql types the statements as the login that they are for.
func (d *desk) psql(t *testing.T, e example) {
	login := d.logins["ingest"]
	switch {
	case strings.HasPrefix(e.text, "ALTER ROLE"), strings.HasPrefix(e.text, "CREATE SCHEMA"),
		strings.Contains(e.text, "payment_event_endpoints"), strings.Contains(e.text, "retire_references(c.oid)"):
		login = d.logins["admin"]
	case strings.Contains(e.text, "reveal_payload"):
		login = d.logins["operator"]
	case strings.Contains(e.text, "outbox_contract"):
		login = d.logins["contract"]
	case strings.Contains(e.text, "payment_outbox_suspensions"), strings.Contains(e.text, "payment_bucket_moves"),
		strings.Contains(e.text, "railhead.cell_bucket"):
		login = d.logins["reader"]
	}
	d.write(d.folder(t, e.page), "block.sql", e.text)
	said := d.script(t, e, "psql '"+login+"' -v VERBOSITY=verbose -f block.sql", 0)
	codes := func(found [][]string) string {
		var all []string
		for _, each := range found {
			all = append(all, each[1])
		}
		return strings.Join(all, " ")
	}
	if got, want := codes(refused.FindAllStringSubmatch(said, -1)),
		codes(refusal.FindAllStringSubmatch(e.text, -1)); got != want {
		t.Errorf("refusals %q, want %q:\n%s", got, want, said)
	}
}

// programs are what the Go of a page is a part of.
var programs = map[string]string{
	"README.md": `
func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Args[1])
	if err == nil {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return enqueue(ctx, os.Args[1], tx) })
	}
	if err != nil {
		log.Fatal(err)
	}
}

func enqueue(ctx context.Context, url string, tx pgx.Tx) error {
	%s
	log.Print(receipt.State)
	return err
}`,
	"docs/ingest.md": `
func main() {
	ctx := context.Background()
	client, err := railhead.Open(ctx, railhead.Config{URL: os.Args[1]})
	if err == nil {
		err = pay(ctx, client)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func pay(ctx context.Context, client *railhead.Client) error {
	%s
	return nil
}`,
}

// imports are those that a program may need.
var imports = map[string]string{
	"json.": "encoding/json", "fmt.": "fmt", "pgx.": "github.com/jackc/pgx/v5",
	"railhead.": "github.com/railhead-pay/railhead",
}

// goRun builds a program of a block, and pays with it.
func (d *desk) goRun(t *testing.T, e example) {
	around := programs[e.page]
	if around == "" {
		t.Fatal("no program is known that this is a part of")
	}
	body := fmt.Sprintf(around, e.text)
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"log\"\n\t\"os\"\n")
	for word, path := range imports {
		if regexp.MustCompile(`\b` + regexp.QuoteMeta(word)).MatchString(body) {
			source.WriteString("\t\"" + path + "\"\n")
		}
	}
	dir := d.folder(t, e.page)
	d.write(dir, "main.go", source.String()+")\n"+body+"\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "program"),
		filepath.Join(dir, "main.go"))
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, output, source.String()+")\n"+body)
	}
	d.script(t, e, "./program '"+d.logins["ingest"]+"'", 0)
}

// client runs a program of another language, where its PostgreSQL client is there.
func (d *desk) client(t *testing.T, e example, program, folder string) {
	if os.Getenv("RAILHEAD_WITHOUT_CLIENTS") != "" {
		t.Skip("RAILHEAD_WITHOUT_CLIENTS is set: the examples in other languages are not run")
	}
	clients := "/var/cache/railhead/clients"
	if os.Geteuid() != 0 {
		clients = "../../build/clients"
	}
	clients, err := filepath.Abs(clients)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(clients, folder)); err != nil {
		t.Skipf("%v: run scripts/install-clients.sh", err)
	}
	d.write(d.folder(t, e.page), "program", e.text)
	said := d.script(t, e, fmt.Sprintf("export PGHOST=%s PGPORT=%s PGDATABASE=railhead PGUSER=railhead_ingest_login "+
		"NODE_PATH=%[3]s/node_modules PYTHONPATH=%[3]s/python\n%s program",
		d.server("host"), d.server("port"), clients, program), 0)
	if !strings.Contains(said, "DISPATCHED ACCEPTED RS") {
		t.Errorf("it printed %s", said)
	}
}

// server is a parameter of the connection strings: host or port.
func (d *desk) server(parameter string) string {
	parsed, err := url.Parse(d.logins["ingest"])
	if err != nil {
		d.t.Fatal(err)
	}
	return parsed.Query().Get(parameter)
}

// rule says how a command is typed here; all that no rule names is typed as it is shown.
type rule struct {
	begins string
	// state is that of the payment that stands for the example's id.
	state string
	// asked has the rail asked about it before.
	asked bool
	// endless commands end by Ctrl-C.
	endless bool
	// instead is typed in its place, and then after it.
	instead, then string
	// want is the exit code of a block of one command; 0 is the rule for all others.
	want int
}

// The first rule that fits counts.
var rules = []rule{
	{begins: "railhead dead-letter show ", state: "refused"},
	{begins: "railhead dead-letter acknowledge ", state: "executed"},
	{begins: "railhead dead-letter escalate ", state: "executed"},
	{begins: "railhead dead-letter resolve ID --executed ", state: "executed"},
	{begins: "railhead dead-letter resolve 019... --executed ", state: "executed"},
	{begins: "railhead dead-letter resolve ID --not-executed ", state: "unsent", asked: true},
	{begins: "railhead dead-letter resolve 019... --not-executed ", state: "unsent", asked: true},
	{begins: "railhead dead-letter replay ", state: "expired"},
	{begins: "railhead dead-letter close ", state: "refused"},
	{begins: "railhead payment send-now ", state: "waiting"},
	{begins: "railhead payment reschedule ", state: "waiting"},
	{begins: "railhead log --payment ", state: "waiting"},
	{begins: "railhead log --follow", endless: true},
	{begins: "railhead payment tail --rail bank", endless: true},
	{begins: "railhead rail pause ", then: "railhead rail resume bank --reason 'it is an example'; railhead rail resume --everything --reason 'it is an example'"},
	{begins: "railhead participant pause ", then: "railhead participant resume scene --reason 'it is an example'"},
	{begins: "railhead prove --login relayer_1=", want: 8}, // the installation has other logins
	{begins: "railhead reaper &", then: `
railhead enqueue --instruction-id first --participant-id p1 --idempotency-key first --rail bank --amount 1.00 --currency EUR --payload '{"debtor":{"account":"a"},"creditor":{"account":"b"}}'
until railhead payment show first | grep "state  *DISPATCHED"; do sleep 0.2; done
until railhead status | grep "^reaper  *fresh"; do sleep 0.2; done
kill $(jobs -p); wait`},
	// With the secrets that the example's rails file refers to, until it is ready.
	{begins: "railhead relayer  ", instead: `
sed -i "s|/etc/railhead/|$PWD/|" rails.yaml
RAILHEAD_RAILS_FILE=rails.yaml RAILHEAD_HTTP_ADDR_FILE=service.addr railhead relayer & SERVICE=$!
until curl -fsS "http://$(cat service.addr)/readyz"; do kill -0 "$SERVICE"; sleep 0.2; done
kill -INT "$SERVICE"; wait "$SERVICE"`},
}

func ruleOf(command string) rule {
	for _, each := range rules {
		if strings.HasPrefix(command, each.begins) {
			return each
		}
	}
	return rule{}
}

// What stands for something else in an example.
var (
	anID          = regexp.MustCompile(`\bID\b|019\.\.\.|\bINV-1\b`)
	aParticipant  = regexp.MustCompile(`\bP\b`)
	aMoment       = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	aDay          = regexp.MustCompile(`(--evidence-date )20\d\d-\d\d-\d\d\b`)
	aRow          = regexp.MustCompile(`(--row )\d+`)
	aReference    = "RS000000000042"
	aURL          = regexp.MustCompile(`postgres://(\w+)@db\.example/payments`)
	waitingAnswer = `SELECT EXISTS (SELECT FROM railhead.payment_dead_letters WHERE instruction_id = $1
		AND error_code = 'ASKED' AND status = 'pending')`
)

// typed runs a block as it stands, what only stands for something put in.
func (d *desk) typed(t *testing.T, e example) {
	want := 0
	var lines []string
	for _, command := range e.commands() {
		if n, found := runElsewhere(e.page, command, false); found {
			d.used[n] = true
			isTarget(t, command)
			continue
		}
		r := ruleOf(command)
		want = max(want, r.want)
		if r.instead == "" {
			r.instead = d.fill(t, command, r)
		}
		if r.endless {
			r.instead = "timeout --foreground --preserve-status --signal=INT 5 " + r.instead // once: a second signal kills
		}
		lines = append(lines, r.instead)
		if r.then != "" {
			lines = append(lines, r.then)
		}
	}
	if len(lines) > 0 {
		d.script(t, e, strings.Join(lines, "\n"), want)
	}
}

// isTarget finds the target of a make command that is run elsewhere.
func isTarget(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if words[0] != "make" {
		return
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\n"+words[1]+":") {
		t.Errorf("the Makefile has no target %s", words[1])
	}
}

// fill puts payments, days, moments and connection strings in.
func (d *desk) fill(t *testing.T, command string, r rule) string {
	t.Helper()
	if anID.MatchString(command) {
		if r.state == "" {
			t.Fatalf("no rule says in which state the payment of this is: %s", command)
		}
		id := d.payments.take(t, r.state)
		if r.asked {
			d.installation.run("railhead payment inquire " + id + " --reason 'ticket 4711'")
			d.await("the rail's answer about "+id, waitingAnswer, id)
		}
		if strings.Contains(command, aReference) {
			key := strings.TrimSpace(d.installation.run("railhead payment show " + id +
				" -o json | sed -n 's/^  \"rail_key\": \"\\(.*\\)\",$/\\1/p'"))
			reference := regexp.MustCompile(`"id":"(RS\d+)"`).FindStringSubmatch(d.installation.run("curl -sS http://" + d.bank + "/payments/by-key/" + key))
			if reference == nil {
				t.Fatalf("the bank knows nothing of %s", id)
			}
			command = strings.ReplaceAll(command, aReference, reference[1])
		}
		command = anID.ReplaceAllLiteralString(command, id)
		if aRow.MatchString(command) {
			row := strings.TrimSpace(d.installation.run("railhead payment show " + id +
				" -o json | sed -n 's/^  \"last_row\": \\([0-9]*\\),$/\\1/p'"))
			command = aRow.ReplaceAllString(command, "${1}"+row)
		}
	}
	command = aParticipant.ReplaceAllLiteralString(command, "scene")
	command = aMoment.ReplaceAllLiteralString(command, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	command = aDay.ReplaceAllString(command, "${1}"+time.Now().UTC().Format(time.DateOnly))
	return aURL.ReplaceAllStringFunc(command, func(found string) string { return d.as(aURL.FindStringSubmatch(found)[1]) })
}
