package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestForgedIsShown: a payment that the registry does not have has a dead letter, and can
// be shown, acknowledged and ended by the commands that its remedy names.
func TestForgedIsShown(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	forge := func(name string) string {
		t.Helper()
		id := payment.NewID()
		cell.Exec(`INSERT INTO railhead.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
			VALUES ($1, $2, 'forger', $3, 'k', 'bank', '{"amount": "500000.00", "currency": "EUR"}')`, [16]byte(id), name, len(name))
		return id.String()
	}
	says := func(text string, want ...string) {
		t.Helper()
		for _, each := range want {
			if !strings.Contains(text, each) {
				t.Errorf("it does not say %q:\n%s", each, text)
			}
		}
	}
	id := forge("FORGED-1")
	says(who.want(exitOK, "payment", "show", id).out, "enqueued     never: the registry has no row of it",
		"money        not sent: it was never claimed", "500000.00 EUR")
	works.answer(works.claim()[0], payment.ResultTampered, payment.Outcome{})
	says(who.want(exitOK, "dead-letter", "list").out, id, "TAMPERED")
	shown := who.want(exitOK, "dead-letter", "show", id).out
	says(shown, "enqueued     never", "money        not sent: every claim ended before the first byte",
		"it was never enqueued here", "railhead dead-letter close "+id)
	if strings.Contains(shown, "resolve "+id) {
		t.Errorf("the remedy is refused:\n%s", shown)
	}
	var document struct {
		NeverEnqueued bool   `json:"never_enqueued"`
		RailKey       string `json:"rail_key"`
	}
	if err := json.Unmarshal([]byte(who.want(exitOK, "payment", "show", id, "-o", "json").out), &document); err != nil ||
		!document.NeverEnqueued || document.RailKey != "" {
		t.Errorf("JSON says %+v, %v", document, err)
	}
	who.want(exitOK, "dead-letter", "acknowledge", id, "--reason", "looking for the forger")
	who.want(exitOK, "dead-letter", "close", id, "--reason", "found the forger")
	says(who.want(exitOK, "payment", "show", id).out, "next         nothing: it is PARKED, and its dead letter is closed")

	id = forge("FORGED-22")
	if _, err := works.executor.Quarantine(t.Context(), []payment.ID{mustID(t, id)}, "23514"); err != nil {
		t.Fatal(err)
	}
	says(who.want(exitOK, "dead-letter", "show", id).out, "UNCLAIMABLE", "it was never enqueued here")
	who.want(exitOK, "dead-letter", "close", id, "--reason", "found the forger")
	says(who.want(exitOK, "payment", "show", id).out, "next         nothing: its row is gone from pending",
		"money        not sent: it was never claimed")

	// A payment that may have been sent can't be closed, and its remedy does not name that.
	id = forge("FORGED-333")
	works.answer(works.claim()[0], payment.ResultUnknown, payment.Outcome{})
	cell.Exec(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity'`)
	cell.Exec(`SELECT railhead.open_dead_letters(ARRAY[$1::uuid], ARRAY['UNCLAIMABLE'], ARRAY['23514'])`, [16]byte(mustID(t, id)))
	shown = who.want(exitOK, "dead-letter", "show", id).out
	says(shown, "money        outcome unknown", "railhead dead-letter escalate "+id)
	who.want(exitNotAllowed, "dead-letter", "close", id, "--reason", "found the forger")
	who.want(exitOK, "dead-letter", "escalate", id, "--reason", "may be on its way")
	who.want(exitNotFound, "payment", "show", payment.NewID().String())
}

func mustID(t *testing.T, text string) payment.ID {
	t.Helper()
	id, err := payment.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRemedyKnowsTheProfile: a remedy names no replay that the rail's profile refuses, and
// the one that it names is taken.
func TestRemedyKnowsTheProfile(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "NEW"}`)
	enqueued(who, "REFUSED", "CHECKED")
	for _, claim := range works.claim() {
		works.answer(claim, map[string]payment.Result{"REFUSED": payment.ResultRefusedFinal,
			"CHECKED": payment.ResultCheckFailed}[claim.InstructionID], payment.Outcome{})
	}
	for name, test := range map[string]struct {
		names bool
		exit  int
	}{"REFUSED": {false, exitNotAllowed}, "CHECKED": {true, exitOK}} {
		shown := who.want(exitOK, "dead-letter", "show", name).out
		if got := strings.Contains(shown, "railhead dead-letter replay"); got != test.names ||
			!strings.Contains(shown, "railhead dead-letter close") {
			t.Errorf("%s: the remedy names a replay: %t\n%s", name, got, shown)
		}
		said := who.want(test.exit, "dead-letter", "replay", name, "--reason", "again").errors
		if test.exit != exitOK && !strings.Contains(said,
			"it may have been sent, and rail bank requires a new id for another try") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestInquireCommand goes through an operator's resolution of a parked payment.
func TestInquireCommand(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME",
		"inquiry": {"intervals": ["1s"], "max": 2, "not_found": "INCONCLUSIVE"}}`)
	enqueued(who, "INV-1")
	works.park(works.claim()[0])
	resolve := func(exit int, more ...string) ran {
		t.Helper()
		return who.want(exit, append([]string{"dead-letter", "resolve", "INV-1", "--not-executed", "--evidence-date",
			time.Now().UTC().Format(time.DateOnly),
			"--document", "ticket 4711", "--reason", "they never got it"}, more...)...)
	}
	if shown := who.want(exitOK, "dead-letter", "show", "INV-1").out; !strings.Contains(shown,
		"railhead payment inquire ") {
		t.Errorf("the remedy does not have the rail asked:\n%s", shown)
	}
	if said := resolve(exitNotAllowed).errors; !strings.Contains(said, "railhead payment inquire") {
		t.Errorf("the refusal does not say what to do: %s", said)
	}
	if said := who.want(exitOK, "payment", "inquire", "INV-1", "--reason", "ticket 4711").out; !strings.HasPrefix(said,
		"due for one inquiry: ") {
		t.Errorf("inquire said %q", said)
	}
	works.answer(works.claim()[0], payment.ResultNotFound, payment.Outcome{})
	who.want(exitNotAllowed, "payment", "cancel", "INV-1", "--reason", "x")
	resolve(exitNotAllowed)
	resolve(exitOK, "--rail-silent")
	who.want(exitUsage, "dead-letter", "resolve", "INV-1", "--executed", "--rail-silent", "--rail-reference", "x",
		"--evidence-date", time.Now().UTC().Format(time.DateOnly),
		"--document", "ticket 4711", "--reason", "x")
	who.want(exitNotAllowed, "payment", "inquire", "INV-1", "--reason", "x")
	shown := who.want(exitOK, "payment", "show", "INV-1").out
	for _, want := range []string{
		"money        not executed: by evidence of " + celltest.Operator + ", ticket 4711 (row 8)",
		"an operator requested an inquiry", "an operator resolved it",
		"without the rail's word: they never got it",
		"it was not paid, by evidence of " + celltest.Operator + ", ticket 4711.",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("payment show does not say %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "by the rail's own word") || strings.Contains(shown, "provably") {
		t.Errorf("a person's evidence is shown as the rail's word:\n%s", shown)
	}
}
