package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestPrune removes the letter of an executed payment that was closed long ago, and says
// what it did; a dry run says what it would do. What it can't do it refuses.
func TestPrune(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2")
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	who.want(exitOK, "dead-letter", "resolve", "INV-1", "--executed", "--rail-reference", "RS1", "--evidence-date",
		time.Now().UTC().Format(time.DateOnly), "--document", "statement 146", "--reason", "it was paid")
	cell.Exec(`UPDATE railhead.payment_dead_letters SET updated_at = now() - interval '30 days'`)

	for _, wrong := range [][]string{
		{"--dead-before", "90d"}, {"--reason", "why"}, {"--dead-before", "-1h", "--reason", "why"},
		{"--dead-before", "0d", "--reason", "why"}, {"--dead-before", "soon", "--reason", "why"},
		{"--dead-before", "1999-01-01T00:00:00Z", "--reason", "why"}, {"--dead-before", "90d", "--reason", " "},
		{"--dead-before", "2999-01-01T00:00:00Z", "--reason", "why"}, {"--dead-before", "6d", "--reason", "why"},
	} {
		who.want(exitUsage, append([]string{"prune"}, wrong...)...)
	}
	refused := who.want(exitUsage, "prune", "attempts", "--dead-before", "90d", "--reason", "why")
	if !strings.Contains(refused.errors, "attempts: the archive is append-only, and nothing in it is pruned") {
		t.Errorf("it says %s", refused.errors)
	}

	const kept = "; kept: 1 open, 0 closed too recently, 0 still needed\n"
	acts := `SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'PRUNE'`
	got := who.want(exitOK, "prune", "--dead-before", "8d", "--reason", "retention", "--dry-run")
	if !strings.HasPrefix(got.out, "dead letters: 1 of 2 would be pruned"+kept+"heartbeats: 0 of ") ||
		cell.Int(acts) != 0 {
		t.Errorf("a dry run says %s", got.out)
	}
	got = who.want(exitOK, "prune", "--dead-before", "192h", "--reason", "retention")
	if !strings.HasPrefix(got.out, "dead letters: 1 of 2 pruned"+kept) || cell.Int(acts) != 1 {
		t.Errorf("it says %s", got.out)
	}
	var all []map[string]any
	cell.Exec(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`)
	cell.Exec(`CREATE TRIGGER refuse BEFORE DELETE ON railhead.outbox_heartbeats EXECUTE FUNCTION public.refuse()`)
	got = who.want(exitFailure, "prune", "--dead-before", "8d", "--reason", "retention", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &all); err != nil || len(all) != 1 || all[0]["what"] != "dead-letters" {
		t.Errorf("what was done before an error, as JSON: %v %s", err, got.out)
	}
	cell.Exec(`DROP TRIGGER refuse ON railhead.outbox_heartbeats`)
	got = who.want(exitOK, "prune", "--dead-before", "8d", "--reason", "retention", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &all); err != nil || len(all) != 2 || all[0]["what"] != "dead-letters" ||
		all[0]["changed"] != false || all[0]["seen"] != 1.0 || all[0]["kept_open"] != 1.0 || cell.Int(acts) != 1 {
		t.Errorf("as JSON: %v %s", err, got.out)
	}
	shown := who.want(exitOK, "payment", "show", "INV-1").out
	if !strings.Contains(shown, "DISPATCHED") || strings.Contains(shown, "dead letter") ||
		!strings.Contains(shown, "nothing: it has ended") {
		t.Errorf("it shows %s", shown)
	}
	if logged := who.want(exitOK, "log", "--act", "prune").out; !strings.Contains(logged, "retention") {
		t.Errorf("the log has %s", logged)
	}
}
