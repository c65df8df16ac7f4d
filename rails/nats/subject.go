package nats

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// subject is the template of the subjects of a rail: literal tokens, and two that are filled in.
type subject []string

const (
	participantToken = "{participant_id}"
	keyToken         = "{rail_key}"
	maxSubject       = 512 // bytes
)

func parseSubject(text string) (subject, error) {
	if text == "" || len(text) > maxSubject/2 {
		return nil, fmt.Errorf("is %q, must have 1 to %d bytes", text, maxSubject/2)
	}
	tokens := subject(strings.Split(text, "."))
	if strings.HasPrefix(text, "$") || strings.HasPrefix(text, "_INBOX") {
		return nil, fmt.Errorf("is %q, which belongs to the server", text)
	}
	participants := 0
	for n, token := range tokens {
		switch {
		case token == participantToken:
			participants++
		case token == keyToken:
			if n != len(tokens)-1 {
				return nil, errors.New("has {rail_key} in another place than the end")
			}
		case token == "" || escape(token) != token:
			return nil, fmt.Errorf("has the token %q, must be {participant_id}, {rail_key}, or letters, digits, _ and -",
				token)
		}
	}
	if participants != 1 {
		return nil, errors.New("must have {participant_id} once, as a token of its own")
	}
	return tokens, nil
}

// hasKey reports whether each payment has a subject of its own.
func (s subject) hasKey() bool { return s[len(s)-1] == keyToken }

// of returns the subject of a payment.
func (s subject) of(participantID, railKey string) string {
	tokens := make([]string, len(s))
	for n, token := range s {
		switch token {
		case participantToken:
			token = escape(participantID)
		case keyToken:
			token = escape(railKey)
		}
		tokens[n] = token
	}
	return strings.Join(tokens, ".")
}

// covers reports whether each filter of a stream is of subjects of the rail. A last > counts where only placeholders
// are left.
func (s subject) covers(filters []string) bool {
	return !slices.ContainsFunc(filters, func(filter string) bool { return !s.coversOne(strings.Split(filter, ".")) })
}

func (s subject) coversOne(filter []string) bool {
	for n, token := range s {
		placeholder := strings.HasPrefix(token, "{")
		switch {
		case n >= len(filter):
			return false
		case filter[n] == ">":
			return !slices.ContainsFunc(s[n:], func(t string) bool { return !strings.HasPrefix(t, "{") })
		case !placeholder && filter[n] != token:
			return false
		}
	}
	return len(filter) == len(s)
}

// escape writes any text as one token of a subject: letters, digits, _ and - stay, and every other
// byte becomes =HH. No two texts have the same token.
func escape(text string) string {
	var out strings.Builder
	for n := range len(text) {
		switch c := text[n]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "=%02X", c)
		}
	}
	return out.String()
}

// matches reports whether a filter of a stream, which may have wildcards, covers a subject.
func matches(filter, subject string) bool {
	filters, tokens := strings.Split(filter, "."), strings.Split(subject, ".")
	for n, token := range filters {
		switch {
		case token == ">":
			return len(tokens) > n
		case n >= len(tokens) || token != "*" && token != tokens[n]:
			return false
		}
	}
	return len(filters) == len(tokens)
}
