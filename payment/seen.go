package payment

import (
	"fmt"
	"strings"
	"unicode"
)

// unseen are ranges of characters of which a reader sees nothing, except the plain space: control characters, blanks,
// and format characters and fillers that are drawn as nothing. Two texts that differ in them alone look the same.
var unseen = [][2]rune{
	{0x0001, 0x001F}, {0x007F, 0x00A0}, {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C}, {0x115F, 0x1160},
	{0x1680, 0x1680}, {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},
	{0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},
	{0xFFF9, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
}

// IsUnseen reports whether a reader of a text sees nothing of the character, and it is not the plain space.
func IsUnseen(r rune) bool {
	for _, span := range unseen {
		if span[0] <= r && r <= span[1] {
			return true
		}
	}
	return r == 0
}

// UnseenClass returns the characters for which IsUnseen is true as the inside of a bracket expression, for a string of
// PostgreSQL with escapes. It has escapes of the expression, and none of the characters: the database may have another
// encoding than UTF8. Its texts have no character 0.
func UnseenClass() string {
	var class strings.Builder
	for _, span := range unseen {
		for n, end := range span {
			if n == 1 && end == span[0] {
				break
			}
			if n == 1 {
				class.WriteByte('-')
			}
			class.WriteString(escaped(end))
		}
	}
	return class.String()
}

// BlankClass returns the characters that [strings.TrimSpace] removes, as UnseenClass does.
func BlankClass() string {
	var blanks strings.Builder
	for _, span := range unicode.White_Space.R16 {
		for r := rune(span.Lo); r <= rune(span.Hi); r += rune(span.Stride) {
			blanks.WriteString(escaped(r))
		}
	}
	return blanks.String()
}

// escaped is a character as an escape of a regular expression, within a string that has escapes itself.
func escaped(r rune) string {
	if r > 0xFFFF {
		return fmt.Sprintf(`\\U%08X`, r)
	}
	return fmt.Sprintf(`\\u%04X`, r)
}
