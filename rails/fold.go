package rails

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// letter is a letter or digit of a text, folded: in lower case and without marks.
type letter struct {
	char     rune
	from, to int  // the bytes of the text that it stands for
	joined   bool // it continues the word of the letter before
}

// spelled has the letters that Unicode does not decompose and that are also written in plain ones.
var spelled = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th",
}

// fold returns the letters and digits of a text. An escape of JSON such as \u00fc is one letter. A
// dot or comma between two digits separates no words, so that an amount is one.
func fold(text string) []letter {
	var all []letter
	end := -2 // where the text of the last letter ends; -2: there is none
	for i := 0; i < len(text); {
		char, width := character(text[i:])
		switch {
		case unicode.IsMark(char) && end == i:
			end += width
			all[len(all)-1].to = end
		case unicode.IsLetter(char) || unicode.IsNumber(char):
			joined := end == i || end == i-1 && (text[end] == '.' || text[end] == ',') &&
				unicode.IsNumber(char) && unicode.IsNumber(all[len(all)-1].char)
			for _, plain := range plainly(char) {
				all = append(all, letter{char: plain, from: i, to: i + width, joined: joined})
				joined, end = true, i+width
			}
		}
		i += width
	}
	return all
}

// character returns the first character of a text and its width in bytes.
func character(text string) (char rune, width int) {
	if text[0] == '\\' && len(text) >= 6 && text[1] == 'u' {
		if code, err := strconv.ParseUint(text[2:6], 16, 16); err == nil {
			return rune(code), 6 // half of a surrogate pair is no letter
		}
	}
	return utf8.DecodeRuneInString(text)
}

// plainly returns the folded letters and digits of one.
func plainly(char rune) []rune {
	if char < utf8.RuneSelf {
		return []rune{unicode.ToLower(char)}
	}
	var plain []rune
	for _, part := range norm.NFKD.String(string(char)) {
		part = unicode.ToLower(unicode.ToUpper(part))
		switch {
		case spelled[part] != "":
			plain = append(plain, []rune(spelled[part])...)
		case unicode.IsLetter(part) || unicode.IsNumber(part):
			plain = append(plain, part)
		}
	}
	return plain
}

// loosely returns the form of a word that it has in common with its other spellings: ae, oe, ue, aa
// and ss are a, o, u, a and s, as in Jürgen and Juergen. One with a digit is no name, and keeps all.
func loosely(word []letter) string {
	loose := make([]rune, 0, len(word))
	for n, one := range word {
		if unicode.IsNumber(one.char) {
			loose = loose[:0]
			for _, each := range word {
				loose = append(loose, each.char)
			}
			break
		}
		if n > 0 && shortened(word[n-1].char, one.char) {
			continue
		}
		loose = append(loose, one.char)
	}
	return string(loose)
}

func shortened(before, char rune) bool {
	switch char {
	case 'e':
		return before == 'a' || before == 'o' || before == 'u'
	case 'a', 's':
		return before == char
	}
	return false
}

// wordsIn returns the words of folded letters. A hidden letter and one that is not are never of one
// word; hidden may be nil.
func wordsIn(all []letter, hidden []bool) [][]letter {
	var words [][]letter
	from := 0
	for n := 1; n <= len(all); n++ {
		if n == len(all) || !all[n].joined || hidden != nil && hidden[n] != hidden[n-1] {
			words = append(words, all[from:n:n])
			from = n
		}
	}
	return words
}

// span returns the characters of a text for which a word stands, and whether there is a number in it.
func span(word []letter) (characters int, number bool) {
	characters = len(word)
	for n, one := range word {
		number = number || unicode.IsNumber(one.char)
		if n > 0 && one.from > word[n-1].to {
			characters++ // a dot or a comma
		}
	}
	return characters, number
}
