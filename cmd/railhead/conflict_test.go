package main

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

// TestRefusedAfterItWasExecuted: no report of a rail after final settlement revokes an
// execution. RJCT opens a CONFLICT whose remedy names the return; BLCK and PDNG
// prove nothing, and write no row.
func TestRefusedAfterItWasExecuted(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	for _, id := range []string{"returned", "other way"} {
		who.want(exitOK, "enqueue", "--instruction-id", id, "--participant-id", "p1", "--idempotency-key", id,
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "USD")
	}
	callbacks, err := callbacks.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Callbacks), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer callbacks.Close()
	fednow, err := codes.Named("fednow")
	if err != nil {
		t.Fatal(err)
	}
	words := codes.ReportWords{Words: map[string]payment.Result{"ACWP": codes.ReportedByCode,
		"RJCT": codes.ReportedByCode, "BLCK": codes.ReportedByCode, "PDNG": codes.ReportedByCode}, Table: fednow}
	// report is the callback of a rail, if it is news.
	report := func(claim payment.Claim, word, code string) {
		t.Helper()
		outcome := payment.Outcome{
			AttemptID: payment.NewID(), Claim: payment.Claim{OutboxID: claim.OutboxID, RailType: celltest.Bank},
			RailCode: code, CodeTable: "fednow", WorkerID: "callbacks-1",
		}
		switch outcome.Result = words.Read(word, code).Result; outcome.Result {
		case payment.ResultExecuted:
			outcome.Decision.State = payment.Dispatched
		case payment.ResultRefused:
			outcome.Decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
		default:
			return
		}
		if _, err := callbacks.RecordLate(t.Context(), outcome); err != nil {
			t.Fatal(err)
		}
	}
	state := func(claim payment.Claim) string {
		t.Helper()
		var text string
		cell.QueryRow(`SELECT concat_ws(' ', (SELECT string_agg(state::text, ' ' ORDER BY attempt_no)
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1), '|',
			(SELECT concat_ws(' ', reason, status) FROM railhead.payment_dead_letters
			WHERE outbox_id = $1))`, []any{[16]byte(claim.OutboxID)}, &text)
		return text
	}
	is := func(what string, claim payment.Claim, want string) {
		t.Helper()
		if got := state(claim); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	byName := make(map[string]payment.Claim)
	for _, claim := range works.claim() {
		byName[claim.InstructionID] = claim
	}
	settled := byName["returned"]
	works.answer(settled, payment.ResultAccepted,
		payment.Outcome{RailCode: "ACWP", CodeTable: "fednow", RailReference: "m-1"})
	for _, word := range []string{"PDNG", "BLCK"} {
		report(settled, word, "")
		is(word, settled, "DISPATCHING DISPATCHED |")
	}
	report(settled, "RJCT", "AC04")
	is("RJCT", settled, "DISPATCHING DISPATCHED LATE_OUTCOME | CONFLICT pending")
	shown := who.want(exitOK, "dead-letter", "show", settled.OutboxID.String()).out
	for _, want := range []string{"announces a return", "the payment was made",
		"If both are on\nthe statement, resolve it as executed"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the remedy does not say %q:\n%s", want, shown)
		}
	}
	who.want(exitOK, "dead-letter", "resolve", settled.OutboxID.String(), "--executed", "--rail-reference", "m-1",
		"--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document", "statement 146, lines 9 and 30",
		"--reason", "booked, and returned")
	if got := state(settled); !strings.HasSuffix(got, "| CONFLICT resolved") {
		t.Errorf("resolved: %s", got)
	}

	// The other way round no return is announced.
	other := byName["other way"]
	works.answer(other, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "fednow"})
	report(other, "ACWP", "")
	if shown := who.want(exitOK, "dead-letter", "show", other.OutboxID.String()).out; strings.Contains(shown,
		"announces a return") {
		t.Errorf("refused, then executed: %s\n%s", state(other), shown)
	}
}
