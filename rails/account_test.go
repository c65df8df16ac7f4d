package rails

import (
	_ "embed"
	"strings"
	"testing"
)

// ibans is one account number a country, made and accepted by npm ibantools
// 4.5.4, which shares no code and no table with us.
//
//go:embed testdata/ibans.txt
var ibans string

func TestIBANAgreesWithAnotherImplementation(t *testing.T) {
	countries := 0
	for iban := range strings.Lines(ibans) {
		iban = strings.TrimSpace(iban)
		countries++
		if err := CheckIBAN(iban); err != nil {
			t.Errorf("%s %v", iban, err)
		}
		// Mod 97-10 finds every single wrong digit and every swap of two
		// different neighbours.
		for n := 4; n < len(iban); n++ {
			wrong := []byte(iban)
			wrong[n] = next(wrong[n])
			if CheckIBAN(string(wrong)) == nil {
				t.Errorf("%s is accepted, its character %d is wrong", wrong, n)
			}
			swapped := []byte(iban)
			swapped[n-1], swapped[n] = swapped[n], swapped[n-1]
			if n > 4 && swapped[n-1] != swapped[n] && !isUpper(swapped[n]) && !isUpper(swapped[n-1]) &&
				CheckIBAN(string(swapped)) == nil {
				t.Errorf("%s is accepted, its characters %d and %d are swapped", swapped, n-1, n)
			}
		}
	}
	if countries < 80 {
		t.Errorf("only %d countries were tried", countries)
	}
}

func next(c byte) byte {
	switch c {
	case '9':
		return '0'
	case 'Z':
		return 'A'
	default:
		return c + 1
	}
}

func TestIBANRefuses(t *testing.T) {
	for _, iban := range []string{
		"", "DE", "DE89 3704 0044 0532 0130 00", "de89370400440532013000", "DE8937040044053201300", "DE893704004405320130001",
		"XX89370400440532013000", "DE00370400440532013000", "DEAB370400440532013000", "DE89370400440532013O00",
		"DE89370400440532013000\n",
		strings.Repeat("9", 1000), "ＤE89370400440532013000",
	} {
		if CheckIBAN(iban) == nil {
			t.Errorf("%q is accepted", iban)
		}
	}
}

func TestBIC(t *testing.T) {
	for bic, good := range map[string]bool{
		"DEUTDEFF": true, "DEUTDEFF500": true, "NEDSZAJJXXX": true, "1234DE55": true,
		"": false, "DEUTDEF": false, "DEUTDEFF5": false, "deutdeff": false, "DEUT1EFF": false, "DEUTDEFF50": false,
		"DEUTDEFF5000": false, "DEUT DEFF": false,
	} {
		if got := CheckBIC(bic) == nil; got != good {
			t.Errorf("%q: %v, want %v", bic, got, good)
		}
	}
}

func TestABA(t *testing.T) {
	for number, good := range map[string]bool{
		"021000021": true, "011401533": true, "091000019": true, "322271627": true,
		"021000022": false, "000000000": false, "02100002": false, "0210000210": false, "02100002a": false, "": false,
		"130000006": false, // right sum, a first pair that no bank has
	} {
		if got := CheckABA(number) == nil; got != good {
			t.Errorf("%q: %v, want %v", number, got, good)
		}
	}
}
