package railsim

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// maxAmountDigits bounds the digits of one amount, before and after the point together.
const maxAmountDigits = 30

var errAmount = errors.New("amount is not a positive decimal of its currency")

// exponent returns the number of digits after the point: two, except for the ISO 4217 currencies
// listed.
func exponent(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF",
		"XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}

// parseCurrency checks that s is three capital letters.
func parseCurrency(s string) error {
	if len(s) != 3 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return errors.New("currency is not three capital letters")
	}
	return nil
}

// parseAmount turns a decimal string into minor units. It refuses zero, signs, exponents, spaces, leading zeros,
// more digits after the point than the currency has, and more than 30 digits in all.
func parseAmount(s, currency string) (*big.Int, error) {
	minor, err := parseMoney(s, currency)
	if err != nil {
		return nil, err
	}
	if minor.Sign() <= 0 {
		return nil, errAmount
	}
	return minor, nil
}

// parseMoney is parseAmount that also allows zero and a leading minus, as balances need.
func parseMoney(s, currency string) (*big.Int, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	exp := exponent(currency)
	switch {
	case len(whole)+len(fraction) > maxAmountDigits:
		return nil, fmt.Errorf("%w: more than %d digits", errAmount, maxAmountDigits)
	case whole == "" || strings.Trim(whole+fraction, "0123456789") != "":
		return nil, errAmount
	case len(whole) > 1 && whole[0] == '0':
		return nil, fmt.Errorf("%w: leading zero", errAmount)
	case point && (fraction == "" || len(fraction) > exp):
		return nil, fmt.Errorf("%w: %s has %d digits after the point", errAmount, currency, exp)
	}
	minor, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", exp-len(fraction)), 10)
	if !ok {
		return nil, errAmount
	}
	if negative {
		minor.Neg(minor)
	}
	return minor, nil
}

// formatAmount renders minor units as a decimal string with all the digits of the currency.
func formatAmount(minor *big.Int, currency string) string {
	exp := exponent(currency)
	sign := ""
	if minor.Sign() < 0 {
		sign = "-"
	}
	digits := new(big.Int).Abs(minor).String()
	if exp == 0 {
		return sign + digits
	}
	if short := exp + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	cut := len(digits) - exp
	return sign + digits[:cut] + "." + digits[cut:]
}
