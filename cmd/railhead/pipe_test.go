package main

import (
	"os"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// into runs a command with its output into a file, and returns its exit code and what it says on standard error.
func (c command) into(out *os.File, args ...string) (int, string) {
	c.t.Helper()
	var errs strings.Builder
	cmd := c.process(args...)
	cmd.Stdout, cmd.Stderr = out, &errs
	cmd.Run() //nolint:errcheck // its exit code is what is looked at
	return cmd.ProcessState.ExitCode(), errs.String()
}

// TestOutputThatIsLost: an act whose output is lost, in a full disk or a closed pipe, says that it was done; a command
// that only reads says nothing to a reader that has left.
func TestOutputThatIsLost(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	reads, closed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	if err := reads.Close(); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"table", "json"} {
		code, said := who.into(full, "token", "create", "--name", "shop", "--participant", "p1", "--reason", "x", "-o", form)
		if code != exitFailure || !strings.Contains(said, " is in force until ") ||
			!strings.Contains(said, "railhead token revoke ") {
			t.Errorf("token create -o %s: exit code %d, it said %q", form, code, said)
		}
	}
	code, said := who.into(closed, "payment", "cancel", "INV-1", "--reason", "x")
	if code != exitFailure || !strings.Contains(said, "it was done (cancelled: ") {
		t.Errorf("an act into a closed pipe: exit code %d, it said %q", code, said)
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state = 'CANCELLED'`); n != 1 {
		t.Errorf("%d were cancelled", n)
	}
	for _, line := range []string{"log", "payment list", "payment show INV-1", "token list -o json"} {
		if code, said := who.into(closed, strings.Fields(line)...); code != exitPipe || said != "" {
			t.Errorf("%s into a closed pipe: exit code %d, it said %q", line, code, said)
		}
	}
}

// TestAllAreRefused: where every act of several is refused, none was done on others.
func TestAllAreRefused(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2", "INV-3")
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	who.want(exitOK, "dead-letter", "close", "INV-1", "INV-2", "--reason", "x")
	for _, test := range []struct {
		ids  string
		code int
		says string
	}{
		{"INV-1 INV-2", exitNotAllowed, "all 2 were refused: nothing was done"},
		{"none-1 none-2 none-3", exitNotFound, "all 3 were refused: nothing was done"},
		{"none-1 INV-2", exitNotAllowed, "all 2 were refused: nothing was done"},
		{"INV-1 INV-3", exitPartial, "1 of 2 were refused; the act was done on the others"},
	} {
		args := append([]string{"dead-letter", "acknowledge", "--reason", "x"}, strings.Fields(test.ids)...)
		if got := who.want(test.code, args...); !strings.Contains(got.errors, test.says) {
			t.Errorf("%s: it said %q", test.ids, got.errors)
		}
	}
}

// TestPasswordOfABrokenString: what is said of a connection string that can't be read has nothing of it.
func TestPasswordOfABrokenString(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:S3CR/ET@h.example/db", "postgres://u:S3CR%zzET@h/db", "postgres://u:S3CR@ET@h:x/db",
		"host=h user=u password=S3CRET sslmode=nonsense", "host=h user=u password='S3CR ET port=x",
		"postgres://u:S3CR ET@h/db", "postgres:/u:S3CRET@h/db", "u:S3CRET@h/db", "host=h password = S3CRET port=x",
		`host=h user=u password=S3CR\ ET port=x`, "host=h user=u password = `: S3CRET port=x",
	} {
		for variable, line := range map[string]string{
			"RAILHEAD_READER_URL": "status", "RAILHEAD_ADMIN_URL": "migrate up", "RAILHEAD_AUDITOR_URL": "prove",
			"RAILHEAD_OPERATOR_URL": "payment cancel INV-1 --reason x",
		} {
			got := command{t: t, env: []string{variable + "=" + url}}.run(strings.Fields(line)...)
			if said := got.out + got.errors; strings.Contains(said, "S3C") || strings.Contains(said, "ET@") ||
				strings.Contains(said, "ET ") || got.code == exitOK || !strings.Contains(said, variable) {
				t.Errorf("%s by %s: exit code %d, it said %q", line, url, got.code, said)
			}
		}
	}
}
