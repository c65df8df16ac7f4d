package migrations_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// borderAmounts writes sums around every border of the rule: zero, the number of
// digits, and the largest sum, as far below and above it as float8 can't tell.
func borderAmounts(r *rand.Rand, exponent int) []string {
	largest := new(big.Int).SetUint64(1<<63 - 1)
	var all []string
	for _, n := range []int64{-1000000, -2049, -1024, -513, -100, -2, -1, 0, 1, 2, 99, 100, 513, 1024, 1000000,
		r.Int64N(5000) - 2500} {
		all = append(all, decimal(new(big.Int).Add(largest, big.NewInt(n)), exponent))
	}
	for digits := 1; digits <= 21; digits++ {
		whole := strings.Repeat("9", digits)
		all = append(all, whole, "1"+strings.Repeat("0", digits-1), whole+"."+strings.Repeat("9", max(exponent, 1)))
	}
	for range 50 {
		all = append(all, decimal(new(big.Int).SetUint64(r.Uint64()), exponent),
			decimal(new(big.Int).SetUint64(r.Uint64()>>r.IntN(60)), exponent))
	}
	return append(all, "0", "00", "0.0", "0.01", "01", "1.", ".5", "-1", "+1", "1e5", "10x50", "1234567890123x4567",
		"1 ", "1\n", "1,5", "", "NaN")
}

// decimal writes minor units with the decimals of a currency.
func decimal(minor *big.Int, exponent int) string {
	digits := fmt.Sprintf("%0*d", exponent+1, minor)
	if exponent == 0 {
		return digits
	}
	return digits[:len(digits)-exponent] + "." + digits[len(digits)-exponent:]
}

// TestAmountsAgree draws amounts around the borders of the rule, for currencies
// with 0, 2, 3 and 4 decimals: the database takes those that Go can read and no
// other, with the session's settings as they are and with backslashes read the old way.
func TestAmountsAgree(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	cell := celltest.New(t)
	for _, conforming := range []string{"on", "off"} {
		conn := cell.Conn(t, "")
		if _, err := conn.Exec(t.Context(), "SET standard_conforming_strings = "+conforming); err != nil {
			t.Fatal(err)
		}
		taken := 0
		for _, currency := range []payment.Currency{{Code: "JPY"}, {Code: "EUR", Exponent: 2}, {Code: "BHD", Exponent: 3},
			{Code: "CLF", Exponent: 4}} {
			for _, amount := range borderAmounts(r, currency.Exponent) {
				var message string
				var valid bool
				err := conn.QueryRow(t.Context(), `
					WITH p AS (SELECT jsonb_build_object('amount', $1::text, 'currency', $2::text) AS payload)
					SELECT coalesce((SELECT f.message
					FROM railhead.payment_outbox_violation('i', 'p', 'k', 'bank', p.payload, NULL, NULL, 1, '{}') f), ''),
					  coalesce(railhead.payment_outbox_valid('i', 'p', 'k', p.payload, NULL, NULL, 1, '{}', p.payload::text, 65536, 4096, 16, $3, true), false)
					FROM p`, amount, currency.Code, currency.Exponent).Scan(&message, &valid)
				if err != nil {
					t.Fatal(err)
				}
				_, refused := payment.ParseAmount(amount, currency.Code)
				if (refused == nil) != (message == "") || valid && refused != nil {
					t.Errorf("standard_conforming_strings %s, %q %s: the database says %q (valid: %v), Go says %v", conforming,
						amount, currency.Code, message, valid, refused)
				}
				if message == "" {
					taken++
				}
			}
		}
		if taken < 200 {
			t.Errorf("%d amounts were taken: the draw shows little", taken)
		}
	}
}
