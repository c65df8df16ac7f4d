package httpjson

import (
	"strings"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// text returns the text at a configured path; an empty path finds nothing.
func (s *parsedAnswer) text(path string) (string, bool) {
	if path == "" || !s.readable {
		return "", false
	}
	return s.doc.Text(path)
}

// look returns what is at a configured path; an empty path finds nothing.
func (s *parsedAnswer) look(path string) jsondoc.Found {
	if path == "" || !s.readable {
		return jsondoc.Found{}
	}
	return s.doc.Look(path)
}

// word is look for a status word, which may be true or false.
func (s *parsedAnswer) word(path string) jsondoc.Found {
	if path == "" || !s.readable {
		return jsondoc.Found{}
	}
	return s.doc.Word(path)
}

// wordOf returns a status word as it is compared; empty: there is none. One that is there and can't be used is not one
// that is missing: without a word the HTTP status may decide alone.
func (s *parsedAnswer) wordOf(found jsondoc.Found) string {
	switch found.Kind {
	case jsondoc.Absent:
		return ""
	case jsondoc.Text:
		return found.Text
	default:
		s.odd = append(s.odd, "its status can't be used: "+shown(found))
		return codes.Unusable
	}
}

// codeOf returns a code as it is compared and stored; empty: there is none, or it is blank. A code that can't be stored
// is one that no table lists.
func (s *parsedAnswer) codeOf(found jsondoc.Found) string {
	switch {
	case found.Kind == jsondoc.Absent || found.Kind == jsondoc.Blank:
		return ""
	case found.Kind == jsondoc.Text && rails.PlainCode(found.Text):
		return found.Text
	default:
		s.odd = append(s.odd, "its code can't be used: "+shown(found))
		return codes.Unusable
	}
}

// kept returns a word or code as it is stored.
func (s *parsedAnswer) kept(code string) string {
	if code == "" || rails.PlainCode(code) {
		return code
	}
	s.odd = append(s.odd, "its status can't be stored: "+code)
	return codes.Unusable
}

// echo reports whether an answer repeats our own reference, or why it is not one about our payment: what it has there
// is another reference, or none that can be read.
func (s *parsedAnswer) echo(path, own string) (echoed bool, stray string) {
	found := s.look(path)
	switch {
	case found.Kind == jsondoc.Absent:
		return false, ""
	case found.Kind != jsondoc.Text:
		s.odd = append(s.odd, "it has in place of our reference: "+shown(found))
		return false, "the answer names no payment that can be told from others"
	case found.Text != own:
		return false, "the answer is about another payment"
	default:
		return true, ""
	}
}

// maxShown bounds the parts that can't be used which a message shows, in bytes. A longer one is not shown at all: in a
// piece of it, words of the payload that were cut could not be found and hidden.
const maxShown = 200

// shown returns what an answer has in place of a text, for operators.
func shown(found jsondoc.Found) string {
	if found.Kind == jsondoc.Blank && found.Text == "" {
		return `""`
	}
	return found.Text
}

// explain adds to a message what the answer has in place of a word, a code or our reference, and what the bank says.
func (s *parsedAnswer) explain(message, path string, clean func(string) string) string {
	if clean == nil {
		clean = rails.Sanitize
	}
	for _, part := range s.odd {
		if part = clean(part); len(part) > maxShown {
			what, _, _ := strings.Cut(part, ": ")
			part = what + ", and is too long to be shown"
		}
		message += ", " + part
	}
	if text, ok := s.text(path); ok {
		message += ": " + text
	}
	return message
}
