package migrations_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sqlToken is a comment, a string constant, or one that begins with E.
var sqlToken = regexp.MustCompile(`--[^\n]*|(?i:\bE)'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'`)

// TestLiteralsReadAlike finds string constants that mean something else where a
// login has set standard_conforming_strings to off: those with a backslash that do
// not begin with E. A function is read with the setting of the session that calls
// it first.
func TestLiteralsReadAlike(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, folder := range []string{"sql", "functions", "views", "../ledger/sql"} {
		paths, err := filepath.Glob(filepath.Join(folder, "*.sql"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%d statements in %s (%v)", len(paths), folder, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range sqlToken.FindAllString(string(text), -1) {
				if strings.HasPrefix(token, "'") {
					seen++
					if strings.Contains(token, `\`) {
						t.Errorf("%s: %s holds a backslash: write [.] in a pattern, or E'...' with the backslash twice", path, token)
					}
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d string constants: the test looks for the wrong text", seen)
	}
}
