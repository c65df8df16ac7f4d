package rails

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ibanLengths contains the length of the account numbers of each country of the IBAN registry (ISO
// 13616, SWIFT registry release 99 of 2024).
//
//go:embed iban_lengths.csv
var ibanLengths string

var ibanCountries = sync.OnceValue(func() map[string]int {
	table := make(map[string]int, 100)
	for line := range strings.Lines(ibanLengths) {
		country, digits, _ := strings.Cut(strings.TrimSpace(line), ",")
		length := 0
		for _, digit := range digits {
			length = length*10 + int(digit-'0')
		}
		table[country] = length
	}
	return table
})

// CheckIBAN checks an IBAN in its electronic form: capital letters and digits without spaces, the
// length for its country, and the check digits (ISO 13616; ISO/IEC 7064 mod 97-10). No error
// contains the number.
func CheckIBAN(iban string) error {
	if len(iban) < 15 || len(iban) > 34 || strings.ContainsFunc(iban, notUpperOrDigit) {
		return errors.New("is not 15 to 34 capital letters and digits")
	}
	length, known := ibanCountries()[iban[:2]]
	if !known {
		return errors.New("has a country that is not in the IBAN registry")
	}
	if len(iban) != length {
		return fmt.Errorf("has %d characters, %s has %d", len(iban), iban[:2], length)
	}
	if isUpper(iban[2]) || isUpper(iban[3]) {
		return errors.New("has no check digits")
	}
	// 00, 01 and 99 leave the right remainder too, but are never issued.
	if check := iban[2:4]; check == "00" || check == "01" || check == "99" {
		return errors.New("has check digits that are never issued")
	}
	remainder := 0
	for _, c := range []byte(iban[4:] + iban[:4]) {
		if isUpper(c) {
			remainder = (remainder*100 + int(c-'A') + 10) % 97
		} else {
			remainder = (remainder*10 + int(c-'0')) % 97
		}
	}
	if remainder != 1 {
		return errors.New("has wrong check digits")
	}
	return nil
}

// CheckBIC checks the form of a business identifier code (ISO 9362:2022): four letters or digits,
// two letters of a country, two letters or digits, and optionally a branch of three. It does not
// check that the code exists, which only the rail can.
func CheckBIC(bic string) error {
	if len(bic) != 8 && len(bic) != 11 {
		return errors.New("is not 8 or 11 characters")
	}
	if strings.ContainsFunc(bic, notUpperOrDigit) || !isUpper(bic[4]) || !isUpper(bic[5]) {
		return errors.New("is not of the form of ISO 9362, such as DEUTDEFF500")
	}
	return nil
}

// CheckABA checks a routing transit number of the American Bankers Association: nine digits, a
// first pair that is in use, and the weighted sum 3, 7, 1 mod 10.
func CheckABA(number string) error {
	if len(number) != 9 || strings.ContainsFunc(number, func(r rune) bool { return r < '0' || r > '9' }) {
		return errors.New("is not nine digits")
	}
	sum := 0
	for n, weight := range [9]int{3, 7, 1, 3, 7, 1, 3, 7, 1} {
		sum += weight * int(number[n]-'0')
	}
	if sum%10 != 0 {
		return errors.New("has a wrong check digit")
	}
	// Federal Reserve districts 00-12, thrift 21-32, electronic 61-72, cheques 80.
	first := int(number[0]-'0')*10 + int(number[1]-'0')
	switch {
	case number == "000000000":
		return errors.New("has only zeros")
	case first <= 12, first >= 21 && first <= 32, first >= 61 && first <= 72, first == 80:
		return nil
	default:
		return errors.New("begins with a pair of digits that is not in use")
	}
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func notUpperOrDigit(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}
