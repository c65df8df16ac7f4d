package ledger_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// testCards are numbers that the schemes and acquirers publish for tests.
func testCards() map[string][]string {
	return map[string][]string{
		"Visa":             {"4242424242424242", "4111111111111111", "4012888888881881", "4000056655665556", "4222222222222"},
		"Mastercard":       {"5555555555554444", "5105105105105100", "5200828282828210", "2223003122003222", "2720990000000007"},
		"American Express": {"378282246310005", "371449635398431", "378734493671000"},
		"Discover":         {"6011111111111117", "6011000990139424", "6011981111111113"},
		"Diners Club":      {"3056930009020004", "36227206271667", "30569309025904", "38520000023237"},
		"JCB":              {"3566002020360505", "3530111333300000"},
		"UnionPay":         {"6200000000000005", "6200000000000047", "6205500000000000004"},
		"Maestro":          {"6771798021000008", "6759649826438453", "5000550000000029"},
		"RuPay":            {"6073849700004947"},
		"Troy":             {"9792030394440796"},
		"Mir":              {"2200770239097761"},
		"Elo":              {"5067268650517446", "6362970000457013"},
	}
}

// cardUnder asks the schema's own rule about many payloads at once.
func cardUnder(t *testing.T, conn *pgx.Conn, payloads []string) []*string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT railhead.card_number_under(p.payload) FROM unnest($1::jsonb[]) WITH ORDINALITY AS p(payload, n)
		ORDER BY p.n`, payloads)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil || len(found) != len(payloads) {
		t.Fatalf("%d answers to %d payloads: %v", len(found), len(payloads), err)
	}
	return found
}

// TestCardNumbersAreRefused: in every form in which a card number reaches a
// payload, and not where only digits look like one.
func TestCardNumbersAreRefused(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, "")
	var cards []string
	for _, numbers := range testCards() {
		for _, number := range numbers {
			if check(number[:len(number)-1]) != number[len(number)-1:] {
				t.Fatalf("%s is no test card: its check digit is wrong", number)
			}
			cards = append(cards,
				fmt.Sprintf(`{"memo":%q}`, number), fmt.Sprintf(`{"memo":%s}`, number), fmt.Sprintf(`{"a":[{"b":["x",%q]}]}`, number),
				fmt.Sprintf(`{%q:"x"}`, number), fmt.Sprintf(`{"memo":"card\n%s."}`, number), fmt.Sprintf(`{"paid":%q}`, number))
			for _, sep := range []string{" ", "-"} {
				var grouped string
				switch len(number) {
				case 14, 15:
					grouped = strings.Join([]string{number[:4], number[4:10], number[10:]}, sep)
				case 16:
					grouped = strings.Join([]string{number[:4], number[4:8], number[8:12], number[12:]}, sep)
				default:
					continue
				}
				cards = append(cards, fmt.Sprintf(`{"memo":%q}`, grouped), fmt.Sprintf(`{"memo":"pay %s 20 EUR"}`, grouped))
			}
		}
	}
	for i, key := range cardUnder(t, conn, cards) {
		if key == nil {
			t.Errorf("%s is taken", cards[i])
		}
	}

	var valid []string
	for _, wrong := range []string{"4111111111111112", "411111111111111", "9999999999999995", "1234567890128",
		"x4111111111111111", "41111111111111114111", "4111 1111 1111 11"} {
		valid = append(valid, fmt.Sprintf(`{"memo":%q}`, wrong))
	}
	for _, key := range []string{"account", "creditorAccount", "acct_no", "IBAN", "debtor_iban", "reference",
		"paymentReference", "id", "end_to_end_id", "payerId", "EndToEndID", "ref", "batch-ref", "amount"} {
		valid = append(valid, fmt.Sprintf(`{%q:"4111111111111111"}`, key), fmt.Sprintf(`{%q:{"value":["4111111111111111"]}}`, key))
	}
	valid = append(valid, `{"memo":"DE89 3704 0044 0532 0130 00"}`, `{"memo":"DE12 5555 5555 5555 4444 00"}`, `{"memo":"DE89370400440532013000"}`, `{"amount":"4111111111111111"}`)
	for i, key := range cardUnder(t, conn, valid) {
		if key != nil {
			t.Errorf("%s is refused as a card number", valid[i])
		}
	}
}

// TestAccountNumbersAreNotCards draws account numbers: none is refused under a key
// that says what it is, although many of them would be elsewhere.
func TestAccountNumbersAreNotCards(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, "")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	keys := []string{"account", "account_number", "creditorAccount", "iban", "reference", "end_to_end_id"}
	account := func() string {
		digits := make([]byte, 8+r.IntN(12))
		for i := range digits {
			digits[i] = byte('0' + r.IntN(10))
		}
		return string(digits)
	}
	var named, bare []string
	for range 1000 {
		fields := make([]string, 100)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"%s":%q`, keys[r.IntN(len(keys))], account())
		}
		named = append(named, `{"creditors":[{`+strings.Join(fields, "},{")+`}]}`)
		notes := make([]string, 10)
		for i := range notes {
			notes[i] = fmt.Sprintf(`{"note":%q}`, account())
		}
		bare = append(bare, `{"creditors":[`+strings.Join(notes, ",")+`]}`)
	}
	for i, key := range cardUnder(t, conn, named) {
		if key != nil {
			t.Fatalf("%s is refused as a card number", named[i])
		}
	}
	refused := 0
	for _, key := range cardUnder(t, conn, bare) {
		if key != nil {
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("of 1000 payloads with ten numbers under a key that says nothing %d are refused: the draw shows little",
			refused)
	}
}

// TestCardNumberRefusal is what a caller sees, alone and in a batch, and what the
// setting changes.
func TestCardNumberRefusal(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	card := order(1)
	card.Payload = json.RawMessage(`{"amount":"10.50","currency":"EUR","memo":"4111 1111 1111 1111"}`)
	_, err := ingest.Enqueue(t.Context(), card)
	wantFault(t, err, "RH008", outbox.ErrInvalid)
	if strings.Contains(fmt.Sprint(err), "1111") || !strings.Contains(fmt.Sprint(err), `"memo"`) {
		t.Errorf("the refusal quotes the number, or does not name the key: %v", err)
	}
	results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{order(2), card})
	if err != nil || results[0].Fault != nil {
		t.Fatalf("%+v: %v", results, err)
	}
	wantFault(t, results[1].Fault, "RH008", outbox.ErrInvalid)

	cell.Exec("UPDATE railhead.payment_outbox_settings SET refuse_card_numbers = false")
	if _, err := ingest.Enqueue(t.Context(), card); err != nil {
		t.Errorf("refused although the setting is off: %v", err)
	}
}

// check is the check digit of ISO/IEC 7812-1, annex B.
func check(number string) string {
	sum := 0
	for i, at := len(number)-1, 0; i >= 0; i, at = i-1, at+1 {
		digit := int(number[i] - '0')
		if at%2 == 0 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return fmt.Sprint((10 - sum%10) % 10)
}
