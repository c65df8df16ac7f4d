package layout

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	identifier = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_]*`)
)

// glossaryRows are the rows of the tables of docs/glossary.md: the word, and the line.
func glossaryRows(t *testing.T) (words, lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "-") {
			continue
		}
		words, lines = append(words, strings.TrimSpace(cells[1])), append(lines, line)
	}
	return words, lines
}

// TestGlossaryNamesExist finds an identifier in backticks in the glossary that is in no
// Go or SQL file. Metrics are names in Go.
func TestGlossaryNamesExist(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	_, lines := glossaryRows(t)
	for _, line := range lines {
		for _, span := range quoted.FindAllStringSubmatch(line, -1) {
			for _, name := range identifier.FindAllString(span[1], -1) {
				missing[name] = true
			}
		}
	}
	if len(missing) < 20 {
		t.Fatalf("the glossary has %d identifiers: the rule checks nothing", len(missing))
	}
	walk(t, func(file string) {
		if ext := path.Ext(file); ext != ".go" && ext != ".sql" || strings.HasPrefix(file, "internal/layout/") ||
			len(missing) == 0 {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range identifier.FindAllString(string(text), -1) {
			delete(missing, name)
		}
	})
	for name := range missing {
		t.Errorf("docs/glossary.md: %s is in no Go or SQL file", name)
	}
}

// TestGlossaryRows wants one row for each word, and one for each state of an attempt.
func TestGlossaryRows(t *testing.T) {
	t.Parallel()
	words, _ := glossaryRows(t)
	rows := map[string]int{}
	for _, word := range words {
		if word != "word" && word != "state" {
			rows[word]++
		}
	}
	for word, n := range rows {
		if n != 1 {
			t.Errorf("docs/glossary.md has %d rows for %s", n, word)
		}
	}
	for _, state := range payment.States() {
		if rows[string(state)] != 1 {
			t.Errorf("docs/glossary.md has no row for the state %s", state)
		}
	}
}
