package localrun

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// running is a local run of the built programs, with what it printed until it was up.
type running struct {
	printed []string
	logins  map[string]string // connection string by name
	curls   map[string]string // command by name of the switch
}

// startRun builds the programs, runs them, and stops them at the end of the test.
func startRun(t *testing.T) *running {
	t.Helper()
	binaries := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binaries, "../../../cmd/railhead",
		"../../../cmd/railsim")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	dir := openFolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, Options{
			Dir: filepath.Join(dir, "run"), Evidence: filepath.Join(dir, "evidence"), Cell: "railhead",
			Railhead: filepath.Join(binaries, "railhead"), Rail: Bank, Payee: filepath.Join(binaries, "railsim"),
			Instructions: 20, Participants: 5, Out: in,
		})
		in.Close()
		ended <- err
	}()
	r := &running{logins: make(map[string]string), curls: make(map[string]string)}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r.printed = append(r.printed, lines.Text())
		if strings.Contains(lines.Text(), "it stays up") {
			break
		}
	}
	go io.Copy(io.Discard, out)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	r.read()
	if len(r.logins) == 0 || len(r.curls) == 0 {
		t.Fatalf("no logins or no switches in what was printed:\n%s", strings.Join(r.printed, "\n"))
	}
	return r
}

// read finds the lines to copy, each below the comment that names it. Two words that form one name
// are separated by one blank.
func (r *running) read() {
	for n, line := range r.printed[1:] {
		comment, _ := strings.CutPrefix(r.printed[n], "# ")
		name, _, _ := strings.Cut(comment, "  ")
		if quoted, ok := strings.CutPrefix(line, "'postgres://"); ok {
			r.logins[name] = "postgres://" + strings.TrimSuffix(quoted, "'")
		}
		if strings.HasPrefix(line, "curl -X PUT ") {
			r.curls[name] = line
		}
	}
}

// shell runs a printed line, as a user does.
func shell(t *testing.T, command string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "bash", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// columns bounds the lines to copy and the comments above them.
const columns = 96

// TestPrintedLines logs in with each connection string that a run prints, and applies each switch
// of its bank.
func TestPrintedLines(t *testing.T) {
	r := startRun(t)
	for _, line := range r.printed {
		if strings.ContainsAny(line[:min(1, len(line))], "#'c") && len(line) > columns {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	t.Run("logins", r.logIn)
	t.Run("enqueue and show", r.enqueueAndShow)
	t.Run("over HTTP", r.overHTTP)
	t.Run("switches", r.turnSwitches)
}

func (r *running) logIn(t *testing.T) {
	lacking := make(map[string]bool)
	rows, err := connect(t, r.logins["reader"]).Query(t.Context(), `
		SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'railhead\_%' AND NOT rolcanlogin
		AND rolname <> 'railhead_owner'`)
	if err != nil {
		t.Fatal(err)
	}
	roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		lacking[role] = true
	}
	var superuser bool
	if err := connect(t, r.logins["admin"]).QueryRow(t.Context(), `SELECT rolsuper FROM pg_roles WHERE rolname = session_user`).Scan(&superuser); err != nil || !superuser {
		t.Errorf("admin is a superuser: %t, %v", superuser, err)
	}
	delete(r.logins, "admin")
	operators := make(map[string]bool)
	for name, url := range r.logins {
		var login, role string
		if err := connect(t, url).QueryRow(t.Context(), `
			SELECT session_user::text, r.rolname::text FROM pg_auth_members AS m
			JOIN pg_roles AS r ON r.oid = m.roleid
			WHERE m.member = session_user::regrole`).Scan(&login, &role); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(lacking, role)
		if role == "railhead_operator" {
			operators[login] = true
		}
	}
	if len(lacking) != 0 || len(roles) == 0 {
		t.Errorf("of %v, no login is printed for %v", roles, lacking)
	}
	if len(operators) != 2 {
		t.Errorf("operators: %v, want two logins", operators)
	}
}

// enqueueAndShow runs the printed example. It needs psql, which a downloaded
// server comes without.
func (r *running) enqueueAndShow(t *testing.T) {
	path := os.Getenv("PATH")
	if found, err := pgserver.Find(t.Context(), 0); err == nil {
		path += ":" + found.Dir
	}
	t.Setenv("PATH", path)
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("no psql: the printed example was not run")
	}
	begin := slices.IndexFunc(r.printed, func(line string) bool { return strings.HasPrefix(line, "psql '") })
	end := slices.IndexFunc(r.printed, func(line string) bool { return strings.HasSuffix(line, " payment show my-1") })
	if begin < 0 || end < begin {
		t.Fatal("no example was printed")
	}
	said := shell(t, strings.Join(r.printed[begin:end+1], "\n"))
	if !strings.Contains(said, "instruction  my-1, key my-1-key") {
		t.Errorf("the example printed:\n%s", said)
	}
}

// overHTTP runs the printed call twice: the second time enqueues nothing.
func (r *running) overHTTP(t *testing.T) {
	begin := slices.IndexFunc(r.printed, func(line string) bool { return strings.HasPrefix(line, "RAILHEAD_API=") })
	end := slices.IndexFunc(r.printed, func(line string) bool { return strings.HasSuffix(line, "}}}'") })
	if begin < 0 || end < begin {
		t.Fatal("no call was printed")
	}
	for _, replayed := range []string{"false", "true"} {
		said := shell(t, strings.Join(r.printed[begin:end+1], "\n"))
		if !strings.Contains(said, `"state":"DISPATCHED"`) || !strings.Contains(said, `"replayed":`+replayed) {
			t.Errorf("the call printed:\n%s", said)
		}
	}
}

// turnSwitches pays under each switch and waits until the archive shows the expected result of the
// first send; a payment that was refused as busy is paid when the bank is normal again.
func (r *running) turnSwitches(t *testing.T) {
	ingest, reader := connect(t, r.logins["ingest"]), connect(t, r.logins["reader"])
	await := func(what, id, sql string) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for there := false; !there; {
			if err := reader.QueryRow(ctx, sql, id).Scan(&there); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s: the archive does not say so of %s", what, id)
			}
		}
	}
	const (
		first = `SELECT EXISTS (SELECT FROM railhead.v_outbox_attempts
			WHERE instruction_id = $1 AND attempt_no = 2 AND state || ' ' || result = '`
		ended = `SELECT EXISTS (SELECT FROM railhead.v_outbox_attempts WHERE instruction_id = $1 AND state = 'DISPATCHED')`
	)
	for _, each := range []struct{ name, first string }{
		{"lose", "UNKNOWN UNKNOWN"}, {"refuse", "FAILED REFUSED_BUSINESS"},
		{"busy", "RETRYABLE REFUSED_LATER"}, {"normal", "DISPATCHED ACCEPTED"},
	} {
		shell(t, r.curls[each.name])
		delete(r.curls, each.name)
		if _, err := ingest.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox($1, 'participant-01', $1 || '-key', 'bank',
			'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "me"}, "creditor": {"account": "you"}}')`, each.name); err != nil {
			t.Fatal(err)
		}
		await(each.name, each.name, first+each.first+"')")
	}
	for _, id := range []string{"lose", "busy", "normal"} {
		await("DISPATCHED", id, ended)
	}
	if len(r.curls) != 0 {
		t.Errorf("switches that were not turned: %v", r.curls)
	}
}
