package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// TestReveal: payment reveal prints payload and headers as text and as JSON, each time with a row of the
// operator log.
func TestReveal(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	const payload = `{"amount": "10.50", "currency": "EUR"}`
	if said := who.want(exitOK, "payment", "reveal", "INV-1", "--reason", "their call").out; said !=
		"payload  "+payload+"\nheaders  {}\n" {
		t.Errorf("reveal said %q", said)
	}
	var found struct {
		Act     string
		ActID   string `json:"act_id"`
		Payload map[string]string
	}
	said := who.want(exitOK, "payment", "reveal", "INV-1", "--reason", "their call", "-o", "json").out
	if err := json.Unmarshal([]byte(said), &found); err != nil || found.Act != "REVEAL_PAYLOAD" ||
		found.Payload["amount"] != "10.50" || found.ActID == "" {
		t.Errorf("reveal as JSON: %v\n%s", err, said)
	}
	who.want(exitUsage, "payment", "reveal", "INV-1")
	who.want(exitUsage, "payment", "reveal", "INV-1", "--reason", " ")
	who.want(exitNotFound, "payment", "reveal", "INV-2", "--reason", "x")
	log := who.want(exitOK, "log", "--act", "reveal-payload").out
	if strings.Count(log, "REVEAL_PAYLOAD      INV-1  by "+celltest.Operator+": their call\n") != 2 {
		t.Errorf("the log:\n%s", log)
	}
	cell.Exec(`ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER USER`)
	cell.Exec(`DELETE FROM railhead.payment_outbox_instructions`)
	who.want(exitNotAllowed, "payment", "reveal", "INV-1", "--reason", "x")
}

// TestLogNamesThePerson: the log and the history of a payment show the person with the login, and the
// log is filtered by persons.
func TestLogNamesThePerson(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1", "INV-2")
	o, err := operator.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	found, err := o.Reader().Find(t.Context(), "INV-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.CancelPayment(operator.OnBehalfOf(t.Context(), "amy"), found[0].OutboxID, "not wanted"); err != nil {
		t.Fatal(err)
	}
	who.want(exitOK, "payment", "cancel", "INV-2", "--reason", "nor this")
	by := celltest.Operator + " for amy"
	log := who.want(exitOK, "log", "--person", "amy").out
	if strings.Count(log, "\n") != 1 || !strings.HasSuffix(log, "INV-1  by "+by+": not wanted\n") {
		t.Errorf("the log:\n%s", log)
	}
	for _, test := range []struct{ command, has string }{
		{"log --person amy -o json", `"person": "amy"`}, {"payment show INV-1", by},
		{"payment show INV-1 -o json", `"by": "` + by + `"`}, {"payment show INV-1 -o json", `"person": "amy"`},
	} {
		if said := who.want(exitOK, strings.Fields(test.command)...).out; !strings.Contains(said, test.has) {
			t.Errorf("%s lacks %q:\n%s", test.command, test.has, said)
		}
	}
	if said := who.want(exitOK, "payment", "show", "INV-2", "-o", "json").out; strings.Contains(said, "person\"") {
		t.Errorf("an act without a person has one:\n%s", said)
	}
}
