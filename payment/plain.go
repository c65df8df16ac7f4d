package payment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// plainKeysMax bounds the depth of a plain text, and the number of its open keys, which
// are compared with each other.
const plainKeysMax = 32

// isPlain reports whether a text is valid, for the plain texts that nearly all payloads
// are: one JSON value without an escape, shallow, no number with an exponent, and no
// object with many keys or with a key twice. False means only that checkClosely has to decide.
func isPlain(text []byte) bool {
	return bytes.IndexByte(text, '\\') < 0 && json.Valid(text) && plainMembers(text, func(int, []byte, []byte) {})
}

// plainMembers calls visit for every member of every object in a valid text without
// escapes, with the depth of the object, from 1, the key, and the text that begins with
// the value. It stops and returns false if the text is not plain. For an invalid text the
// calls have no meaning, and it returns false if brackets or quotes do not pair.
func plainMembers(text []byte, visit func(depth int, key, rest []byte)) bool {
	type level struct {
		object bool
		keys   int // of the levels above
	}
	var levels [plainKeysMax]level
	var seen [plainKeysMax][]byte
	depth, keys, wantsKey := 0, 0, false
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			if depth == len(levels) {
				return false
			}
			levels[depth] = level{object: text[at] == '{', keys: keys}
			depth++
			wantsKey = text[at] == '{'
		case '}', ']':
			if depth == 0 {
				return false
			}
			depth--
			keys = levels[depth].keys
			wantsKey = false
		case ',':
			if depth == 0 {
				return false
			}
			wantsKey = levels[depth-1].object
		case 'e', 'E':
			if hasExponent(text, at) {
				return false
			}
		case '"':
			end := at + 1 + bytes.IndexByte(text[at+1:], '"')
			if end == at {
				return false
			}
			if !wantsKey {
				at = end
				continue
			}
			key := text[at+1 : end]
			for _, other := range seen[levels[depth-1].keys:keys] {
				if bytes.Equal(key, other) {
					return false
				}
			}
			if keys == len(seen) {
				return false
			}
			seen[keys] = key
			keys++
			colon := bytes.IndexByte(text[end:], ':')
			if colon < 0 {
				return false
			}
			at = end + colon
			visit(depth, key, text[at+1:])
			wantsKey = false
		}
	}
	return depth == 0
}

// PayloadAmount reads the amount of a payload from the members that the database has
// checked: "amount" and "currency" of its outermost object, by exactly these names. It
// ignores an additional "Amount". The payload is the text of a jsonb; PayloadAmount does
// not check that it is valid JSON.
func PayloadAmount(payload []byte) (Amount, error) {
	var amount, currency string
	if bytes.IndexByte(payload, '\\') < 0 && len(payload) > 0 && payload[0] == '{' &&
		plainMembers(payload, func(depth int, key, rest []byte) {
			if depth > 1 {
				return
			}
			switch string(key) {
			case "amount":
				amount = plainString(rest)
			case "currency":
				currency = plainString(rest)
			}
		}) {
		return ParseAmount(amount, currency)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return Amount{}, fmt.Errorf("%w: the payload can't be read", ErrBadAmount)
	}
	err := errors.Join(json.Unmarshal(members["amount"], &amount), json.Unmarshal(members["currency"], &currency))
	if err != nil {
		return Amount{}, fmt.Errorf("%w: the payload's amount or currency can't be read", ErrBadAmount)
	}
	return ParseAmount(amount, currency)
}

// HasNoAmount reports whether the outermost object of a payload has neither an amount nor a
// currency, or null in their place. The payload is the text of a jsonb.
func HasNoAmount(payload []byte) bool {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		return false
	}
	absent := func(name string) bool {
		value, there := members[name]
		return !there || string(value) == "null"
	}
	return absent("amount") && absent("currency")
}

// plainString returns the string with which a text without escapes begins, or "".
func plainString(text []byte) string {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 || text[0] != '"' {
		return ""
	}
	value, _, _ := bytes.Cut(text[1:], []byte{'"'})
	return string(value)
}
