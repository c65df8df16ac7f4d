package rails

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/payment"
)

// panShaped is a run of 13 to 19 digits, the lengths of ISO/IEC 7812 card
// numbers, with single spaces or dashes allowed between them.
var panShaped = regexp.MustCompile(`\d(?:[ -]?\d){12,18}`)

// CleanMessage makes foreign text fit to be stored and shown: control
// characters (line breaks too) become spaces, invalid UTF-8 goes, runs of
// digits that could be a card number are masked, and what is left is cut to
// payment.MaxErrorMessage bytes. No check digit is asked for: a masked order
// number costs less than a stored card number.
func CleanMessage(text string) string {
	const slack = 4 * payment.MaxErrorMessage // what is beyond can't survive the cut
	if len(text) > slack {
		text = text[:slack]
	}
	text = strings.ToValidUTF8(text, "")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ") // first: two spaces must not hide a number
	text = panShaped.ReplaceAllString(text, "[digits masked]")
	return strings.TrimRight(Truncate(text, payment.MaxErrorMessage), " ")
}

// Truncate cuts text to at most limit bytes without splitting a character.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// plain reports whether a rail's reference or code can be kept as it is.
func plain(text string, limit int) bool {
	if len(text) > limit || !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, unicode.IsControl)
}

// CleanReference is a rail's reference as it is kept and compared: without blanks around
// it, because one answer may pad what another does not. It is empty for what can't be kept.
func CleanReference(text string) string {
	if text = strings.TrimSpace(text); !plain(text, MaxReference) {
		return ""
	}
	return text
}

// PlainCode reports whether text can be kept as a rail's code.
func PlainCode(text string) bool { return text != "" && plain(text, MaxCode) }
