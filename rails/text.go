package rails

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/railhead-pay/railhead/payment"
)

// panShaped matches 13 to 19 digits, the lengths of ISO/IEC 7812 card numbers, with single spaces
// or dashes allowed between them.
var panShaped = regexp.MustCompile(`\d(?:[ -]?\d){12,18}`)

// Sanitize prepares text from outside for storage and display. Control characters, line breaks
// included, become spaces; invalid UTF-8 is removed; runs of digits that could be a card number are
// masked; and the rest is cut to payment.MaxErrorMessage bytes. Check digits are not verified: a
// masked order number costs less than a stored card number.
func Sanitize(text string) string {
	text = panShaped.ReplaceAllString(spaced(text), "[digits masked]")
	return strings.TrimRight(Truncate(text, payment.MaxErrorMessage), " ")
}

// oneLine is Sanitize for a text of an adapter itself, whose long numbers are not those of cards.
func oneLine(text string) string {
	return strings.TrimRight(Truncate(spaced(text), payment.MaxErrorMessage), " ")
}

// spaced removes invalid UTF-8, and puts a single space in place of blanks and control characters.
func spaced(text string) string {
	const slack = 4 * payment.MaxErrorMessage // what is beyond would not survive the cut
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
	return strings.Join(strings.Fields(text), " ") // before masking: two spaces must not hide a number
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

// plain reports whether a rail's reference or code can be stored as it is.
func plain(text string, limit int) bool {
	if len(text) > limit || !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, unicode.IsControl)
}

// CleanReference returns a rail's reference as it is stored and compared, which is as a reader sees
// it: without surrounding blanks, since one answer may pad what another does not, with plain spaces
// for the blanks within it, without other characters that are not seen, and with a letter and its
// accent as one character where Unicode has it (NFC). It returns the empty string for a reference
// that can't be stored: with a control character, of more than MaxReference bytes, or of which
// nothing is seen. The function clean_reference of a cell is the same rule.
func CleanReference(text string) string {
	text = strings.TrimSpace(text)
	if !plain(text, MaxReference) {
		return ""
	}
	text = norm.NFC.String(strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case payment.IsUnseen(r):
			return -1
		default:
			return r
		}
	}, text)))
	if len(text) > MaxReference {
		return ""
	}
	return text
}

// PlainCode reports whether text can be stored as a rail's code.
func PlainCode(text string) bool { return text != "" && plain(text, MaxCode) }
