package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/outbox"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		exitOK:          {nil},
		exitFailure:     {errors.New("anything"), outbox.ErrCommitUnknown, outbox.ErrUnsafeServer},
		exitUsage:       {outbox.ErrInvalid, &outbox.Fault{SQLState: "RH003"}, usage(errors.New("x"))},
		exitNotFound:    {outbox.ErrNotFound, &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}},
		exitConflict:    {outbox.ErrConflict, &outbox.Fault{SQLState: "RH001"}, &outbox.Fault{SQLState: "RH007"}},
		exitUnreachable: {context.DeadlineExceeded},
		exitClosed:      {outbox.ErrEnqueueClosed, &outbox.Fault{SQLState: "RH014"}},
		exitInterrupted: {context.Canceled},
	} {
		for _, err := range errs {
			if err != nil {
				err = fmt.Errorf("doing it: %w", err)
			}
			if got := exitCode(err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
}

// TestExitCodes runs the binary into each of its ends.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	valid := at(t, cell)
	bad := writeFile(t, "rails.yaml", "rails: [{rail_type: X}]")
	one := func(key, amount string) []string {
		return []string{"enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", key,
			"--rail", celltest.Bank, "--amount", amount, "--currency", "EUR"}
	}
	zero := one("k9", "0")
	zero[2] = "i9"
	asIngest := command{t: t, env: []string{"DATABASE_URL=" + cell.URL(celltest.Ingest)}}
	unknown := command{t: t, env: []string{"DATABASE_URL=" + cell.URL("railhead_unknown")}}
	away := command{t: t, env: []string{"DATABASE_URL=postgres://x@127.0.0.1:1/x?connect_timeout=5"}}
	only := command{t: t, env: []string{"DATABASE_URL=" + cell.URL(celltest.Readonly),
		"PGOPTIONS=-c default_transaction_read_only=on"}}
	unescaped := command{t: t, env: []string{"DATABASE_URL=postgres://x:p@secret@nowhere.invalid/db"}}
	asked := command{t: t, env: []string{"DATABASE_URL=postgres://x:p?q@secret@nowhere.invalid/db"}}
	folder := command{t: t, env: []string{"PGHOST=" + t.TempDir()}}
	crowded := celltest.New(t)
	crowded.Exec(`ALTER DATABASE ` + crowded.Name + ` CONNECTION LIMIT 0`)
	full := command{t: t, env: []string{"DATABASE_URL=" + crowded.URL(celltest.Readonly)}}
	for _, test := range []struct {
		who  command
		code int
		says string
		args []string
	}{
		{valid, exitOK, "", nil},
		{valid, exitOK, "", []string{"help", "exit-codes"}},
		{valid, exitOK, "", []string{"version", "-o", "json"}},
		{valid, exitOK, "", one("k1", "1.00")},
		{valid, exitOK, "", one("k1", "1.00")},
		{valid, exitUsage, "unknown command", []string{"bogus"}},
		{valid, exitUsage, "unknown command", []string{"rail", "bogus"}},
		{valid, exitUsage, "unknown flag", []string{"status", "--bogus"}},
		{valid, exitUsage, "--output", []string{"status", "-o", "xml"}},
		{valid, exitUsage, "--cell", []string{"status", "--cell", "Bad Name"}},
		{valid, exitUsage, "reason", []string{"timeline", "accept"}},
		{valid, exitUsage, "accepts 1 arg", []string{"payment", "show"}},
		{valid, exitUsage, "--idempotency-key", []string{"enqueue", "--instruction-id", "i1"}},
		{valid, exitUsage, "RH002", zero},
		{command{t: t}, exitUsage, "RAILHEAD_READER_URL", []string{"status"}},
		{command{t: t, env: []string{"RAILHEAD_POLL=soon"}}, exitUsage, "RAILHEAD_POLL", []string{"status"}},
		{command{t: t, env: []string{"DATABASE_URL=postgres://x:secret@%zz"}}, exitUsage, "RAILHEAD_READER_URL", []string{"status"}},
		{valid, exitUsage, "line 1", []string{"rail", "apply", bad}},
		{valid, exitNotFound, "no such file", []string{"rail", "apply", "nowhere.yaml"}},
		{valid, exitNotFound, "no such file", []string{"enqueue", "--file", "nowhere.jsonl"}},
		{valid, exitNotFound, "no such instruction", []string{"payment", "show", "nothing"}},
		{valid, exitNotFound, "rail list", []string{"rail", "codes", "nothing"}},
		{asIngest, exitDenied, "roles apply", []string{"status"}},
		{unknown, exitDenied, "", []string{"status"}},
		{valid, exitConflict, "RH001", one("k1", "2.00")},
		{valid, exitConflict, "RH007", one("k2", "1.00")},
		{away, exitUnreachable, "Check that the server runs", []string{"status"}},
		{folder, exitUnreachable, "Check that the server runs", []string{"status"}},
		{away, exitUnreachable, "Check that the server runs", []string{"migrate", "status"}},
		{away, exitUnreachable, "Check that the server runs", []string{"roles", "diff"}},
		{only, exitUnreachable, "can't be written to: it is a standby, or default_transaction_read_only", []string{"status"}},
		{full, exitUnreachable, "has no connection left for this login", []string{"status"}},
		{unescaped, exitUsage, "write each @ of a password, or of a name, as %40", []string{"status"}},
		{unescaped, exitUsage, "as %40", []string{"migrate", "status"}},
		{unescaped, exitUsage, "as %40", []string{"prove"}},
		{asked, exitUsage, "as %40", []string{"status"}},
		{valid, exitFailure, "migrate up", []string{"status", "--cell", "elsewhere"}},
	} {
		got := test.who.run(test.args...)
		if got.code != test.code || !strings.Contains(got.errors, test.says) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s", test.args, got.code, test.code, test.says, got.errors)
		}
		if test.code != exitOK && got.out != "" {
			t.Errorf("%v: wrote to standard output: %q", test.args, got.out)
		}
		if strings.Contains(got.errors, "secret") {
			t.Errorf("%v: a password is told: %s", test.args, got.errors)
		}
	}
}

// TestAdviceOfTheServer: a server that answers is not said to be away, and what a pooler refuses has its cure.
func TestAdviceOfTheServer(t *testing.T) {
	t.Parallel()
	for state, test := range map[string]struct{ message, says string }{
		"42P05": {"prepared statement \"stmtcache_1\" already exists", "default_query_exec_mode=cache_describe"},
		"26000": {"prepared statement \"stmtcache_1\" does not exist", "default_query_exec_mode=cache_describe"},
		"08P01": {"unsupported startup parameter: search_path", "not through PgBouncer"},
		"08006": {"pgbouncer cannot connect to server", "Check that the server runs"},
		"53300": {"sorry, too many clients already", "has no connection left"},
		"57P01": {"terminating connection due to administrator command", "ended the session"},
		"57P02": {"terminating connection because of crash of another server process", "ended the session"},
		"57P03": {"the database system is starting up", "starts or stops"},
		"57P04": {"the database was dropped", "was dropped"},
		"57P05": {"terminating connection due to idle-session timeout", "ended the session"},
	} {
		err := fmt.Errorf("connecting: %w", &pgconn.PgError{Severity: "FATAL", Code: state, Message: test.message})
		if got := advice(err); !strings.Contains(got, test.says) {
			t.Errorf("%s: %q is advised, want %q", state, got, test.says)
		}
	}
}

// TestEachOnce: an error has no repeated lines, and none of the server library's tabs.
func TestEachOnce(t *testing.T) {
	t.Parallel()
	got := command{
		t: t, env: []string{"RAILHEAD_READER_URL=postgres://127.0.0.1:1/none?connect_timeout=2"},
	}.want(exitUnreachable, "status").errors
	if n := strings.Count(got, "127.0.0.1:1 (127.0.0.1)"); n != 1 || strings.Contains(got, "\uFFFD") {
		t.Errorf("the address is there %d times: %q", n, got)
	}
	same := "a list:\n  one\n  two\nthe end"
	if got := eachOnce(same); got != same {
		t.Errorf("%q", got)
	}
}

// TestInterrupted stops a load that waits for a silent pipe.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	cmd := at(t, celltest.New(t)).process("enqueue", "--file", "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A pipe holds 64 KiB: once more than that is written, the process reads.
	if _, err := in.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}

// TestDocumented insists that docs/cli.md names every command and every exit code
// as the binary has them.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, line := range strings.Split(exitCodesTopic().Long, "\n")[2:] {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		if row := fmt.Sprintf("| %s | %s |", code, strings.TrimSpace(meaning)); !strings.Contains(page, row) {
			t.Errorf("docs/cli.md lacks the line %q", row)
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() && c.Runnable() && !c.HasSubCommands() && !strings.Contains(page, "`"+c.CommandPath()) {
			t.Errorf("docs/cli.md does not name %s", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand())
}

// TestSecondCell keeps two cells of one database apart.
func TestSecondCell(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	who := command{t: t, env: []string{"DATABASE_URL=" + db.URL("")}}
	for _, cell := range []string{"one", "two"} {
		who.want(exitOK, "roles", "apply", "--cell", cell)
		who.want(exitOK, "migrate", "up", "--cell", cell)
		who.want(exitOK, "roles", "apply", "--cell", cell)
		who.want(exitOK, "roles", "diff", "--cell", cell)
	}
	rails := writeFile(t, "rails.yaml", railsFile("24h"))
	who.want(exitOK, "rail", "apply", rails, "--reason", "a test", "--cell", "two")
	if got := who.want(exitOK, "rail", "list", "--cell", "one", "-o", "json"); strings.TrimSpace(got.out) != "[]" {
		t.Errorf("cell one has rails: %s", got.out)
	}
}
