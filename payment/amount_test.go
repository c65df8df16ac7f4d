package payment_test

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

func TestParseAmount(t *testing.T) {
	for _, test := range []struct {
		text, currency   string
		minor            int64
		decimal, trimmed string
	}{
		{"10.50", "EUR", 1050, "10.50", "10.5"},
		{"10.5", "EUR", 1050, "10.50", "10.5"},
		{"10", "EUR", 1000, "10.00", "10"},
		{"100.00", "EUR", 10000, "100.00", "100"},
		{"0.01", "EUR", 1, "0.01", "0.01"},
		{"0.10", "EUR", 10, "0.10", "0.1"},
		{"7", "JPY", 7, "7", "7"},
		{"1000", "JPY", 1000, "1000", "1000"},
		{"0.001", "KWD", 1, "0.001", "0.001"},
		{"1.2345", "CLF", 12345, "1.2345", "1.2345"},
		{"1000", "UGX", 1000, "1000", "1000"},
		{"92233720368547758.07", "EUR", 9223372036854775807, "92233720368547758.07", "92233720368547758.07"},
		{"9223372036854775807", "JPY", 9223372036854775807, "9223372036854775807", "9223372036854775807"},
	} {
		amount, err := payment.ParseAmount(test.text, test.currency)
		if err != nil {
			t.Errorf("%s %s: %v", test.text, test.currency, err)
			continue
		}
		if amount.Minor != test.minor || amount.Currency.Code != test.currency {
			t.Errorf("%s %s: got %d %s, want %d", test.text, test.currency, amount.Minor, amount.Currency.Code, test.minor)
		}
		if amount.Decimal() != test.decimal || amount.DecimalTrimmed() != test.trimmed {
			t.Errorf("%s %s: printed %s and %s, want %s and %s",
				test.text, test.currency, amount.Decimal(), amount.DecimalTrimmed(), test.decimal, test.trimmed)
		}
		if want := test.decimal + " " + test.currency; amount.String() != want {
			t.Errorf("%s %s: String is %q, want %q", test.text, test.currency, amount, want)
		}
	}
}

func TestParseAmountRefuses(t *testing.T) {
	for _, test := range []struct{ why, text, currency string }{
		{"empty", "", "EUR"},
		{"zero", "0", "EUR"},
		{"zero with decimals", "0.00", "EUR"},
		{"minus", "-1", "EUR"},
		{"plus", "+1", "EUR"},
		{"exponent", "1e3", "EUR"},
		{"hexadecimal", "0x10", "EUR"},
		{"underscore", "1_000", "EUR"},
		{"grouping", "1,000.00", "EUR"},
		{"decimal comma", "10,50", "EUR"},
		{"leading zero", "01.00", "EUR"},
		{"two leading zeros", "00.01", "EUR"},
		{"no whole part", ".50", "EUR"},
		{"no digits after the point", "10.", "EUR"},
		{"point alone", ".", "EUR"},
		{"two points", "1.0.0", "EUR"},
		{"space before", " 10", "EUR"},
		{"space after", "10 ", "EUR"},
		{"line end", "10\n", "EUR"},
		{"digits of another script", "\u0661\u0660", "EUR"},
		{"full-width digits", "\uff11\uff10", "EUR"},
		{"not a number", "NaN", "EUR"},
		{"infinite", "Inf", "EUR"},
		{"a decimal too many", "10.501", "EUR"},
		{"a zero decimal too many", "10.500", "EUR"},
		{"decimals of a currency without", "10.0", "JPY"},
		{"one beyond int64", "92233720368547758.08", "EUR"},
		{"one beyond int64, no decimals", "9223372036854775808", "JPY"},
		{"beyond int64 only after scaling", "9223372036854775807", "EUR"},
		{"long", strings.Repeat("1", 25), "JPY"},
		{"very long", strings.Repeat("0", 1<<20), "JPY"},
		{"unknown currency", "10", "ABC"},
		{"lower-case currency", "10", "eur"},
		{"no currency", "10", ""},
		{"currency without a minor unit", "10", "XXX"},
		{"gold", "10", "XAU"},
	} {
		amount, err := payment.ParseAmount(test.text, test.currency)
		if !errors.Is(err, payment.ErrBadAmount) {
			t.Errorf("%s: got %v and error %v, want ErrBadAmount", test.why, amount, err)
		}
		if amount != (payment.Amount{}) {
			t.Errorf("%s: a refusal comes with the amount %v", test.why, amount)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: the refusal repeats its input: %d bytes", test.why, len(err.Error()))
		}
	}
}

// What is printed is read back as the same amount, in both forms.
func TestAmountRoundTrip(t *testing.T) {
	codes := currencyCodes()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.SampledFrom(codes).Draw(t, "currency")
		currency, err := payment.CurrencyOf(code)
		if err != nil {
			t.Fatal(err)
		}
		want := payment.Amount{Minor: rapid.Int64Min(1).Draw(t, "minor"), Currency: currency}
		for _, text := range []string{want.Decimal(), want.DecimalTrimmed()} {
			got, err := payment.ParseAmount(text, code)
			if err != nil || got != want {
				t.Fatalf("%d %s printed as %q and read as %v, %v", want.Minor, code, text, got, err)
			}
		}
	})
}

// decimalNumber is the grammar that ParseAmount promises, said another way.
var decimalNumber = regexp.MustCompile(`\A(0|[1-9][0-9]*)(\.[0-9]+)?\z`)

// What is accepted has the promised form and the value of exact arithmetic.
func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"10.50", "0.01", "1e3", "-1", "+1", "0x1p4", "1/3", "92233720368547758.08", "\u0663",
		"1_0"} {
		f.Add(text, "EUR")
		f.Add(text, "JPY")
		f.Add(text, "CLF")
	}
	f.Fuzz(func(t *testing.T, text, code string) {
		amount, err := payment.ParseAmount(text, code)
		if err != nil {
			if !errors.Is(err, payment.ErrBadAmount) {
				t.Fatalf("refusal %v is not ErrBadAmount", err)
			}
			return
		}
		if !decimalNumber.MatchString(text) {
			t.Fatalf("accepted %q", text)
		}
		exact, _ := new(big.Rat).SetString(text)
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(amount.Currency.Exponent)), nil)
		exact.Mul(exact, new(big.Rat).SetInt(scale))
		if amount.Minor < 1 || exact.Cmp(new(big.Rat).SetInt64(amount.Minor)) != 0 {
			t.Fatalf("%q %s is %s minor units, read as %d", text, code, exact.RatString(), amount.Minor)
		}
	})
}
