package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestSendNow: an instruction that was enqueued for later is sent when an operator makes
// it due, and the log has each change with its reason.
func TestSendNow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	who.want(exitOK, "enqueue", "--instruction-id", "INV-1", "--participant-id", "p1", "--idempotency-key", "k",
		"--rail", celltest.Bank,
		"--amount", "10.50", "--currency", "EUR", "--not-before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	said := who.want(exitOK, "payment", "reschedule", "INV-1", "--in", "2h", "--reason", "their maintenance").out
	if !strings.HasPrefix(said, "due at ") || !strings.Contains(said, ", was due at ") || strings.Count(said, "\n") != 1 {
		t.Errorf("reschedule said %q", said)
	}
	const due = `SELECT count(*) FROM railhead.payment_outbox_pending WHERE next_attempt_at <= now()`
	if n := cell.Int(due); n != 0 {
		t.Fatalf("%d are due, want none", n)
	}
	var done dueAct
	if err := json.Unmarshal([]byte(who.want(exitOK, "payment", "send-now", "INV-1", "--reason", "they are back", "-o",
		"json").out), &done); err != nil {
		t.Fatal(err)
	}
	if done.Act != "SEND_NOW" || !done.Changed || done.Was.Sub(done.Is) < time.Hour {
		t.Errorf("send-now as JSON: %+v", done)
	}
	if n := cell.Int(due); n != 1 {
		t.Fatalf("%d are due, want 1", n)
	}
	works.claim()
	who.want(exitNotAllowed, "payment", "send-now", "INV-1", "--reason", "x")
	for _, wrong := range [][]string{
		{"--reason", "x"}, {"--in", "1h", "--at", "2026-12-01T09:00:00Z", "--reason", "x"}, {"--at", "tomorrow", "--reason", "x"},
		{"--at", "2025-12-20T09:00:00Z", "--reason", "x"}, {"--in", "-1h", "--reason", "x"}, {"--in", "1h"}, {"--in", "10000h", "--reason", "x"},
	} {
		who.want(exitUsage, append([]string{"payment", "reschedule", "INV-1"}, wrong...)...)
	}
	shown := who.want(exitOK, "payment", "show", "INV-1").out
	for _, want := range []string{"reschedule", "send now", "their maintenance", "they are back"} {
		if !strings.Contains(shown, want) {
			t.Errorf("payment show lacks %q:\n%s", want, shown)
		}
	}
}

// TestLog: the operator log by its filters, as lines, as one document, as a line each, and
// as it goes on.
func TestLog(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1", "INV-2")
	who.want(exitOK, "rail", "pause", "bank", "--reason", "their\nmaintenance")
	who.want(exitOK, "payment", "cancel", "INV-1", "--reason", "not wanted")
	who.want(exitOK, "rail", "resume", "bank", "--reason", "they are back")

	all := strings.Split(strings.TrimSpace(who.want(exitOK, "log").out), "\n")
	if len(all) != 4 || !strings.HasSuffix(all[1],
		"PAUSE_RAIL          bank  by railhead_operator_login: their maintenance") ||
		!strings.HasSuffix(all[2], "CANCEL              INV-1  by railhead_operator_login: not wanted") {
		t.Errorf("the log:\n%s", strings.Join(all, "\n"))
	}
	for filter, want := range map[string]string{
		"--act pause-rail": "PAUSE_RAIL", "--subject INV-1": "CANCEL", "--payment INV-1": "CANCEL", "--limit 1": "RESUME_RAIL",
		"--act RESUME_RAIL --actor railhead_operator_login --since 1h": "RESUME_RAIL",
	} {
		var acts []reader.LoggedAct
		said := who.want(exitOK, append([]string{"log", "-o", "json"}, strings.Fields(filter)...)...)
		if err := json.Unmarshal([]byte(said.out), &acts); err != nil || len(acts) != 1 || acts[0].Act != want {
			t.Errorf("log %s: %s, %v", filter, said.out, err)
		}
		if cut := strings.Contains(said.errors, "older acts are left out"); cut != strings.Contains(filter, "--limit") {
			t.Errorf("log %s: %q", filter, said.errors)
		}
	}
	if lines := who.want(exitOK, "log", "-o", "jsonl").out; strings.Count(lines, "\n") != 4 || !strings.HasPrefix(lines, `{"act_id":"`) {
		t.Errorf("as lines: %s", lines)
	}
	if none := who.want(exitOK, "log", "--actor", "another", "-o", "json").out; none != "[]\n" {
		t.Errorf("of another login: %q", none)
	}
	for filter, says := range map[string]string{
		"--subject bnak --act pause-rail": `nothing of the name "bnak" was ever acted on`,
		"--actor another --subject bank":  `no login of the name "another" ever acted`,
		"--person amy":                    `no person of the name "amy" ever acted`, "--act resolve --subject bank": "",
	} {
		said := who.want(exitOK, append([]string{"log"}, strings.Fields(filter)...)...)
		if said.out != "no act\n" || !strings.Contains(said.errors, says) || says == "" && said.errors != "" ||
			strings.Count(said.errors, "ever acted") > 1 {
			t.Errorf("log %s: %q, %q", filter, said.out, said.errors)
		}
	}
	for _, args := range [][]string{{"log", "--act", "REVEAL"}, {"log", "--follow", "--act", "REVEAL"}} {
		said := who.want(exitUsage, args...)
		if !strings.Contains(said.errors, `there is no act "REVEAL"`) || !strings.Contains(said.errors, "REVEAL_PAYLOAD") {
			t.Errorf("%v: %q", args, said.errors)
		}
	}
	said := who.want(exitUsage, "payment", "list", "--older-than", "48h").errors
	if strings.Contains(said, "the instruction is refused") || !strings.Contains(said, "this can't be answered: ") {
		t.Errorf("a filter that no payment can fit: %q", said)
	}
	who.want(exitNotFound, "log", "--payment", "INV-9")
	who.want(exitUsage, "log", "--limit", "0")
	who.want(exitUsage, "log", "--every", "1ms")
	who.want(exitUsage, "log", "-o", "yaml")
}
