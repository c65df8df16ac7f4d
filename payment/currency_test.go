package payment_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

func currencyCodes() []string { return slices.Sorted(maps.Keys(payment.Currencies())) }

// The numbers are those of the published list: 179 codes, 13 of them without a
// minor unit; since then one took another's place and two have gone.
func TestCurrencyTable(t *testing.T) {
	if got := len(payment.Currencies()); got != 164 {
		t.Errorf("%d currencies, want 164", got)
	}
	form := regexp.MustCompile(`\A[A-Z]{3}\z`)
	byExponent := map[int]int{}
	for code, currency := range payment.Currencies() {
		if !form.MatchString(code) || currency.Code != code {
			t.Errorf("currency %q is filed under %q", currency.Code, code)
		}
		byExponent[currency.Exponent]++
	}
	if want := map[int]int{0: 17, 2: 138, 3: 7, 4: 2}; !maps.Equal(byExponent, want) {
		t.Errorf("currencies by exponent are %v, want %v", byExponent, want)
	}
}

// What ISO 4217 took off its list can't be paid in.
func TestWithdrawnCurrenciesAreUnknown(t *testing.T) {
	for _, code := range []string{"ANG", "BGN", "CUC", "HRK", "SLL", "ZWL"} {
		if currency, err := payment.CurrencyOf(code); err == nil {
			t.Errorf("%s is a currency with %d digits", code, currency.Exponent)
		}
	}
	if currency, err := payment.CurrencyOf("XCG"); err != nil || currency.Exponent != 2 {
		t.Errorf("XCG is %+v (%v), want 2 digits", currency, err)
	}
}

// These are the currencies whose digits in CLDR, and so in most libraries, are
// not ISO's. Rounding a payment to CLDR's digits changes what is paid.
func TestExponentsAreISOsWhereCLDRDiffers(t *testing.T) {
	iso := map[string]int{
		"AFN": 2, "ALL": 2, "AMD": 2, "COP": 2, "GYD": 2, "IDR": 2, "IQD": 3, "IRR": 2,
		"KPW": 2, "LAK": 2, "LBP": 2, "MGA": 2, "MMK": 2, "MNT": 2, "MUR": 2, "PKR": 2,
		"RSD": 2, "SOS": 2, "SYP": 2, "TZS": 2, "UZS": 2, "YER": 2,
	}
	if len(iso) != 22 {
		t.Fatalf("the table has %d rows, want 22", len(iso))
	}
	for code, want := range iso {
		currency, err := payment.CurrencyOf(code)
		if err != nil || currency.Exponent != want {
			t.Errorf("%s has %d decimals (%v), want %d", code, currency.Exponent, err, want)
		}
	}
}

func TestExponentsOfWellKnownCurrencies(t *testing.T) {
	for code, want := range map[string]int{
		"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "JPY": 0, "KRW": 0, "ISK": 0, "UGX": 0, "CLP": 0, "UYI": 0,
		"BHD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
	} {
		currency, err := payment.CurrencyOf(code)
		if err != nil || currency.Exponent != want {
			t.Errorf("%s has %d decimals (%v), want %d", code, currency.Exponent, err, want)
		}
	}
}

func TestCurrencyOfRefusesUnpayableCodes(t *testing.T) {
	for _, code := range []string{"", "eur", "EU", "EURO", "XXX", "XTS", "XAU", "XDR", "DEM", "978"} {
		if currency, err := payment.CurrencyOf(code); err == nil {
			t.Errorf("%q is taken as %v", code, currency)
		}
	}
}

// A caller that is given the table must not be able to change what others read.
func TestCurrenciesGivesACopy(t *testing.T) {
	payment.Currencies()["EUR"] = payment.Currency{Code: "EUR", Exponent: 0}
	if currency, _ := payment.CurrencyOf("EUR"); currency.Exponent != 2 {
		t.Error("writing to the map of Currencies changed EUR for everybody")
	}
}
