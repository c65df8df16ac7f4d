package jsondoc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Find returns the value at a dotted path of keys; a number is an index into an array. A null
// counts as absent.
func (d Doc) Find(path string) (any, bool) {
	at := d.root
	for key := range strings.SplitSeq(path, ".") {
		switch node := at.(type) {
		case map[string]any:
			at = node[key]
		case []any:
			n := index(key)
			if n < 0 || n >= len(node) {
				return nil, false
			}
			at = node[n]
		default:
			return nil, false
		}
	}
	return at, at != nil
}

// Text returns the string at a path, or the digits of a number: banks use either for codes and
// references.
func (d Doc) Text(path string) (string, bool) {
	found, _ := d.Find(path)
	switch node := found.(type) {
	case string:
		return node, true
	case json.Number:
		return node.String(), true
	default:
		return "", false
	}
}

// Found is what an answer has at a path.
type Found struct {
	Kind Kind
	Text string // a string as it is, and of any other value its JSON form
}

// Kind tells what an answer does not say from what it says in a form that is not understood.
type Kind int

// The kinds of what is at a path.
const (
	Absent Kind = iota // nothing, or null
	Text               // a string that is not blank, or a number
	Blank              // a string without a character, an empty list or object, or false
	Other              // any other value
)

// Look returns what is at a path of an answer. A value on the way that can have no such part is taken for what should
// be there: of {"error":"E1"} that is E1 at error.code, and its kind is Other.
func (d Doc) Look(path string) Found {
	at := d.root
	for key := range strings.SplitSeq(path, ".") {
		next, fits := part(at, key)
		if !fits {
			found := found(at)
			if found.Kind == Text {
				found.Kind = Other
			}
			return found
		}
		at = next
	}
	return found(at)
}

// Word is like Look, and reads true and false at the path as words.
func (d Doc) Word(path string) Found {
	value, _ := d.Find(path)
	if word, ok := value.(bool); ok {
		return Found{Text, strconv.FormatBool(word)}
	}
	return d.Look(path)
}

// part returns what a value has under a key; nil: nothing. It reports false if the value is of a kind that has no such
// parts: a list has them by index, an object by name, and an empty one of either has none.
func part(value any, key string) (any, bool) {
	switch node := value.(type) {
	case nil:
		return nil, true
	case map[string]any:
		under, there := node[key]
		return under, there || len(node) == 0 || index(key) < 0
	case []any:
		n := index(key)
		if n < 0 || n >= len(node) {
			return nil, n >= 0 || len(node) == 0
		}
		return node[n], true
	default:
		return nil, false
	}
}

func found(value any) Found {
	switch node := value.(type) {
	case nil:
		return Found{}
	case string:
		if strings.TrimSpace(node) == "" {
			return Found{Blank, node}
		}
		return Found{Text, node}
	case json.Number:
		return Found{Text, node.String()}
	}
	kind := Other
	if list, _ := value.([]any); value == false || list != nil && len(list) == 0 {
		kind = Blank
	} else if object, ok := value.(map[string]any); ok && len(object) == 0 {
		kind = Blank
	}
	form, _ := AppendValue(nil, value) //nolint:errcheck // a value that was parsed can be written
	return Found{kind, string(form)}
}

// indexDigits bounds an index of a path.
const indexDigits = 4

// index parses an index; -1 is none.
func index(key string) int {
	if key == "" || len(key) > indexDigits {
		return -1
	}
	n := 0
	for _, digit := range []byte(key) {
		if digit < '0' || digit > '9' {
			return -1
		}
		n = n*10 + int(digit-'0')
	}
	return n
}

// Element returns the part of a path that leads to an element of a list, the last one on the way; empty: it has no
// index.
func Element(path string) string {
	keys := strings.Split(path, ".")
	at := len(keys) - 1
	for at >= 0 && index(keys[at]) < 0 {
		at--
	}
	return strings.Join(keys[:at+1], ".")
}

// CheckPath returns an error if a dotted path is invalid, be it into an answer of a rail or into a payload. It refuses
// an index with a sign or blanks before it, of which Find finds nothing in an array.
func CheckPath(path string) error {
	keys := strings.Split(path, ".")
	if path == "" || len(path) > 200 || slices.Contains(keys, "") {
		return fmt.Errorf("%q is no dotted path such as creditor.iban", path)
	}
	for _, key := range keys {
		if digits := strings.TrimLeft(key, " \t\n\v\f\r+-"); digits != key && isNumber(digits) {
			return fmt.Errorf("%q has the index %q, must be digits alone: 0 is the first", path, key)
		}
	}
	return nil
}

// CheckPayloadPath is like CheckPath, and refuses an index of more digits than Find reads, too: PostgreSQL, which reads
// a payload at the enqueue, takes it for one. It takes one with a sign for a number as well, and counts a negative one
// from the end.
func CheckPayloadPath(path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	for key := range strings.SplitSeq(path, ".") {
		if len(key) > indexDigits && isNumber(key) {
			return fmt.Errorf("%q has the index %q, must have at most %d digits", path, key, indexDigits)
		}
	}
	return nil
}

func isNumber(key string) bool { return key != "" && strings.Trim(key, "0123456789") == "" }
