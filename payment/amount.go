package payment

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is a positive sum of money in minor units of its currency: 1050 EUR is
// ten euros and fifty cents. It is never a float.
type Amount struct {
	Minor    int64 // minor units, 1 to math.MaxInt64
	Currency Currency
}

// ErrBadAmount is wrapped by every error of ParseAmount.
var ErrBadAmount = errors.New("bad amount")

// maxAmountLength bounds the length of the text: 19 digits, a point and four
// decimals.
const maxAmountLength = 24

// ParseAmount reads a decimal string such as "10.50". It refuses signs,
// exponents, leading zeros, digits beyond the currency's exponent, zero, and
// sums beyond int64 minor units. It accepts fewer decimals than the exponent:
// "10.5" EUR is 10.50.
func ParseAmount(text, currencyCode string) (Amount, error) {
	currency, err := CurrencyOf(currencyCode)
	if err != nil {
		return Amount{}, fmt.Errorf("%w: %w", ErrBadAmount, err)
	}
	whole, fraction, hasPoint := strings.Cut(text, ".")
	switch {
	case len(text) > maxAmountLength:
		return Amount{}, fmt.Errorf("%w: longer than %d characters", ErrBadAmount, maxAmountLength)
	case !onlyDigits(whole) || hasPoint && !onlyDigits(fraction):
		return Amount{}, fmt.Errorf("%w: %q is not a decimal number such as 10.50", ErrBadAmount, text)
	case len(whole) > 1 && whole[0] == '0':
		return Amount{}, fmt.Errorf("%w: %q has a leading zero", ErrBadAmount, text)
	case len(fraction) > currency.Exponent:
		return Amount{}, fmt.Errorf("%w: %q has more than the %d decimals of %s",
			ErrBadAmount, text, currency.Exponent, currency.Code)
	}
	digits := whole + fraction + strings.Repeat("0", currency.Exponent-len(fraction))
	minor, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("%w: %q is beyond %d minor units", ErrBadAmount, text, int64(math.MaxInt64))
	}
	if minor == 0 {
		return Amount{}, fmt.Errorf("%w: zero", ErrBadAmount)
	}
	return Amount{Minor: minor, Currency: currency}, nil
}

func onlyDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// Decimal returns the amount with exactly the decimals of its currency: "10.50".
func (a Amount) Decimal() string {
	digits, exponent := strconv.FormatInt(a.Minor, 10), a.Currency.Exponent
	if exponent == 0 {
		return digits
	}
	if missing := exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return digits[:len(digits)-exponent] + "." + digits[len(digits)-exponent:]
}

// DecimalTrimmed returns the amount without trailing zeros, as FSPIOP requires
// (API Definition v1.1, section 7.2.13): "10.5".
func (a Amount) DecimalTrimmed() string {
	text := a.Decimal()
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func (a Amount) String() string { return a.Decimal() + " " + a.Currency.Code }
