package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// moves is a text that a terminal would not show as it is: C1, DEL, ESC and a change of the direction.
const moves = "d\u009b1A\u009b2K\u202egnihton\x7f\x1b[1A"

// stays fails if a text has anything that moves a terminal's cursor or changes the direction of writing.
func stays(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s has %U: %q", what, r, text)
			return
		}
	}
}

// TestTerminalIsNotMoved: texts of callers and operators come out of no command as a terminal would obey them; as JSON
// they are whole.
func TestTerminalIsNotMoved(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	who.env = append(who.env, "RAILHEAD_AUDITOR_URL="+cell.URL(celltest.Auditor))
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	payee, err := json.Marshal(map[string]string{"payee": moves})
	if err != nil {
		t.Fatal(err)
	}
	who.want(exitOK, "enqueue", "--instruction-id", "INV-1", "--participant-id", "p1", "--idempotency-key", "k", "--rail",
		celltest.Bank, "--amount", "10.50", "--currency", "EUR", "--payload", string(payee))
	works.park(works.claim()[0])
	said := "d\u009b1A\u009b2K\u202egnihton"
	who.want(exitOK, "dead-letter", "resolve", "INV-1", "--executed", "--rail-reference", "RS1", "--evidence-date",
		time.Now().UTC().Format(time.DateOnly), "--document", said, "--reason", said)
	for _, line := range []string{
		"payment reveal INV-1 --reason x", "payment show INV-1", "log", "payment tail --since 1h --once", "payment list",
		"dead-letter list --status resolved", "dead-letter show INV-1", "prove run evidence",
	} {
		for _, form := range []string{"table", "json", "jsonl"} {
			got := who.want(exitOK, append(strings.Fields(line), "-o", form)...)
			stays(t, line+" -o "+form, got.out+got.errors)
		}
	}
	var revealed struct{ Payload struct{ Payee string } }
	out := who.want(exitOK, "payment", "reveal", "INV-1", "--reason", "x", "-o", "json").out
	if err := json.Unmarshal([]byte(out), &revealed); err != nil || revealed.Payload.Payee != moves {
		t.Errorf("the payload is %q: %v", revealed.Payload.Payee, err)
	}
}

// TestReportOfAnother: a report that was handed over, or of texts from outside, prints nothing but what it is asked
// for.
func TestReportOfAnother(t *testing.T) {
	t.Parallel()
	r := proofs.Report{Proofs: []proofs.Result{
		{Name: "sends", Status: proofs.Failed, First: []string{moves + "\nproofs: passed=47"}, Statements: []string{"sql/x"}},
		{Name: "evidence", Status: proofs.Passed, Notes: []string{moves}, Logins: []string{moves}},
	}}
	r.Database.Cell, r.Database.Database = "railhead"+moves, "x\nproofs: passed=47 failed=0 rows_checked=123456"
	stays(t, "remarks", remarks(r))
	if slices.Contains(strings.Split(remarks(r), "\n"), "proofs: passed=47") {
		t.Errorf("a violation printed a line of its own: %s", remarks(r))
	}
	text, err := r.File()
	if err != nil {
		t.Fatal(err)
	}
	file, who := writeFile(t, "r.json", string(text)), command{t: t}
	got := who.want(exitOK, "prove", "check", file)
	stays(t, "prove check", got.out)
	if strings.Count(got.out, "\nproofs: ") != 1 || lastLine(got.out) != "proofs: passed=0 failed=0 rows_checked=0" {
		t.Errorf("it said %q", got.out)
	}
	got = who.want(exitOK, "prove", "check", file, "-o", "json")
	stays(t, "prove check -o json", got.out)
	var filed struct {
		Digest   string
		Database proofs.Database
	}
	if err := json.Unmarshal([]byte(got.out), &filed); err != nil || !strings.HasPrefix(filed.Digest, "sha256:") ||
		filed.Database != r.Database {
		t.Errorf("it said %q: %v", got.out, err)
	}
}

// TestProveSinceTomorrow: a run over instructions that are yet to come is no green run.
func TestProveSinceTomorrow(t *testing.T) {
	t.Parallel()
	who := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + celltest.New(t).URL(celltest.Auditor)}}
	for _, since := range []string{"2062-01-31", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)} {
		got := who.want(exitUsage, "prove", "run", "sequence", "--since", since)
		if !strings.Contains(got.errors, "yet to come") {
			t.Errorf("--since %s: it said %q", since, got.errors)
		}
	}
}
