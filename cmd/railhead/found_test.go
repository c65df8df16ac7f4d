package main

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestNameOfAnother: a caller names its instruction by the outbox id, or the rail key, of another one. That one is
// shown and acted on by it as before.
func TestNameOfAnother(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1")
	works.answer(works.claim()[0], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	var id string
	cell.QueryRow("SELECT outbox_id::text FROM railhead.payment_outbox_keys WHERE instruction_id = 'INV-1'", nil, &id)
	parsed, err := payment.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	named := func(instruction, key string) {
		who.want(exitOK, "enqueue", "--instruction-id", instruction, "--participant-id", "p2", "--idempotency-key", key,
			"--rail", celltest.Bank, "--amount", "1.00", "--currency", "EUR")
	}
	railKey := cell.RailKey(parsed)
	named(id, "hostile-1")
	named(railKey, "hostile-2")
	for reference, name := range map[string]string{id: "outbox id", railKey: "rail key"} {
		for _, act := range []string{
			"payment show", "dead-letter show", "log --payment", "dead-letter acknowledge --reason x",
			"dead-letter escalate --reason x", "payment reveal --reason x",
		} {
			got := who.want(exitOK, append(strings.Fields(act), reference)...)
			says := "is the " + name + " of this payment, and the instruction id or rail reference of 1 more"
			if !strings.Contains(got.errors, says) ||
				strings.Contains(act, "letter") && !strings.Contains(got.out, id) {
				t.Errorf("%s %s: it said %q and %q", act, reference, got.out, got.errors)
			}
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log
		WHERE outbox_id IS NOT NULL AND outbox_id <> $1`, id); n != 0 {
		t.Errorf("%d acts were done on another", n)
	}

	// What is the outbox id, or the rail key, of a payment that is not here is not taken for the name of another by an
	// act.
	away := payment.NewID()
	named(away.String(), "hostile-3")
	named(payment.RailKey(away), "hostile-4")
	for _, reference := range []string{away.String(), payment.RailKey(away)} {
		for _, act := range []string{"payment cancel", "payment send-now", "payment reveal"} {
			got := who.want(exitUsage, append(strings.Fields(act), reference, "--reason", "x")...)
			if !strings.Contains(got.errors, "it is the instruction id of 0") || got.out != "" {
				t.Errorf("%s %s: it said %q and %q", act, reference, got.out, got.errors)
			}
		}
		got := who.want(exitOK, "payment", "show", reference)
		if !strings.Contains(got.errors, "no payment here has it as that") {
			t.Errorf("it said %q", got.errors)
		}
	}
	// An instruction id of another form is one.
	const other = "9b2f4c1e-7a43-4c52-9c59-0f1f4c2f3c11"
	named(other, "hostile-5")
	who.want(exitOK, "payment", "cancel", other, "--reason", "x")
}

// TestKeysAreNotSearched: who looks for a payment by its idempotency key learns that keys are not searched.
func TestKeysAreNotSearched(t *testing.T) {
	t.Parallel()
	who := at(t, celltest.New(t))
	enqueued(who, "INV-1")
	for _, act := range []string{
		"payment show INV-1-key", "dead-letter show INV-1-key", "payment cancel INV-1-key --reason x",
	} {
		if got := who.want(exitNotFound, strings.Fields(act)...); !strings.Contains(got.errors,
			"(idempotency keys are not searched)") {
			t.Errorf("%s: it said %q", act, got.errors)
		}
	}
}
