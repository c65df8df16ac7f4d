package payment

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// ErrLongNumbers is wrapped, with ErrBadJSON, by the error of CheckJSON for a text whose numbers the database
// could not store, or not write out: PostgreSQL stores 1e131071 in 12 bytes, and writes it with 131,072 digits.
var ErrLongNumbers = errors.New("a number is too long when it is written without an exponent")

// The bounds of PostgreSQL's numeric, and the highest payload_bytes_max. No instruction with longer numbers was ever
// stored, so that a repetition is refused by them in no case.
const (
	numberDigitsMax   = 131_072 // before the point
	numberDecimalsMax = 16_383
	writtenMax        = 1 << 20   // of all numbers of a text
	powerMax          = 1<<30 - 1 // no exponent is that large
)

// hasExponent reports whether an e at a place of a valid text, outside its strings, is that of a number: the e of true
// and of false follows a letter.
func hasExponent(text []byte, at int) bool { return at > 0 && text[at-1] >= '0' && text[at-1] <= '9' }

// written returns the number of digits with which the database writes a number, without its sign and point.
func written(number json.Number) (int, error) {
	mantissa, power, hasPower := strings.Cut(strings.ToLower(strings.TrimPrefix(number.String(), "-")), "e")
	exponent := 0
	if hasPower {
		var err error
		// A number of more digits overflows; one of as many is compared with the bounds below.
		if exponent, err = strconv.Atoi(power); err != nil || exponent >= powerMax || exponent <= -powerMax {
			return 0, ErrLongNumbers
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	before := 1
	if leading := len(digits) - len(strings.TrimLeft(digits, "0")); leading < len(digits) { // it is not zero
		before = max(1, len(whole)-leading+exponent)
	}
	behind := max(0, len(fraction)-exponent)
	if before > numberDigitsMax || behind > numberDecimalsMax {
		return 0, ErrLongNumbers
	}
	return before + behind, nil
}
