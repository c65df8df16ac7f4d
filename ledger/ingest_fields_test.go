package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// refusedAs enqueues by both doors and wants the same refusal from both: its field, its
// rule, and a message that has a text in it.
func refusedAs(t *testing.T, cell *celltest.Cell, in payment.Instruction, field, rule, says string) {
	t.Helper()
	ingest := openIngest(t, cell, 1)
	_, alone := ingest.Enqueue(t.Context(), in)
	results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
	if err != nil {
		t.Fatal(err)
	}
	fault, ok := errors.AsType[*outbox.Fault](alone)
	if !ok || results[0].Fault == nil {
		t.Fatalf("%s: %v by itself, %+v in a batch: want a refusal", in.InstructionID, alone, results[0])
	}
	for _, each := range []*outbox.Fault{fault, results[0].Fault} {
		if each.Field != field || each.Rule != rule || !strings.Contains(each.Message, says) {
			t.Errorf("%s: field %q breaks %q: %s; want %q and %q", in.InstructionID, each.Field, each.Rule, each.Message,
				field, rule)
		}
	}
}

// TestRefusalNamesFieldAndRule: a caller branches on the field and the rule without
// reading sentences.
func TestRefusalNamesFieldAndRule(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	payload := func(text string) func(*payment.Instruction) {
		return func(in *payment.Instruction) { in.Payload = []byte(text) }
	}
	for n, test := range []struct {
		field, rule string
		spoil       func(*payment.Instruction)
	}{
		{"instruction_id", "FORM", func(in *payment.Instruction) { in.InstructionID = "" }},
		{"participant_id", "FORM", func(in *payment.Instruction) { in.ParticipantID = " p" }},
		{"idempotency_key", "FORM", func(in *payment.Instruction) { in.IdempotencyKey = strings.Repeat("k", 129) }},
		{"rail_type", "KNOWN", func(in *payment.Instruction) { in.RailType = "nowhere" }},
		{"payload", "OBJECT", payload(`[]`)},
		{"payload", "SIZE", payload(`{"amount": "1", "currency": "EUR", "note": "` + strings.Repeat("x", 70<<10) + `"}`)},
		{"payload", "DEPTH", payload(`{"amount": "1", "currency": "EUR", "a": ` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`)},
		{"payload", "FORBIDDEN_KEY", payload(`{"amount": "1", "currency": "EUR", "PAN": "4"}`)},
		{"payload", "CARD_NUMBER", payload(`{"amount": "1", "currency": "EUR", "note": "4111111111111111"}`)},
		{"payload.amount", "MISSING", payload(`{"currency": "EUR"}`)},
		{"payload.amount", "FORM", payload(`{"amount": 1, "currency": "EUR"}`)},
		{"payload.amount", "DECIMALS", payload(`{"amount": "1.234", "currency": "EUR"}`)},
		{"payload.amount", "ZERO", payload(`{"amount": "0.00", "currency": "EUR"}`)},
		{"payload.amount", "RANGE", payload(`{"amount": "92233720368547758.08", "currency": "EUR"}`)},
		{"payload.currency", "MISSING", payload(`{"amount": "1", "currency": null}`)},
		{"payload.currency", "CURRENCY", payload(`{"amount": "1", "currency": "XXX"}`)},
		{"headers", "FORBIDDEN_KEY", func(in *payment.Instruction) { in.Headers = map[string]string{"token": "x"} }},
		{"headers", "SIZE", func(in *payment.Instruction) { in.Headers = map[string]string{"a": strings.Repeat("x", 5<<10)} }},
		{"not_before", "RANGE", func(in *payment.Instruction) { in.NotBefore = time.Now().Add(400 * 24 * time.Hour) }},
		{"expires_at", "AFTER_NOT_BEFORE", func(in *payment.Instruction) {
			in.NotBefore, in.ExpiresAt = time.Now().Add(2*time.Hour), time.Now().Add(time.Hour)
		}},
		{"expires_at", "EXPIRED", func(in *payment.Instruction) { in.ExpiresAt = time.Now().Add(-time.Hour) }},
	} {
		in := order(n + 1)
		test.spoil(&in)
		refusedAs(t, cell, in, test.field, test.rule, "")
	}

	in := order(100)
	receipt, err := openIngest(t, cell, 1).Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
	in.Payload = []byte(`{"amount": "11.50", "currency": "EUR"}`)
	refusedAs(t, cell, in, "idempotency_key", "SAME_CONTENT", "first used with other content")
	in = order(100)
	in.IdempotencyKey = "another"
	refusedAs(t, cell, in, "idempotency_key", "ONE_KEY", "already enqueued under another")

	// What no instruction of Go can be.
	conn := cell.Conn(t, celltest.Ingest)
	for item, want := range map[string]string{
		`5`:                                  "items OBJECT",
		`{"surprise": 1}`:                    "surprise UNKNOWN_FIELD",
		`{"priority": 7}`:                    "priority RANGE",
		`{"not_before": "tomorrow"}`:         "not_before MOMENT",
		`{"expires_at": "2999-01-01T00:00"}`: "expires_at MOMENT",
	} {
		var got string
		err := conn.QueryRow(t.Context(), `SELECT error_field || ' ' || error_rule FROM railhead.enqueue_payment_outbox_batch($1::jsonb)`, "["+item+"]").Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", item, got, err, want)
		}
	}
	_, err = conn.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('i', 'p', 'k', 'bank', '{"amount":"1","currency":"EUR"}', priority => 7)`)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.ColumnName != "priority" ||
		pgErr.ConstraintName != "RANGE" {
		t.Errorf("a priority of 7: %+v", err)
	}
}

// TestRequiredFieldsAreWantedAtEnqueue: what a rail needs in the payload is refused at the
// enqueue where it is missing, by both doors, from the profile in force on.
func TestRequiredFieldsAreWantedAtEnqueue(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	n := 0
	with := func(more string) payment.Instruction {
		n++
		in := order(n)
		in.Payload = []byte(`{"amount": "10.50", "currency": "EUR"` + more + `}`)
		return in
	}
	taken := func(more string) {
		t.Helper()
		in := with(more)
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Errorf("%s: %v", more, err)
		}
		in.InstructionID, in.IdempotencyKey = fmt.Sprintf("batch-%d", n), "k"
		if results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in}); err != nil ||
			results[0].Fault != nil {
			t.Errorf("%s in a batch: %v, %+v", more, err, results)
		}
	}
	missing := func(more, field string) {
		t.Helper()
		refusedAs(t, cell, with(more), "payload."+field, "MISSING", "payload."+field+" is missing: rail bank needs it")
	}
	taken("")
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "checks": {
		"fields": [{"field": "creditor.iban", "rule": "IBAN"}, {"field": "creditor.bic", "rule": "BIC", "optional": true}],
		"required": ["debtor", "lines.0.id"]}}`)
	const creditor, debtor, lines = `, "creditor": {"iban": "x"}`, `, "debtor": {}`, `, "lines": [{"id": 1}]`
	missing("", "creditor.iban")
	missing(`, "creditor": {"iban": null}`+debtor+lines, "creditor.iban")
	missing(`, "creditor": "x"`+debtor+lines, "creditor.iban")
	missing(creditor+lines, "debtor")
	missing(creditor+debtor, "lines.0.id")
	missing(creditor+debtor+`, "lines": []`, "lines.0.id")
	missing(creditor+debtor+`, "lines": {"id": 1}`, "lines.0.id")
	taken(creditor + debtor + lines)
	var stored string
	cell.QueryRow(`SELECT required::text FROM railhead.payment_outbox_rules`, nil, &stored)
	same(t, "stored", stored, `{"bank": ["creditor.iban", "debtor", "lines.0.id"]}`)

	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER"}`)
	taken("")
}
