package railconfig_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

const example = `
rails:
  - rail_type: bank
    adapter: http
    profile:
      acceptance: FINAL
      answer_covers_key: true
      id_after_refusal: NEW
      resend_on_unknown: SAME_KEY
      key_window: 24h
      inquiry:
        not_before: 5s
        intervals: [30s, 1m, 5m]
        max: 10
        not_found: NOT_EXECUTED
        not_found_age: 2m
      retry: {max_sends: 3, shape: EXPONENTIAL, base: 1s, cap: 1m, jitter: 0.2}
      timeouts: {connect: 3s, tls: 3s, write: 4s, response_header: 15s, body: 5s}
      concurrency: 32
      rate: {per_second: 200, burst: 50}
      breaker: {failure_ratio: 0.5, minimum_requests: 10, window: 1m, open_for: 15s, half_open_max: 1}
      codes:
        table: iso20022
        overrides: {X100: T}
        http: {503: R}
      checks:
        currencies: [EUR]
        amounts: {EUR: {min: "0.01", max: "999999.99"}}
        fields:
          - {field: creditor.iban, rule: IBAN}
          - {field: creditor.bic, rule: BIC, optional: true}
    http:
      base_url: BASE
      allow_plaintext: true
      allow_loopback: true
      bearer: env:BANK_TOKEN
      headers: {X-Client: railhead-1}
      send:
        path: /payments
        idempotency_header: Idempotency-Key
        body:
          reference: rail_key
          amount: amount.decimal
          currency: currency
          debtor: payload.debtor
          creditor: {iban: payload.creditor.iban, name: payload.creditor.name, bic: payload.creditor.bic?}
          purpose: literal:SUPP
        response:
          status: status
          statuses: {EXECUTED: OK, REFUSED: CODE}
          reference: id
          code: code
          echo: reference
      inquiry:
        path: /payments/by-key/{rail_key}
        response:
          status: status
          statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED, IN_PROGRESS: IN_PROGRESS, NOT_FOUND: NOT_FOUND}
          reference: id
          code: code
`

func env(name string) string {
	if name == "BANK_TOKEN" {
		return "s3cret-token"
	}
	return ""
}

func TestExampleSpeaksToABank(t *testing.T) {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if r.Method == http.MethodGet {
			w.Write([]byte(`{"status":"EXECUTED","id":"b-1"}`))
			return
		}
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"status":"EXECUTED","id":"b-1","reference":"` + key + `"}`))
	}))
	defer bank.Close()
	file, err := railconfig.Parse([]byte(strings.ReplaceAll(example, "BASE", bank.URL)), env)
	if err != nil {
		t.Fatal(err)
	}
	rail, err := railconfig.Open(file.Rails[0], file.Rails[0].Profile)
	if err != nil {
		t.Fatal(err)
	}
	id := payment.NewID()
	amount, _ := payment.ParseAmount("10.5", "EUR")
	send := rails.Send{
		OutboxID: id, RailKey: payment.RailKey(id), InstructionID: "i", ParticipantID: "p", Amount: amount, SendNo: 1,
		Payload: []byte(`{"amount":"10.5","currency":"EUR","debtor":{"iban":"DE89370400440532013000"},"creditor":{"iban":"GB29NWBK60161331926819","name":"Ann"}}`),
	}
	if err := rail.(rails.Checker).Check(send); err != nil {
		t.Fatal(err)
	}
	if got := rails.SendSafely(t.Context(), rail, send); got.Result != payment.ResultAccepted || got.Reference != "b-1" {
		t.Fatalf("send: %+v", got)
	}
	got := rails.InquireSafely(t.Context(), rail.(rails.Inquirer), rails.Inquiry{OutboxID: id, RailKey: send.RailKey})
	if got.Result != payment.ResultExecuted {
		t.Fatalf("inquiry: %+v", got)
	}
}
