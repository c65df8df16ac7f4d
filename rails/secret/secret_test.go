package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hidden = "s3cret-value"

func TestValueNeverShows(t *testing.T) {
	type holder struct {
		Named Value
		Ptr   *Value
		List  []Value
	}
	v := Of(hidden)
	for _, subject := range []any{v, &v, []Value{v}, map[string]Value{"a": v},
		holder{Named: v, Ptr: &v, List: []Value{v}}} {
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "v", subject)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "v", subject)
		text, err := json.Marshal(subject)
		if err != nil {
			t.Fatal(err)
		}
		forms := []string{logged.String(), string(text), fmt.Errorf("wrapped %v", subject).Error()}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			forms = append(forms, fmt.Sprintf(verb, subject))
		}
		shown := strings.Join(forms, "\n")
		if strings.Contains(shown, hidden) || strings.Contains(strings.ToLower(shown), fmt.Sprintf("%x", hidden)) {
			t.Errorf("%T shows itself in %q", subject, shown)
		}
	}
	if v.Reveal() != hidden || v.IsZero() || !(Value{}).IsZero() {
		t.Error("the secret is lost")
	}
}

func TestRef(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte(hidden+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty, long := filepath.Join(dir, "empty"), filepath.Join(dir, "long")
	_ = os.WriteFile(empty, []byte("\n"), 0o600)
	_ = os.WriteFile(long, bytes.Repeat([]byte("x"), maxSecret+1), 0o600)
	getenv := func(name string) string { return map[string]string{"TOKEN": hidden}[name] }
	for text, want := range map[string]string{"env:TOKEN": hidden, "file:" + path: hidden, "env:NOTSET": "",
		"file:" + empty: "", "file:" + path + "x": "", "file:" + long: ""} {
		var ref Ref
		if err := ref.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := ref.Resolve(getenv)
		if got.Reveal() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got.Reveal(), err)
		}
		if ref.String() != text || ref.IsZero() {
			t.Errorf("%s comes back as %s", text, ref)
		}
	}
	for _, text := range []string{hidden, "", "env:", "env:A B", "env:1A", "file:", "vault:x", "ENV:TOKEN",
		"env:" + strings.Repeat("A", 200)} {
		var ref Ref
		err := ref.UnmarshalText([]byte(text))
		if err == nil || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (Ref{}).Resolve(getenv); !errors.Is(err, ErrMissing) {
		t.Errorf("no reference at all: %v", err)
	}
}

func TestRedact(t *testing.T) {
	got := Redact("Bearer "+hidden+" and "+hidden+" and abc", Of(hidden), Of("abc"), Value{})
	if got != "Bearer *** and *** and abc" {
		t.Errorf("got %q", got)
	}
}
