package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// notExecuted is evidence of today, after the act and the instruction.
func notExecuted() []string {
	return []string{"--not-executed", "--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document",
		"statement 146: no such entry", "--reason", "never booked"}
}

// sentOnceMore has an operator resolve a parked instruction as not executed and replay it; the second send
// has no answer either.
func sentOnceMore(who command, works worker, id string) {
	who.t.Helper()
	who.want(exitOK, append([]string{"dead-letter", "resolve", id}, notExecuted()...)...)
	who.want(exitOK, "dead-letter", "replay", id, "--reason", "to be paid after all")
	works.park(works.claim()[0])
}

// TestEvidenceOfAnEarlierSend: evidence about one send does not end the next one. An operator looks at a payment;
// another one resolves and replays it, and the second send has no answer. The first one's evidence is of the same day,
// and says nothing about that send.
func TestEvidenceOfAnEarlierSend(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	enqueued(who, "INV-1")
	works.park(works.claim()[0])
	seen := lastRowOf(who, "INV-1")
	sentOnceMore(who, works, "INV-1")

	parked := func(what string, got ran) {
		t.Helper()
		if said := who.want(exitOK, "payment", "show", "INV-1").out; !strings.Contains(said, "  state        PARKED\n") ||
			!strings.Contains(got.errors, "railhead payment show ID") || got.out != "" {
			t.Errorf("%s: it said %q and %q:\n%s", what, got.out, got.errors, said)
		}
	}
	act := slices.Concat([]string{"dead-letter", "resolve", "INV-1"}, notExecuted())
	parked("without a row", who.want(exitNotAllowed, act...))
	parked("with the row of before", who.want(exitNotAllowed, append(act, "--row", seen)...))
	who.want(exitOK, append(act, "--row", lastRowOf(who, "INV-1"))...)

	// The replay of what was sent again after a replay names its row, too.
	who.want(exitNotAllowed, "dead-letter", "replay", "INV-1", "--reason", "once more", "--row", seen)
	got := who.want(exitNotAllowed, "dead-letter", "replay", "INV-1", "--reason", "once more")
	if !strings.Contains(got.errors, "nothing was done") || !strings.Contains(got.errors, "--row") {
		t.Errorf("it said %q", got.errors)
	}
	who.want(exitOK, "dead-letter", "replay", "INV-1", "--reason", "once more", "--row", lastRowOf(who, "INV-1"))
}

// TestEvidenceOfTheFirstOfTwoSends: a payment that was sent twice without a replay is resolved as not executed only
// where the row is named; proof of execution needs none.
func TestEvidenceOfTheFirstOfTwoSends(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2")
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultUnknown, payment.Outcome{ErrorMessage: "no answer within 30s"})
	}
	for _, claim := range works.claim() {
		works.park(claim)
	}
	who.want(exitNotAllowed, slices.Concat([]string{"dead-letter", "resolve", "INV-1"}, notExecuted())...)
	who.want(exitOK, slices.Concat([]string{"dead-letter", "resolve", "INV-1", "--row", lastRowOf(who, "INV-1")},
		notExecuted())...)
	who.want(exitOK, "dead-letter", "replay", "INV-1", "--reason", "nothing was sent since it ended")
	who.want(exitOK, "dead-letter", "resolve", "INV-2", "--executed", "--rail-reference", "RS1", "--evidence-date",
		time.Now().UTC().Format(time.DateOnly), "--document", "statement 146, line 9", "--reason", "on the statement")
}

// TestActsNameTheRow: each act on one instruction is refused where its last row is not the one that was seen, and does
// nothing.
func TestActsNameTheRow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	enqueued(who, "INV-1", "INV-2", "INV-3")
	for _, claim := range works.claim() {
		switch claim.InstructionID {
		case "INV-1":
			works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
		case "INV-2":
			works.answer(claim, payment.ResultRefusedTransient, payment.Outcome{RailCode: "AM04"})
		case "INV-3":
			works.park(claim)
		}
	}
	for _, act := range []string{
		"dead-letter acknowledge INV-1", "dead-letter escalate INV-1", "dead-letter replay INV-1", "dead-letter close INV-1",
		"payment cancel INV-2", "payment send-now INV-2", "payment reschedule INV-2 --in 2h", "payment inquire INV-3",
		"payment skip INV-3",
	} {
		got := who.want(exitNotAllowed, append(strings.Fields(act), "--reason", "x", "--row", "1")...)
		if !strings.Contains(got.errors, "its last row is ") || !strings.Contains(got.errors, "nothing was done") {
			t.Errorf("%s said %q", act, got.errors)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL`); n != 0 {
		t.Errorf("%d acts were done", n)
	}
	who.want(exitUsage, "dead-letter", "close", "INV-1", "INV-2", "--reason", "x", "--row", "2")
	for _, act := range []string{"dead-letter close INV-1", "payment cancel INV-2"} {
		fields := strings.Fields(act)
		who.want(exitOK, append(fields, "--reason", "x", "--row", lastRowOf(who, fields[2]))...)
	}
	enqueued(who, "INV-4")
	who.want(exitOK, "payment", "cancel", "INV-4", "--reason", "x", "--row", "0")
}

// lastRowOf is the last row as payment show prints it.
func lastRowOf(who command, id string) string {
	who.t.Helper()
	for line := range strings.Lines(who.want(exitOK, "payment", "show", id).out) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "last" && fields[1] == "row" {
			return fields[2]
		}
	}
	who.t.Fatalf("no last row of %s is printed", id)
	return ""
}
