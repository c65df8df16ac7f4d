package railconfig_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// example is the file that the documentation shows, for a bank that is tried on
// this machine.
func example(t testing.TB, baseURL string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/bank.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(text), "base_url: https://bank.example/v1",
		"base_url: "+baseURL+"\n      allow_plaintext: true\n      allow_loopback: true", 1)
}

func env(name string) string {
	if name == "BANK_TOKEN" {
		return "s3cret-token"
	}
	return ""
}

// TestRequiredOfTheRequests: what a rail's requests are made of is in the profile that
// goes to the database, whether the file lists it or not.
func TestRequiredOfTheRequests(t *testing.T) {
	text, err := os.ReadFile("testdata/bank.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for listed, want := range map[string][]string{
		"":                                      {"creditor.iban", "creditor.name", "debtor"},
		"        required: [purpose, debtor]\n": {"creditor.iban", "creditor.name", "debtor", "purpose"},
	} {
		file, err := railconfig.Parse([]byte(strings.Replace(string(text), "        fields:\n", listed+"        fields:\n",
			1)), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Rails[0].Profile.Checks.Required; !slices.Equal(got, want) {
			t.Errorf("required %v, want %v", got, want)
		}
	}
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
	file, err := railconfig.Parse([]byte(example(t, bank.URL)), env)
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
