// Package secret keeps what must never be seen: configuration names where a
// secret is, in the environment or in a file, and never holds it. The value
// shows itself as *** in every form that Go can print.
package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
)

// mask is what is seen in place of a secret.
const mask = "***"

// maxSecret bounds a secret, in bytes: a certificate chain with its key.
const maxSecret = 64 << 10

// ErrMissing is what Resolve wraps when there is nothing behind a reference.
var ErrMissing = errors.New("the secret is not there")

// Ref says where a secret is: env:NAME or file:PATH. The zero Ref is none.
type Ref struct {
	kind string
	name string
}

// IsZero reports whether no secret is named.
func (r Ref) IsZero() bool { return r == Ref{} }

func (r Ref) String() string {
	if r.IsZero() {
		return ""
	}
	return r.kind + ":" + r.name
}

// MarshalText gives env:NAME or file:PATH.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// envName is the portable form of names of variables (POSIX).
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// UnmarshalText reads env:NAME or file:PATH. It never quotes what it refuses:
// it may be the secret itself.
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

// Resolve fetches the secret. One trailing line break of a file is dropped.
// Errors name the reference and never the value.
func (r Ref) Resolve(getenv func(string) string) (Value, error) {
	var text string
	switch r.kind {
	case "env":
		text = getenv(r.name)
	case "file":
		info, err := os.Stat(r.name)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w: %w", r, ErrMissing, err)
		}
		if info.Size() > maxSecret {
			return Value{}, fmt.Errorf("%s: longer than %d bytes", r, maxSecret)
		}
		content, err := os.ReadFile(r.name)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", r, err)
		}
		text = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	}
	if text == "" {
		return Value{}, fmt.Errorf("%s: %w", r, ErrMissing)
	}
	return Value{text: text}, nil
}

// Value is a secret in hand. Only Reveal shows it.
type Value struct{ text string }

// Of makes a secret of a text that is in hand already.
func Of(text string) Value { return Value{text: text} }

// Reveal is the secret. Nothing but the code that sends it calls this.
func (v Value) Reveal() string { return v.text }

// IsZero reports whether there is none.
func (v Value) IsZero() bool { return v.text == "" }

func (v Value) String() string { return mask }

// GoString covers the verb %#v.
func (v Value) GoString() string { return mask }

// LogValue covers slog.
func (v Value) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText covers encoders.
func (v Value) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON covers encoding/json.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(mask) }

// Format covers every verb of fmt.
func (v Value) Format(state fmt.State, _ rune) { fmt.Fprint(state, mask) }

// minRedacted is the shortest secret that Redact looks for: shorter ones would
// blank out half of every text.
const minRedacted = 4

// Redact blanks every secret out of a text that may echo it.
func Redact(text string, secrets ...Value) string {
	for _, secret := range secrets {
		if len(secret.text) >= minRedacted {
			text = strings.ReplaceAll(text, secret.text, mask)
		}
	}
	return text
}
