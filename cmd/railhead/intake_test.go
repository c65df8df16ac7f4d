package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestIntake: what is closed is refused with an exit code of its own, listed and shown by
// status, and taken again once it is opened; what is known, and what is not closed, goes on.
func TestIntake(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1")
	one := func(name string) []string {
		return []string{"enqueue", "--instruction-id", name, "--participant-id", "p1", "--idempotency-key", name + "-key",
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR"}
	}
	if said := who.want(exitOK, "intake", "list").out; said != "enqueue is open for everything\n" {
		t.Errorf("the list of nothing: %q", said)
	}
	for _, test := range []struct{ of, what string }{
		{"bank", "rail bank"}, {"--participant p1", "participant p1"}, {"--everything", "everything"},
	} {
		run := func(word string, more ...string) string {
			return who.want(exitOK, append(append([]string{"intake", word}, strings.Fields(test.of)...),
				append(more, "--reason", "their maintenance")...)...).out
		}
		if said := run("close"); said != "enqueue for "+test.what+" closed\n" {
			t.Errorf("close %s: %q", test.of, said)
		}
		if said := run("close", "--for", "1h"); !strings.HasPrefix(said,
			"enqueue for "+test.what+" was closed already by "+celltest.Operator+" since 2") ||
			!strings.HasSuffix(said, ", and has no end: their maintenance\n") {
			t.Errorf("close %s again: %q", test.of, said)
		}
		refused := who.want(exitClosed, one("INV-2")...).errors
		if want := "enqueue is closed for " + test.what + " by " + celltest.Operator; !strings.Contains(refused, want) ||
			!strings.Contains(refused, "RH014") ||
			!strings.Contains(refused, "Nothing was stored.") {
			t.Errorf("enqueue says %q, want %q", refused, want)
		}
		if again := who.want(exitOK, one("INV-1")...).out; !strings.Contains(again, "replayed") {
			t.Errorf("a known key: %q", again)
		}
		for _, command := range []string{"intake list", "status"} {
			shown := who.want(exitOK, strings.Fields(command)...).out
			if row := lineWith(shown, test.what+" "); !strings.Contains(shown, "CLOSED") ||
				!strings.Contains(row, celltest.Operator) || !strings.HasSuffix(row, "their maintenance") {
				t.Errorf("%s has no row of %s:\n%s", command, test.what, shown)
			}
		}
		if said := run("open"); !strings.HasPrefix(said, "enqueue for "+test.what+" opened: it was closed by "+
			celltest.Operator+" since 2") || !strings.HasSuffix(said, ": their maintenance\n") {
			t.Errorf("open %s: %q", test.of, said)
		}
		if said := run("open"); said != "enqueue for "+test.what+" was not closed\n" {
			t.Errorf("open %s again: %q", test.of, said)
		}
		until := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
		want := "enqueue for " + test.what + " closed until " + clock(until) + "\n"
		if said := run("close", "--until", until.Format(time.RFC3339)); said != want {
			t.Errorf("close %s until then: %q", test.of, said)
		}
		if said := run("close", "--for", "1m"); !strings.HasSuffix(said,
			", and opens at "+clock(until)+": their maintenance\n") {
			t.Errorf("close %s for less: %q", test.of, said)
		}
	}
	var listed []reader.ClosedGate
	if err := json.Unmarshal([]byte(who.want(exitOK, "intake", "list", "-o", "json").out), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 3 || listed[0].Scope != reader.GateCell || listed[0].Name != "*" ||
		listed[2].Scope != reader.GateRail || listed[2].Name != "bank" {
		t.Errorf("listed %+v", listed)
	}
	if said := who.want(exitOK, "intake", "open", "bank", "--reason", "x").out; !strings.HasPrefix(said,
		"enqueue for rail bank opened: it was closed by ") || !strings.Contains(said, "; everything is closed by ") {
		t.Errorf("opened while everything is closed: %q", said)
	}
	if claims := works.claim(); len(claims) != 1 {
		t.Errorf("behind closed gates %d were claimed, want the one that was enqueued before", len(claims))
	}
	var done act
	if err := json.Unmarshal([]byte(who.want(exitOK, "intake", "open", "--participant", "p1", "--reason", "x", "-o",
		"json").out), &done); err != nil {
		t.Fatal(err)
	}
	if ended := done.Ended; ended == nil || ended.By != celltest.Operator || ended.Reason != "their maintenance" ||
		ended.At.IsZero() || ended.Until.IsZero() {
		t.Errorf("JSON says of the closing that ended %+v", ended)
	}
	done.Ended = nil
	want := act{Act: "OPEN_ENQUEUE", ParticipantID: "p1", Now: "open", Changed: true}
	if !reflect.DeepEqual(done, want) {
		t.Errorf("JSON says %+v, want %+v", done, want)
	}
	file := writeFile(t, "instructions.jsonl", `{"instruction_id":"INV-3","participant_id":"p1","idempotency_key":"INV-3","rail_type":"bank","payload":{"amount":"10.50","currency":"EUR"}}`+"\n")
	if lines := who.want(exitPartial, "enqueue", "--file", file).out; !strings.Contains(lines,
		"refused\tINV-3\tRH014\tenqueue is closed for everything") {
		t.Errorf("a file says %q", lines)
	}
	who.want(exitOK, "intake", "open", "--everything", "--reason", "x")
	who.want(exitOK, one("INV-2")...)

	who.want(exitNotFound, "intake", "close", "bnak", "--reason", "x")
	who.want(exitNotFound, "intake", "close", "--participant", "p9", "--reason", "x")
	for _, wrong := range [][]string{
		{"bank"}, {"--reason", "x"}, {"bank", "--everything", "--reason", "x"}, {"bank", "--participant", "p1", "--reason", "x"}, {"bank", "--reason", " "},
		{"bank", "--reason", "x", "--for", "1m", "--until", "2030-12-31T09:00:00Z"}, {"bank", "--reason", "x", "--for", "9000h"},
	} {
		who.want(exitUsage, append([]string{"intake", "close"}, wrong...)...)
	}
}

// lineWith is the line of a text that begins so.
func lineWith(text, begins string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begins) {
			return strings.TrimRight(line, " \n")
		}
	}
	return ""
}
