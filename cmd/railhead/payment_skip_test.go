package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// ordered is a profile of the bank that orders every participant.
const ordered = `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME",
	"order": "STRICT"}`

// claimInOrder claims the due heads of the bank's lines.
func (w worker) claimInOrder() []payment.Claim {
	w.t.Helper()
	done, err := w.executor.Turn(w.t.Context(), outbox.Turn{Ordered: []string{celltest.Bank}, Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 50, ProfileVersion: w.cell.ProfileInForce(celltest.Bank),
			RenderVersion: "r1", Order: outbox.Order{Strict: true}}},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return done.Claims
}

// inOrder enqueues INV-1 to INV-n of participant p1 on a bank that orders them.
func inOrder(t *testing.T, n int) (command, worker) {
	t.Helper()
	cell := celltest.New(t)
	cell.ApplyProfile(celltest.Bank, ordered)
	who := at(t, cell)
	for i := range n {
		name := fmt.Sprintf("INV-%d", i+1)
		who.want(exitOK, "enqueue", "--instruction-id", name, "--participant-id", "p1", "--idempotency-key", name,
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR")
	}
	return who, newWorker(t, cell)
}

// TestPaymentSkip: an operator lets what is behind a refused head go on, which changes
// nothing about it; a head that is claimed or pending, and what is no head, is not passed.
func TestPaymentSkip(t *testing.T) {
	t.Parallel()
	who, works := inOrder(t, 2)
	next := func(of string) string {
		t.Helper()
		_, said, _ := strings.Cut(who.want(exitOK, "payment", "show", of).out, "  next         ")
		said, _, _ = strings.Cut(said, "\n")
		return said
	}
	if said := next("INV-2"); !strings.HasPrefix(said, "SEND, due since ") {
		t.Errorf("before a line: %q", said)
	}
	claims := works.claimInOrder()
	if len(claims) != 1 {
		t.Fatalf("claimed %d, want the head", len(claims))
	}
	first := claims[0].OutboxID.String()
	says := func(of, want string) {
		t.Helper()
		if said := next(of); !strings.HasSuffix(said, want) {
			t.Errorf("%s: %q, want %q", of, said, want)
		}
	}
	says("INV-2", "waits in order behind "+first+" (sequence 1), which is in flight")
	for _, id := range []string{"INV-1", "INV-2"} {
		if got := who.want(exitNotAllowed, "payment", "skip", id, "--reason", "x"); !strings.Contains(got.errors, "(RH020)") {
			t.Errorf("%s: %q", id, got.errors)
		}
	}
	works.answer(claims[0], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04"})
	if claims := works.claimInOrder(); len(claims) != 0 {
		t.Fatalf("claimed %d behind a refused head", len(claims))
	}
	says("INV-2", "waits in order behind "+first+" (sequence 1), which is FAILED and needs an operator (FAILED); for the "+
		"acts: railhead payment show "+first)
	says("INV-1", " (FAILED); what its participant has in pending behind it on the rail waits for that, or for: "+
		"railhead payment skip "+first+" --reason WHY")
	blocked := regexp.MustCompile(`(?m)^rail bank: lines that are blocked in order: 1, the first ` +
		`since \S+Z: railhead payment show ` + first + `$`)
	if status := who.want(exitOK, "status").out; !blocked.MatchString(status) {
		t.Errorf("status has no line of the blocked head:\n%s", status)
	}
	who.want(exitUsage, "payment", "skip", "INV-1")
	who.want(exitNotFound, "payment", "skip", "nothing", "--reason", "x")
	var done skipAct
	text := who.want(exitOK, "payment", "skip", "INV-1", "--reason", "the account is closed", "-o", "json").out
	if err := json.Unmarshal([]byte(text), &done); err != nil {
		t.Fatal(err)
	}
	if done != (skipAct{"SKIP_IN_ORDER", claims[0].OutboxID, 1}) {
		t.Errorf("skip as JSON: %+v", done)
	}
	if status := who.want(exitOK, "status").out; strings.Contains(status, "in order") {
		t.Errorf("status after the skip:\n%s", status)
	}
	says("INV-1", " (FAILED)")
	if said := next("INV-2"); !strings.HasPrefix(said, "SEND, due since ") {
		t.Errorf("after the skip: %q", said)
	}
	claims = works.claimInOrder()
	if len(claims) != 1 || claims[0].SequenceID != 2 {
		t.Fatalf("claimed %+v, want the second", claims)
	}
	shown := who.want(exitOK, "payment", "show", "INV-1").out
	for _, want := range []string{"operator: skip in order", "the account is closed", "  state        FAILED\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("payment show lacks %q:\n%s", want, shown)
		}
	}
	who.want(exitNotAllowed, "payment", "skip", "INV-1", "--reason", "again")
	works.answer(claims[0], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04"})
	works.claimInOrder()
	want := fmt.Sprintf("passed in order: %s, sequence 2\n", claims[0].OutboxID)
	if said := who.want(exitOK, "payment", "skip", "INV-2", "--reason", "this one too").out; said != want {
		t.Errorf("skip said %q, want %q", said, want)
	}
}
