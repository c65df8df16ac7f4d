package httpjson_test

import (
	"encoding/json"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/railtest"
	"github.com/railhead-pay/railhead/rails/secret"
)

const (
	apiKey    = "api-key-7f3e91"
	bearer    = "bearer-c0ffee42"
	hmacKey   = "hmac-deadbeef99"
	testIBAN  = "DE89370400440532013000"
	otherIBAN = "GB29NWBK60161331926819"
)

func getenv(name string) string {
	return map[string]string{"API_KEY": apiKey, "BEARER": bearer, "HMAC": hmacKey}[name]
}

func ref(t testing.TB, text string) (r secret.Ref) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

func profile() rails.Profile {
	return rails.Profile{
		RailType: "bank",
		Policy: payment.Policy{Inquiry: payment.InquiryPolicy{
			Max: 5, NotFound: payment.NotFoundInconclusive,
		}},
		Codes: rails.Codes{Table: "iso20022"},
	}.WithDefaults()
}

// config configures a bank with all features.
func config(t testing.TB, baseURL string) httpjson.Config {
	return httpjson.Config{
		BaseURL: baseURL, AllowPlaintext: true, AllowLoopback: true,
		Headers: map[string]httpjson.HeaderValue{"X-Client": {Literal: "railhead"},
			"X-Api-Key": {Secret: ref(t, "env:API_KEY")}},
		Bearer:         ref(t, "env:BEARER"),
		PropagateTrace: true,
		Signature: &httpjson.SignatureConfig{
			Secret: ref(t, "env:HMAC"), Header: "X-Signature", TimestampHeader: "X-Timestamp", Prefix: "sha256=",
		},
		Send: httpjson.SendConfig{
			Path: "/payments", IdempotencyHeader: "Idempotency-Key",
			Body: map[string]any{
				"reference": "rail_key", "amount": "amount.decimal", "currency": "currency",
				"debtor": "payload.debtor", "creditor": "payload.creditor", "purpose": "payload.purpose?",
			},
			Response: httpjson.SendResponseConfig{
				Status: "status", Statuses: map[string]codes.Class{"EXECUTED": codes.Executed, "REFUSED": "CODE"},
				Reference: "id", Code: "code", Message: "message", Echo: "reference",
			},
		},
		Inquiry: &httpjson.InquiryConfig{
			Path: "/payments/by-key/{rail_key}",
			Response: httpjson.InquiryResponseConfig{
				Status: "status", Reference: "id", Code: "code",
				Statuses: map[string]payment.Result{
					"EXECUTED": payment.ResultExecuted, "REFUSED": payment.ResultRefused,
					"IN_PROGRESS": payment.ResultInProgress, "NOT_FOUND": payment.ResultNotFound,
				},
			},
		},
	}
}

func open(t testing.TB, config httpjson.Config, profile rails.Profile) rails.Rail {
	t.Helper()
	rail, err := httpjson.Open(config, profile, getenv)
	if err != nil {
		t.Fatal(err)
	}
	return rail
}

func instruction(t testing.TB) rails.Send {
	t.Helper()
	amount, err := payment.ParseAmount("10.50", "EUR")
	if err != nil {
		t.Fatal(err)
	}
	id := payment.NewID()
	return rails.Send{
		OutboxID: id, RailKey: payment.RailKey(id), InstructionID: "instr-1", ParticipantID: "bank-a", Amount: amount,
		SendNo:  1,
		Payload: []byte(`{"amount": "10.50", "currency": "EUR", "debtor": {"iban": "` + testIBAN + `"}, "creditor": {"name": "Zoë & Söhne", "iban": "` + otherIBAN + `"}}`),
	}
}

func TestConformance(t *testing.T) {
	railtest.Run(t, railtest.Subject{
		Witness: railtest.HTTP("Idempotency-Key"),
		Open: func(t testing.TB, baseURL string, profile rails.Profile) rails.Rail {
			return open(t, config(t, baseURL), profile)
		},
		Profile: profile(),
		Send:    instruction(t),
		Sends: map[payment.Result]railtest.Answer{
			payment.ResultAccepted:         {Status: 201, Body: `{"status":"EXECUTED","id":"b-1","reference":"{rail_key}"}`},
			payment.ResultRefusedFinal:     {Status: 422, Body: `{"status":"REFUSED","code":"AC04"}`},
			payment.ResultRefusedTransient: {Status: 422, Body: `{"status":"REFUSED","code":"AB05"}`},
			payment.ResultRefusedBusiness:  {Status: 422, Body: `{"status":"REFUSED","code":"AM04"}`},
			payment.ResultRefusedLater:     {Status: 429, Body: `{"error":"slow down"}`},
			payment.ResultRefusedRail:      {Status: 401, Body: `{"error":"who are you"}`},
			payment.ResultUnknown:          {Status: 502, Body: `{"status":"EXECUTED"}`},
		},
		Inquiries: map[payment.Result]railtest.Answer{
			payment.ResultExecuted:     {Status: 200, Body: `{"status":"EXECUTED","id":"b-1"}`},
			payment.ResultRefused:      {Status: 200, Body: `{"status":"REFUSED","code":"AC04"}`},
			payment.ResultInProgress:   {Status: 200, Body: `{"status":"IN_PROGRESS"}`},
			payment.ResultNotFound:     {Status: 404, Body: `{"status":"NOT_FOUND"}`},
			payment.ResultUnavailable:  {Status: 500, Body: `{"status":"EXECUTED"}`},
			payment.ResultRefusedLater: {Status: 429, Body: `{"status":"EXECUTED"}`},
		},
		OtherPayment: railtest.Answer{Status: 201, Body: `{"status":"EXECUTED","id":"b-1","reference":"rh0000"}`},
		UnmappedCode: railtest.Answer{Status: 422, Body: `{"status":"REFUSED","code":"ZZ99"}`},
		Remark: func(text string) railtest.Answer {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Error(err)
			}
			return railtest.Answer{Status: 422, Body: `{"status":"REFUSED","code":"AC04","message":` + string(quoted) + `}`}
		},
		Secrets: []string{apiKey, bearer, hmacKey},
	})
}

// TestConformanceWithoutInquiry runs the suite on a rail without an inquiry.
func TestConformanceWithoutInquiry(t *testing.T) {
	facts := profile()
	facts.Inquiry = payment.InquiryPolicy{}
	rail := open(t, func() httpjson.Config {
		c := config(t, "http://127.0.0.1:1")
		c.Inquiry = nil
		return c
	}(), facts)
	if _, can := rail.(rails.Inquirer); can {
		t.Error("a bank that can't be asked must not be an Inquirer: parking depends on it")
	}
}
