package rails

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/payment"
)

// hidden replaces words of the instruction.
const hidden = "[payload]"

// gapMax is how many characters between two hidden words are hidden with them.
const gapMax = 3

// Bounds of what is hidden. Shorter words occur in any sentence and identify no person.
const (
	hiddenMin  = 4 // characters of a word
	hiddenRow  = 8 // characters in a row that are hidden wherever they are
	rowDigits  = 2 // digits among them
	hiddenMost = 20_000
	windowMax  = 8   // words of the message that are compared with one value
	valueMax   = 140 // characters of a value that is compared as a whole
)

// Redact removes the words of the instruction from a rail's answer: banks repeat what they refuse,
// and so do errors of the network layers. From the message it removes every word of four characters
// or more that is in a value of the payload or in also: in any case, with or without its marks, with
// ae, oe, ue, aa and ss in place of letters that are also written so, and as JSON escapes. What is
// together a word or a value of eight characters or more is found in any division by blanks, dots and
// dashes, and so are each eight characters in a row of a value, two of them digits, also inside of a
// word. A code with such a word is replaced as a whole. The reference stays, because the money is
// looked up by it, and so does the place, which comes to stand before the message.
//
// It does not find names in another alphabet or spelling, initials, typing errors, names of fewer
// than four letters, names without digits inside of a longer word, and parts of an account number
// that are shorter than eight characters and no word of the payload.
func Redact(result Result, payload []byte, also ...string) Result {
	result = redact(result, payload, also)
	if result.Place != "" {
		result.Message = Truncate(result.Place+": "+result.Message, payment.MaxErrorMessage)
		result.Place = ""
	}
	return result
}

func redact(result Result, payload []byte, also []string) Result {
	if isOwn(result.Message) && utf8.RuneCountInString(result.Code) < hiddenMin {
		return result
	}
	said := wordsOf(payload, also)
	result.Message = said.out(result.Message)
	if said.out(result.Code) != result.Code {
		result.Code = hidden
	}
	return result
}

// isOwn reports whether the message is empty or the most frequent message of the adapters
// themselves, which contains nothing of the instruction.
func isOwn(message string) bool {
	status, ok := strings.CutPrefix(message, "HTTP ")
	return message == "" || ok && len(status) == 3
}

// said is what may not be said of an instruction: its words and short values, in their loose form,
// and its values as they are.
type said struct {
	words  map[string]bool
	values [][]letter
}

func wordsOf(payload []byte, also []string) *said {
	s := &said{words: make(map[string]bool)}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	// A key is the name of a field and not its value. Within an object every other token is a key,
	// which the decoder does not mark.
	var inObject []bool
	key := false
	for len(s.words) < hiddenMost {
		token, err := decoder.Token()
		if err != nil {
			if err != io.EOF {
				s.add(string(payload)) // what can't be parsed is hidden as a whole
			}
			break
		}
		switch value := token.(type) {
		case json.Delim:
			if value == '{' || value == '[' {
				inObject = append(inObject, value == '{')
				key = value == '{'
				continue
			}
			inObject = inObject[:len(inObject)-1]
		case string:
			if key {
				key = false
				continue
			}
			s.add(value)
		case json.Number:
			s.add(value.String())
		}
		key = len(inObject) > 0 && inObject[len(inObject)-1]
	}
	for _, text := range also {
		s.add(text)
	}
	return s
}

func (s *said) add(text string) {
	all := fold(text)
	words := wordsIn(all, nil)
	var whole strings.Builder
	for _, word := range words {
		loose := loosely(word)
		whole.WriteString(loose)
		if characters, _ := span(word); characters >= hiddenMin && len(s.words) < hiddenMost {
			s.words[loose] = true
		}
	}
	if len(words) > 1 && len(all) >= hiddenRow && len(all) <= valueMax && len(s.words) < hiddenMost {
		s.words[whole.String()] = true
	}
	if hasRow(all) {
		s.values = append(s.values, all)
	}
}

// out hides what may not be said, and the beginning of it at the end of a text that was cut off.
func (s *said) out(text string) string {
	all := fold(text)
	hide := make([]bool, len(all))
	s.hideRows(all, hide)
	s.hideWords(all, hide, len(text))
	var out strings.Builder
	from := 0
	for n := 0; n < len(all); n++ {
		if !hide[n] {
			continue
		}
		out.WriteString(text[from:all[n].from])
		for n+1 < len(all) && hide[n+1] && gap(text, all[n], all[n+1]) <= gapMax {
			n++
		}
		out.WriteString(hidden)
		from = all[n].to
	}
	return out.String() + text[from:]
}

// gap counts the characters between two letters. Both may stand for the same one.
func gap(text string, one, other letter) int {
	return utf8.RuneCountInString(text[one.to:max(one.to, other.from)])
}

// hideRows hides the rows of characters that are also in a value.
func (s *said) hideRows(all []letter, hide []bool) {
	rows := make(map[[hiddenRow]rune][]int)
	for n := range len(all) - hiddenRow + 1 {
		if row, digits := rowOf(all[n:]); digits >= rowDigits {
			rows[row] = append(rows[row], n)
		}
	}
	if len(rows) == 0 {
		return
	}
	for _, value := range s.values {
		for n := range len(value) - hiddenRow + 1 {
			row, _ := rowOf(value[n:])
			for _, at := range rows[row] {
				for each := range hiddenRow {
					hide[at+each] = true
				}
			}
			delete(rows, row)
		}
	}
}

// hasRow reports whether there may be such rows in a value.
func hasRow(value []letter) bool {
	digits := 0
	for _, one := range value {
		if unicode.IsNumber(one.char) {
			digits++
		}
	}
	return digits >= rowDigits && len(value) >= hiddenRow
}

func rowOf(all []letter) (row [hiddenRow]rune, digits int) {
	for n := range row {
		row[n] = all[n].char
		if unicode.IsNumber(row[n]) {
			digits++
		}
	}
	return row, digits
}

// hideWords hides the words, and the words in a row that are together one word or value.
func (s *said) hideWords(all []letter, hide []bool, end int) {
	words, at := wordsIn(all, hide), 0
	for n, word := range words {
		characters, number := span(word)
		loose, letters := loosely(word), len(word)
		most := 0
		if s.words[loose] && (number || characters >= hiddenMin) ||
			word[len(word)-1].to == end && characters >= hiddenMin && s.begins(loose) {
			most = letters
		}
		for _, more := range words[n+1 : min(n+windowMax, len(words))] {
			loose += loosely(more)
			if letters += len(more); letters >= hiddenRow && s.words[loose] {
				most = letters
			}
		}
		for each := range most {
			hide[at+each] = true
		}
		at += len(word)
	}
}

func (s *said) begins(start string) bool {
	for one := range s.words {
		if strings.HasPrefix(one, start) {
			return true
		}
	}
	return false
}
