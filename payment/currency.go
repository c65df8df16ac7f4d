package payment

import (
	_ "embed"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// iso4217 is ISO 4217 list one of 2024-06-25 with the amendments up to 180 (22
// September 2025: 176 XCG for ANG, 178 no CUC, 180 no BGN), without the codes that
// have no minor unit (XXX, XAU and the like): no payment can be made in those.
// CLDR's digits differ from ISO's for 22 currencies, so none of its tables serve.
//
//go:embed iso4217.csv
var iso4217 string

// Currency is an ISO 4217 currency that a payment can be made in.
type Currency struct {
	Code     string // three letters
	Exponent int    // digits of the minor unit, 0 to 4
}

var currencies = sync.OnceValue(func() map[string]Currency {
	table := make(map[string]Currency, 200)
	lines := strings.Split(strings.TrimSpace(iso4217), "\n")
	for _, line := range lines[1:] {
		fields := strings.Split(line, ",")
		table[fields[0]] = Currency{Code: fields[0], Exponent: int(fields[2][0] - '0')}
	}
	return table
})

// CurrencyOf returns the currency with a code of three upper-case letters.
func CurrencyOf(code string) (Currency, error) {
	currency, ok := currencies()[code]
	if !ok {
		return Currency{}, fmt.Errorf("%q is not a currency of ISO 4217 (up to amendment 180) that has a minor unit", code)
	}
	return currency, nil
}

// Currencies returns a new map of all currencies by code. Migrations write it to a
// table of the schema.
func Currencies() map[string]Currency { return maps.Clone(currencies()) }
