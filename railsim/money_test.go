package railsim

import "testing"

func TestParseAmount(t *testing.T) {
	for _, c := range []struct{ in, currency, want string }{
		{"10.50", "EUR", "10.50"},
		{"10.5", "EUR", "10.50"},
		{"10", "EUR", "10.00"},
		{"0.01", "EUR", "0.01"},
		{"500", "JPY", "500"},
		{"1.005", "KWD", "1.005"},
		{"9999999999999999999999999999.99", "EUR", "9999999999999999999999999999.99"},
		{"99999999999999999999999999999.99", "EUR", ""},
		{"", "EUR", ""},
		{"0", "EUR", ""},
		{"0.00", "EUR", ""},
		{"-1.00", "EUR", ""},
		{"+1.00", "EUR", ""},
		{"1e3", "EUR", ""},
		{" 1", "EUR", ""},
		{"01.00", "EUR", ""},
		{".50", "EUR", ""},
		{"1.", "EUR", ""},
		{"1.001", "EUR", ""},
		{"1.0", "JPY", ""},
		{"1.00.00", "EUR", ""},
		{"1,00", "EUR", ""},
		{"١.00", "EUR", ""},
	} {
		minor, err := parseAmount(c.in, c.currency)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%q %s was taken for %s", c.in, c.currency, formatAmount(minor, c.currency))
		case c.want != "" && err != nil:
			t.Errorf("%q %s: %v", c.in, c.currency, err)
		case c.want != "" && formatAmount(minor, c.currency) != c.want:
			t.Errorf("%q %s became %s", c.in, c.currency, formatAmount(minor, c.currency))
		}
	}
}

// What can be read is written in one way, and reads back as the same money.
func FuzzMoney(f *testing.F) {
	f.Add("10.50", 0)
	f.Add("-0.07", 0)
	f.Add("5", 1)
	f.Add("1.234", 2)
	f.Fuzz(func(t *testing.T, s string, which int) {
		currency := []string{"EUR", "JPY", "KWD", "CLF"}[uint(which)%4]
		minor, err := parseMoney(s, currency)
		if err != nil {
			return
		}
		text := formatAmount(minor, currency)
		again, err := parseMoney(text, currency)
		if err != nil || again.Cmp(minor) != 0 {
			t.Errorf("%q is %s, written %q, which is %v (%v)", s, minor, text, again, err)
		}
	})
}
