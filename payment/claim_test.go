package payment_test

import (
	"encoding/hex"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

// The sum was computed with sha256sum over the bytes bank-a, 0x1f, sepa, 0x1f,
// {"amount": "10.50"}. It is stored and so may never change.
func TestFingerprintIsFrozen(t *testing.T) {
	sum := payment.Fingerprint("bank-a", "sepa", []byte(`{"amount": "10.50"}`))
	if got := hex.EncodeToString(sum[:]); got != "d7f8042a94cad28d408612a33d6869d807a0bc5b5dab47036d7623b65384b587" {
		t.Errorf("fingerprint is %s", got)
	}
}

func TestFingerprintTellsFieldsApart(t *testing.T) {
	identifier := rapid.StringMatching(`[a-zA-Z0-9_.:-]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		one := [3]string{identifier.Draw(t, "participant"), identifier.Draw(t, "rail"), rapid.String().Draw(t, "payload")}
		two := [3]string{identifier.Draw(t, "participant"), identifier.Draw(t, "rail"), rapid.String().Draw(t, "payload")}
		same := payment.Fingerprint(one[0], one[1], []byte(one[2])) == payment.Fingerprint(two[0], two[1], []byte(two[2]))
		if same != (one == two) {
			t.Fatalf("%q and %q: same fingerprint is %v", one, two, same)
		}
	})
}

func TestIntact(t *testing.T) {
	payload := []byte(`{"amount": "10.50", "currency": "EUR"}`)
	sum := payment.Fingerprint("bank-a", "sepa", payload)
	whole := payment.Claim{ParticipantID: "bank-a", RailType: "sepa", Payload: payload, Fingerprint: sum[:]}
	if !whole.Intact() {
		t.Error("an untouched claim is called tampered")
	}
	for name, forge := range map[string]func(*payment.Claim){
		"amount":         func(c *payment.Claim) { c.Payload = []byte(`{"amount": "99.50", "currency": "EUR"}`) },
		"no payload":     func(c *payment.Claim) { c.Payload = nil },
		"participant":    func(c *payment.Claim) { c.ParticipantID = "bank-b" },
		"rail":           func(c *payment.Claim) { c.RailType = "cards" },
		"no fingerprint": func(c *payment.Claim) { c.Fingerprint = nil },
		"half of it":     func(c *payment.Claim) { c.Fingerprint = sum[:16] },
	} {
		forged := whole
		forge(&forged)
		if forged.Intact() {
			t.Errorf("%s: forged and called intact", name)
		}
	}
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// beyondAnyWindow means in the table: so old that no key window covers it.
const beyondAnyWindow = 100 * 365 * 24 * time.Hour

func TestSinceFirstSend(t *testing.T) {
	const elapsed = 5 * time.Second
	for _, test := range []struct {
		name  string
		claim payment.Claim
		want  time.Duration
	}{
		{"this is the first send", payment.Claim{Action: payment.ActionSend}, elapsed},
		{"sent an hour before", payment.Claim{Action: payment.ActionSend, FirstSentAt: noon.Add(-time.Hour), SendCount: 1}, time.Hour + elapsed},
		{"sent before a replay", payment.Claim{Action: payment.ActionSend, FirstSentAt: noon.Add(-time.Hour)}, time.Hour + elapsed},
		{"asked an hour after", payment.Claim{Action: payment.ActionInquire, FirstSentAt: noon.Add(-time.Hour), SendCount: 1}, time.Hour + elapsed},
		{"sent, not known when", payment.Claim{Action: payment.ActionSend, SendCount: 1}, beyondAnyWindow},
		{"unknown, not known since when", payment.Claim{Action: payment.ActionSend, OutcomeUnknown: true}, beyondAnyWindow},
		{"asked, not known what was sent", payment.Claim{Action: payment.ActionInquire}, beyondAnyWindow},
		{"sent after it was claimed: the clock stepped back", payment.Claim{Action: payment.ActionSend, FirstSentAt: noon.Add(time.Second), SendCount: 1}, beyondAnyWindow},
	} {
		test.claim.ClaimedAt = noon
		got := test.claim.SinceFirstSend(elapsed)
		if got != test.want && (test.want != beyondAnyWindow || got < beyondAnyWindow) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestSinceLastSend(t *testing.T) {
	const elapsed = 5 * time.Second
	for _, test := range []struct {
		name  string
		claim payment.Claim
		want  time.Duration
	}{
		{"this is the latest send", payment.Claim{Action: payment.ActionSend, LastSentAt: noon.Add(-time.Hour)}, elapsed},
		{"asked an hour after", payment.Claim{Action: payment.ActionInquire, LastSentAt: noon.Add(-time.Hour)}, time.Hour + elapsed},
		{"asked, not known what was sent", payment.Claim{Action: payment.ActionInquire}, elapsed},
	} {
		test.claim.ClaimedAt = noon
		if got := test.claim.SinceLastSend(elapsed); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
