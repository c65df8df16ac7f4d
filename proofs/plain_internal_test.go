package proofs

import "testing"

// TestPlain: text from outside has one line, and nothing that a terminal obeys.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\nb\tc": "a b c", "\x1b[1A": " [1A", "\u009b2K": " 2K", "\u202eevil\u2069": " evil ",
		"\x7f\u2028\u2029": "   ", "\xff": "?",
		"Zürich, 東京": "Zürich, 東京",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
