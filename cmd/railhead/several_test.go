package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestSeveralLettersInPart: after an error that is no refusal the command says what was done, and what was not tried.
func TestSeveralLettersInPart(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2", "INV-3", "INV-4")
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	holder := cell.Conn(t, celltest.Operator)
	for _, statement := range []string{"BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '20s'",
		"SELECT railhead.triage_dead_letter(outbox_id, 'acknowledged', 'left open') FROM railhead.payment_dead_letters " +
			"WHERE instruction_id = 'INV-2'"} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	got := who.want(exitFailure, "dead-letter", "close", "INV-1", "nothing", "INV-2", "INV-3", "INV-4", "--reason", "x")
	if strings.Count(got.out, "closed: ") != 1 || !strings.Contains(got.errors, "INV-2: ") ||
		!strings.Contains(got.errors, "nothing was done: the lock is held by") ||
		!strings.Contains(got.errors, "\nbefore that 1 of 5 were done, and 1 refused; not tried: INV-3 INV-4\n") {
		t.Errorf("it said %q and %q", got.out, got.errors)
	}
	if open := cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters WHERE status = 'pending'`); open != 3 {
		t.Errorf("%d dead letters are open", open)
	}
}

// TestRailsNotTried: where the profile of one rail can't be applied, the rails after it are named.
func TestRailsNotTried(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	bank := railsFile("48h")
	_, one, _ := strings.Cut(bank, "rails:\n")
	file := writeFile(t, "two.yaml", bank+strings.ReplaceAll(one, "rail_type: bank", "rail_type: other"))
	holder := cell.Conn(t, celltest.Operator)
	for _, statement := range []string{"BEGIN", "SET LOCAL idle_in_transaction_session_timeout = '20s'",
		"SELECT railhead.pause_rail('bank', 'left open')"} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	got := who.want(exitFailure, "rail", "apply", file, "--reason", "x")
	if !strings.Contains(got.errors, "the lock is held by") || !strings.Contains(got.errors, "\nnot tried: rail other\n") {
		t.Errorf("it said %q and %q", got.out, got.errors)
	}
}

// TestSeveralLetters acts on several dead letters by one command: one that is refused
// stops no other, and an error that is no refusal ends the command.
func TestSeveralLetters(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2", "INV-3", "INV-4", "INV-5")
	for _, claim := range works.claim() {
		if claim.InstructionID == "INV-5" {
			works.answer(claim, payment.ResultAccepted, payment.Outcome{RailReference: "RS1"})
		} else {
			works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
		}
	}
	state := func(id string) string {
		t.Helper()
		for line := range strings.Lines(who.want(exitOK, "payment", "show", id).out) {
			if words := strings.Fields(line); len(words) == 2 && words[0] == "state" {
				return words[1]
			}
		}
		return ""
	}

	got := who.want(exitPartial, "dead-letter", "replay", "INV-1", "INV-5", "nothing", "INV-2", "--reason",
		"account opened, ticket 4711")
	if n := strings.Count(got.out, "back in pending: "); n != 2 || state("INV-1") != "PENDING" ||
		state("INV-2") != "PENDING" || state("INV-5") != "DISPATCHED" {
		t.Errorf("replayed %d, said\n%s", n, got.out)
	}
	for _, want := range []string{"railhead: INV-5: ", "(RH020)", "railhead: nothing: ",
		"railhead: 2 of 4 were refused; the act was done on the others"} {
		if !strings.Contains(got.errors, want) {
			t.Errorf("it does not say %q:\n%s", want, got.errors)
		}
	}
	// A reason that is none is wrong for all of them: nothing is done.
	if got := who.want(exitUsage, "dead-letter", "close", "INV-3", "INV-4", "--reason", " "); strings.Contains(got.out,
		"closed") || state("INV-3") != "FAILED" {
		t.Errorf("it said %s", got.out)
	}
	closed := who.want(exitOK, "dead-letter", "close", "INV-3", "INV-4", "--reason", "paid in another way", "-o", "jsonl")
	if lines := slices.Collect(strings.Lines(closed.out)); len(lines) != 2 || !strings.Contains(lines[1], `"now":"resolved"`) {
		t.Errorf("as lines: %s", closed.out)
	}
}
