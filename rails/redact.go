package rails

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/payment"
)

// hidden replaces words of the instruction.
const hidden = "[payload]"

// Bounds of the words that are hidden. Shorter words occur in any sentence and identify no person.
const (
	hiddenMin  = 4 // characters
	hiddenMost = 20_000
)

var (
	word = regexp.MustCompile(`[\p{L}\p{N}]+(?:[.,]\d+)*`)
	// repeats matches several replacements in a row.
	repeats = regexp.MustCompile(regexp.QuoteMeta(hidden) + `(?:[^\p{L}\p{N}]{1,3}` + regexp.QuoteMeta(hidden) + `)+`)
)

// Redact removes the words of the instruction from a rail's answer: banks repeat what they refuse,
// and so do errors of the network layers. From the message it removes every word of four characters
// or more that is in a value of the payload or in also, in any case. A code with such a word is
// replaced as a whole. The reference stays, because the money is looked up by it, and so does the place, which comes
// to stand before the message.
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

// said is a set of words in lower case.
type said map[string]bool

func wordsOf(payload []byte, also []string) said {
	s := make(said)
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	// A key is the name of a field and not its value. Within an object every other token is a key,
	// which the decoder does not mark.
	var inObject []bool
	key := false
	for len(s) < hiddenMost {
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

func (s said) add(text string) {
	for _, found := range word.FindAllString(text, hiddenMost) {
		if utf8.RuneCountInString(found) < hiddenMin {
			continue
		}
		s[strings.ToLower(found)] = true
		if digits := strings.ReplaceAll(found, ".", ""); digits != found {
			s[digits] = true // an amount in minor units
		}
	}
}

// out hides the words, and the beginning of one at the end of a text that was cut off.
func (s said) out(text string) string {
	if text == "" || len(s) == 0 {
		return text
	}
	found := false
	text = replaceWords(text, func(one string, last bool) string {
		lower := strings.ToLower(one)
		if s[lower] || s[strings.Map(digitsOnly, lower)] || last && s.begins(lower) {
			found = true
			return hidden
		}
		return one
	})
	if !found {
		return text
	}
	return repeats.ReplaceAllString(text, hidden)
}

func replaceWords(text string, with func(one string, last bool) string) string {
	var out strings.Builder
	from := 0
	for _, at := range word.FindAllStringIndex(text, -1) {
		out.WriteString(text[from:at[0]])
		out.WriteString(with(text[at[0]:at[1]], at[1] == len(text)))
		from = at[1]
	}
	out.WriteString(text[from:])
	return out.String()
}

func digitsOnly(r rune) rune {
	if r == '.' || r == ',' {
		return -1
	}
	return r
}

func (s said) begins(start string) bool {
	if utf8.RuneCountInString(start) < hiddenMin {
		return false
	}
	for one := range s {
		if strings.HasPrefix(one, start) {
			return true
		}
	}
	return false
}
