package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// worker plays the relayer of a cell.
type worker struct {
	t        testing.TB
	cell     *celltest.Cell
	executor *executor.Executor
}

func newWorker(t testing.TB, cell *celltest.Cell) worker {
	t.Helper()
	executor, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executor.Close)
	return worker{t, cell, executor}
}

// claim makes everything due and claims it.
func (w worker) claim() []payment.Claim {
	w.t.Helper()
	w.cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() WHERE next_attempt_at > now()")
	done, err := w.executor.Turn(w.t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 50, Oldest: 5,
			ProfileVersion: w.cell.ProfileInForce(celltest.Bank), RenderVersion: "r1"}},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return done.Claims
}

// answer records the rail's answer to a claim.
func (w worker) answer(claim payment.Claim, result payment.Result, evidence payment.Outcome) {
	w.t.Helper()
	policy := payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour), IDAfterRefusal: payment.IDSame,
		Retry: payment.RetryPolicy{Base: payment.Duration(time.Minute)}, // so that a slow look does not find it due
	}.WithDefaults()
	outcome := evidence
	outcome.AttemptID, outcome.ParkAttemptID, outcome.Claim, outcome.Result = payment.NewID(), payment.NewID(), claim,
		result
	outcome.Decision = policy.Decide(claim, payment.Answer{Result: result, Elapsed: time.Millisecond})
	outcome.Latency, outcome.WorkerID, outcome.ProfileVersion, outcome.RenderVersion = 40*time.Millisecond, "relayer-1",
		1, "r1"
	if _, err := w.executor.Turn(w.t.Context(), outbox.Turn{Outcomes: []payment.Outcome{outcome}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestPaymentShow follows one instruction from its enqueue to its end, and shows it
// at each step.
func TestPaymentShow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	who.want(exitOK, "enqueue", "--instruction-id", "INV-7", "--participant-id", "p1", "--idempotency-key", "INV-7-a",
		"--rail", celltest.Bank, "--amount", "10.5", "--currency", "EUR", "--payload", `{"payee": "<b>"}`)
	var seen strings.Builder
	show := func(what string) {
		t.Helper()
		seen.WriteString("=== " + what + "\n" + who.want(exitOK, "payment", "show", "INV-7").out + "\n")
	}
	show("waiting")
	claim := works.claim()[0]
	show("in flight")
	works.answer(claim, payment.ResultRefusedTransient,
		payment.Outcome{RailCode: "AM04", CodeTable: "iso20022@1", ErrorMessage: "no funds\x1b[2J"})
	show("refused for now")
	works.answer(works.claim()[0], payment.ResultUnknown, payment.Outcome{ErrorMessage: "no answer within 30s"})
	show("no answer")
	cell.Exec("UPDATE railhead.payment_rails SET paused = true, paused_by = 'amy', paused_at = now(), pause_reason = " +
		"'bank is down' WHERE rail_type = 'bank'")
	show("paused")
	cell.Exec("UPDATE railhead.payment_rails SET paused = false WHERE rail_type = 'bank'")
	works.answer(works.claim()[0], payment.ResultAccepted, payment.Outcome{RailReference: "BANK-1"})
	cell.Exec("INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, actor) SELECT 'NOTE', 'x', " +
		"outbox_id, 'called the bank', 'amy' FROM railhead.payment_outbox_keys")
	show("executed")
	golden(t, "payment_show", seen.String())
	golden(t, "payment_show_json", who.want(exitOK, "payment", "show", "BANK-1", "-o", "json").out)
	if got := who.want(exitUsage, "payment", "show", "INV-7", "--payload"); got.out != "" ||
		!strings.Contains(got.errors, "railhead payment reveal ID --reason WHY") {
		t.Errorf("a payload without a reason: got %q, %q", got.out, got.errors)
	}

	bare := who.want(exitOK, "payment", "show", "INV-7", "-o", "json").out
	if strings.Contains(bare, "payee") || strings.Contains(seen.String(), "payee") {
		t.Error("the payload is shown without a reveal")
	}
	if strings.Contains(seen.String(), "\x1b") {
		t.Error("a rail's message reaches the terminal with its control characters")
	}
	var document struct{ Amount any }
	if err := json.Unmarshal([]byte(bare), &document); err != nil || document.Amount != "10.50" {
		t.Errorf("amount %#v, %v", document.Amount, err)
	}
}

func TestPaymentShowDeadLetter(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	for _, participant := range []string{"p1", "p2"} {
		who.want(exitOK, "enqueue", "--instruction-id", "shared", "--participant-id", participant, "--idempotency-key",
			participant,
			"--rail", celltest.Bank, "--amount", "1", "--currency", "JPY", "--expires-at", "2999-01-01T00:00:00Z",
			"--priority", "bulk")
	}
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultRefusedFinal,
			payment.Outcome{RailCode: "AC04", RailReference: "ref-" + claim.ParticipantID})
	}
	golden(t, "payment_show_dead", who.want(exitOK, "payment", "show", "ref-p2").out)
	golden(t, "payment_show_several", who.want(exitUsage, "payment", "show", "shared").errors)
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	golden(t, "status_empty", who.want(exitOK, "status").out)
	for _, id := range []string{"i1", "i2", "i3"} {
		who.want(exitOK, "enqueue", "--instruction-id", id, "--participant-id", "p1", "--idempotency-key", id,
			"--rail", celltest.Bank, "--amount", "1", "--currency", "EUR")
	}
	claims := works.claim()
	works.answer(claims[0], payment.ResultRefusedFinal, payment.Outcome{})
	works.answer(claims[1], payment.ResultUnknown, payment.Outcome{})
	who.want(exitOK, "enqueue", "--instruction-id", "i4", "--participant-id", "p1", "--idempotency-key", "i4",
		"--rail", celltest.Bank, "--amount", "1", "--currency", "EUR")
	works.claim()
	cell.Exec("UPDATE railhead.payment_rails SET paused = true, paused_by = 'amy', paused_at = now(), pause_reason = " +
		"'drill' WHERE rail_type = '*'")
	if _, err := works.executor.Heartbeat(t.Context(), outbox.Heartbeat{
		Name: "relayer-1", Kind: "relayer", Host: "h1", Version: "v1", Status: "suspended", Activity: "waits for an operator",
	}); err != nil {
		t.Fatal(err)
	}
	cell.Exec("UPDATE railhead.outbox_heartbeats SET clock_offset_ms = -2500")
	golden(t, "status", who.want(exitOK, "status").out)
	golden(t, "status_money", who.want(exitOK, "status", "--money").out)
	golden(t, "status_json", who.want(exitOK, "status", "-o", "json").out)
}
