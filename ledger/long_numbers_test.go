package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// longNumbers is 74 KB of JSON whose text as jsonb would be longer than the gigabyte that a text of PostgreSQL may
// have: a call that makes it ends with 54000 or XX000 in place of its refusal.
var longNumbers = "[" + strings.Repeat("1e131071,", 8200) + "1]"

// TestLongNumbersAreRefused: whatever an enqueue by SQL brings, no text is made of it before it is known to be short. A
// batch refuses such an item alone, and a known key is answered as with any other content.
func TestLongNumbersAreRefused(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	const small = `{"amount": "10.50", "currency": "EUR"}`
	long := `{"amount": "10.50", "currency": "EUR", "a": ` + longNumbers + `}`
	single := func(key, payload, headers string) string {
		_, err := conn.Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox('i', 'p', $1, 'bank', $2::text::jsonb,
			headers => $3::text::jsonb)`, key, payload, headers)
		return ledger.SQLState(err)
	}
	same(t, "a call", single("k", long, "{}"), "RH005")
	same(t, "its headers", single("k", small, `{"a": `+longNumbers+`}`), "RH002")
	same(t, "an ordinary call", single("k", small, "{}"), "")
	same(t, "its key with another payload", single("k", long, "{}"), "RH001")
	same(t, "no payment", single("l", `{"amount": `+longNumbers+`, "currency": `+longNumbers+`}`, "{}"), "RH005")

	for field, want := range map[string]string{
		"payload": "RH005 payload SIZE", "headers": "RH002 headers OBJECT", "instruction_id": "RH002 instruction_id FORM",
		"participant_id": "RH002 participant_id FORM", "idempotency_key": "RH002 idempotency_key FORM",
		"rail_type": "RH002 rail_type FORM", "not_before": "RH002 not_before MOMENT", "expires_at": "RH002 expires_at MOMENT",
		"priority": "RH002 priority RANGE", "send_once": "RH002 send_once FORM",
	} {
		value := longNumbers
		if field == "payload" {
			value = long
		} else if field == "headers" {
			value = `{"a": ` + longNumbers + `}`
		}
		var said string
		err := conn.QueryRow(t.Context(), `
			SELECT string_agg(coalesce(e.error_code || ' ' || e.error_field || ' ' || e.error_rule, e.state), ', ' ORDER BY e.item)
			FROM railhead.enqueue_payment_outbox_batch((
			  SELECT jsonb_agg(jsonb_build_object('instruction_id', $1 || n, 'participant_id', 'p', 'idempotency_key', 'k',
			    'rail_type', 'bank', 'payload', $2::text::jsonb) || CASE n WHEN 2 THEN jsonb_build_object($1::text, $3::text::jsonb)
			    ELSE '{}' END ORDER BY n)
			  FROM generate_series(1, 3) n)) e`, field, small, value).Scan(&said)
		if err != nil {
			t.Errorf("%s: %v", field, err)
		}
		same(t, "a batch with a long "+field, said, "PENDING, "+want+", PENDING")
	}
}

// TestManyZerosAreCheap: a payload of very many numbers that may be long is refused in a time that grows with it and
// not with its square: 400,000 took more than half a minute that way.
func TestManyZerosAreCheap(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, celltest.Ingest)
	payload := `{"amount": "10.50", "currency": "EUR", "a": [` + strings.Repeat("0,", 400_000) + `0]}`
	if _, err := conn.Exec(t.Context(), `SET statement_timeout = '15s'`); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(),
		`SELECT FROM railhead.enqueue_payment_outbox('i', 'p', 'k', 'bank', $1::text::jsonb)`, payload)
	same(t, "400,000 zeros", ledger.SQLState(err), "RH005")
}

// TestCheckJSONKnowsTheirLength: CheckJSON refuses exactly the numbers that PostgreSQL can't store, and those that are
// longer in all than any payload may be.
func TestCheckJSONKnowsTheirLength(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, "")
	draw := rand.New(rand.NewPCG(3, 1))
	powers := []int{0, 1, 2, 3, 20, 300, 16380, 16381, 16382, 16383, 16384, 131068, 131069, 131070, 131071, 131072, 131073,
		200000, 1 << 29, 1 << 30, 1 << 31}
	number := func() string {
		text := []string{"0", "1", "-1", "-0", "12", "9999", "123456789"}[draw.IntN(7)]
		text += []string{"", "", ".0", ".5", ".00001", ".000"}[draw.IntN(6)]
		if draw.IntN(8) == 0 {
			return text
		}
		return text + []string{"e", "E", "e+", "e-", "e-"}[draw.IntN(5)] + fmt.Sprint(powers[draw.IntN(len(powers))])
	}
	long := 0
	for n := range 1500 {
		var all []string
		if n < 20 { // the bound of all together is at eight
			all = slices.Repeat([]string{"1e131071"}, n)
		}
		for range []int{1, 1, 5, 12}[draw.IntN(4)] {
			all = append(all, number())
		}
		text := "[" + strings.Join(all, ", ") + "]"
		var digits pgtype.Int8
		err := conn.QueryRow(t.Context(), `SELECT sum(length(translate(e, '-.', '')))
			FROM jsonb_array_elements_text($1::text::jsonb) e`, text).Scan(&digits)
		want := err != nil || digits.Int64 > 1<<20
		if err != nil && ledger.SQLState(err) != "22003" {
			t.Fatalf("%s: %v", text, err)
		}
		if want {
			long++
		}
		if got := payment.CheckJSON([]byte(text)); errors.Is(got, payment.ErrLongNumbers) != want {
			t.Errorf("%s: %v, and PostgreSQL: %d digits, %v", text, got, digits.Int64, err)
		}
	}
	if long < 100 || long > 1400 {
		t.Errorf("%d of 1500 are too long: the draw shows little", long)
	}
}
