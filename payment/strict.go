package payment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// ErrBadJSON is wrapped by every error of CheckJSON.
var ErrBadJSON = errors.New("bad JSON")

// jsonDepthMax bounds the nesting. The database has a lower bound.
const jsonDepthMax = 128

// CheckJSON returns an error for a text that the database would store with another
// meaning, or for which it would refuse the whole statement: a key that occurs twice
// (jsonb keeps the last, so a second "amount" would replace the first), text that is
// not UTF-8, the character zero, a second value after the first, numbers that are too long
// (ErrLongNumbers). No error contains a value of the text.
func CheckJSON(text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("%w: it is not UTF-8", ErrBadJSON)
	}
	if isPlain(text) {
		return nil
	}
	return checkClosely(text)
}

func checkClosely(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	digits := 0
	if err := checkValue(decoder, 0, &digits); err != nil {
		return fmt.Errorf("%w: %w", ErrBadJSON, withoutText(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more follows the first value", ErrBadJSON)
	}
	return nil
}

// withoutText replaces an error of the decoder by one that does not quote the text.
func withoutText(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it breaks at byte %d", syntax.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends early")
	}
	return err
}

// checkValue checks a value, and adds the digits of its numbers to digits.
func checkValue(decoder *json.Decoder, depth int, digits *int) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	if depth > jsonDepthMax {
		return fmt.Errorf("it is nested deeper than %d levels", jsonDepthMax)
	}
	switch token := token.(type) {
	case json.Delim:
		if err := checkMembers(decoder, token == '{', depth, digits); err != nil {
			return err
		}
		_, err := decoder.Token() // the closing bracket
		return err
	case string:
		return checkText(token)
	case json.Number:
		long, err := written(token)
		if *digits += long; err == nil && *digits > writtenMax {
			err = ErrLongNumbers
		}
		return err
	default:
		return nil
	}
}

func checkMembers(decoder *json.Decoder, isObject bool, depth int, digits *int) error {
	seen := make(map[string]bool)
	for decoder.More() {
		if isObject {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			if seen[key] {
				return fmt.Errorf("the key %q is given twice", shortened(key))
			}
			seen[key] = true
			if err := checkText(key); err != nil {
				return err
			}
		}
		if err := checkValue(decoder, depth+1, digits); err != nil {
			return err
		}
	}
	return nil
}

func checkText(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("it contains the character zero, which PostgreSQL can't store")
	}
	return nil
}

// shortened cuts a key for an error message.
func shortened(key string) string {
	const limit = 64
	runes := []rune(key)
	if len(runes) <= limit {
		return key
	}
	return string(runes[:limit]) + "..."
}
