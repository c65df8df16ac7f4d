// Package secret keeps secrets out of configuration and output. Configuration contains a reference
// to a secret in the environment or in a file, and never the secret. The value prints as *** in
// every form that Go can print.
package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
)

// mask is printed in place of a secret.
const mask = "***"

// maxSecret bounds a secret, in bytes: a certificate chain with its key.
const maxSecret = 64 << 10

// ErrMissing is wrapped by Resolve's error if nothing is found at a reference.
var ErrMissing = errors.New("the secret is not there")

// Ref is a reference to a secret: env:NAME or file:PATH. The zero Ref refers to none.
type Ref struct {
	kind string
	name string
}

// IsZero reports whether the reference names no secret.
func (r Ref) IsZero() bool { return r == Ref{} }

func (r Ref) String() string {
	if r.IsZero() {
		return ""
	}
	return r.kind + ":" + r.name
}

// MarshalText returns env:NAME or file:PATH.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// envName matches the portable form of names of variables (POSIX).
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// UnmarshalText parses env:NAME or file:PATH. Its error does not quote the text, which may be the
// secret itself.
func (r *Ref) UnmarshalText(text []byte) error {
	kind, name, _ := strings.Cut(string(text), ":")
	switch {
	case kind == "env" && envName.MatchString(name), kind == "file" && name != "":
		*r = Ref{kind: kind, name: name}
		return nil
	default:
		return errors.New("must be env:NAME or file:PATH; secrets are never written into configuration")
	}
}

// Looks reports whether a text has the form of a reference.
func Looks(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// Resolve returns the secret. One trailing line break of a file is dropped. A file that does not answer within two
// seconds, as a pipe or a disk that hangs, is an error. Errors contain the reference and never the value.
func (r Ref) Resolve(getenv func(string) string) (Value, error) {
	var text string
	switch r.kind {
	case "env":
		text = getenv(r.name)
	case "file":
		content, err := readFile(r.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Value{}, fmt.Errorf("%s: %w: %w", r, ErrMissing, err)
		case err != nil:
			return Value{}, fmt.Errorf("%s: %w", r, err)
		}
		text = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	}
	if text == "" {
		return Value{}, fmt.Errorf("%s: %w", r, ErrMissing)
	}
	return Value{text: text}, nil
}

// Value is a resolved secret. Only Reveal returns it.
type Value struct{ text string }

// Of returns a text as a secret.
func Of(text string) Value { return Value{text: text} }

// Reveal returns the secret. Only the code that sends it may call it.
func (v Value) Reveal() string { return v.text }

// IsZero reports whether the value is empty.
func (v Value) IsZero() bool { return v.text == "" }

func (v Value) String() string { return mask }

// GoString implements fmt.GoStringer.
func (v Value) GoString() string { return mask }

// LogValue implements slog.LogValuer.
func (v Value) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText implements encoding.TextMarshaler.
func (v Value) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(mask) }

// Format implements fmt.Formatter for every verb.
func (v Value) Format(state fmt.State, _ rune) { fmt.Fprint(state, mask) }

// minRedacted is the shortest secret that Redact replaces: shorter ones occur in too many texts.
const minRedacted = 4

// Redact replaces every secret in a text that may echo it.
func Redact(text string, secrets ...Value) string {
	for _, secret := range secrets {
		if len(secret.text) >= minRedacted {
			text = strings.ReplaceAll(text, secret.text, mask)
		}
	}
	return text
}
