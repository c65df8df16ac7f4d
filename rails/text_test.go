package rails

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/payment"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"account closed":                    "account closed",
		"two\r\nlines\tand\x00a\x1b[31mred": "two lines and a [31mred",
		"right\u202eto left\u2028end":       "right to left end",
		"bad \xff\xfe bytes":                "bad bytes",
		"card 4111111111111111 refused":     "card [digits masked] refused",
		"card 4111 1111 1111 1111.":         "card [digits masked].",
		"card 5500-0000-0000-0004":          "card [digits masked]",
		"id 123456789012":                   "id 123456789012",
		"":                                  "",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestCleanReference(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"RS-1": "RS-1", " RS-1 ": "RS-1", "RS 1\n": "RS 1", "\u00a0RS-1": "RS-1",
		"": "", "  ": "", "RS\x001": "", "RS\n1": "", "\xff": "",
		"RS-1\u200b": "RS-1", "\ufeffRS-1": "RS-1", "RS\u00a01": "RS 1", "RS\u00ad1": "RS1", "RS\U000e00411": "RS1",
		"\u3000RS-1\u2003": "RS-1", "\u200b\ufeff": "", "\u200b RS\u30001 \u2060": "RS 1",
		strings.Repeat("r", MaxReference+1): "",
	} {
		if got := CleanReference(in); got != want {
			t.Errorf("%q is kept as %q, want %q", in, got, want)
		}
	}
}

func FuzzCleanMessage(f *testing.F) {
	for _, seed := range []string{"", "ok", strings.Repeat("é", 1500), strings.Repeat("4111 ", 900), "\xff",
		"4111111111111111"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Sanitize(text)
		if len(got) > payment.MaxErrorMessage || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\x00\x1b\u2028") {
			t.Errorf("%q became %q", text, got)
		}
		if again := Sanitize(got); again != got {
			t.Errorf("cleaning twice: %q, then %q", got, again)
		}
		if panShaped.MatchString(got) {
			t.Errorf("%q still shows a number", got)
		}
	})
}
