package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDefectsAreNumberedOnce finds a row of the tables of docs/reliability.md whose number another row has, or that
// names a mutant that there is not: one that was renamed is no guard any more.
func TestDefectsAreNumberedOnce(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	mutants := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^- mutant: (\S+)$`).FindAllStringSubmatch(
		read("testbed/mutants/mutants.yaml"), -1) {
		mutants[found[1]] = true
	}
	const least = 100 // rows and mutants: fewer are a list that was not found
	numbered := regexp.MustCompile(`^\| ([A-Z]\d+) \|`)
	quoted := regexp.MustCompile("`([^`]+)`")
	seen := map[string]bool{}
	for line := range strings.Lines(read("docs/reliability.md")) {
		found := numbered.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		if seen[found[1]] {
			t.Errorf("docs/reliability.md has two rows %s", found[1])
		}
		seen[found[1]] = true
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 4 {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if !mutants[name[1]] {
				t.Errorf("docs/reliability.md names in row %s the mutant %s, and there is none", found[1], name[1])
			}
		}
	}
	if len(seen) < least || len(mutants) < least {
		t.Fatalf("%d rows and %d mutants were found", len(seen), len(mutants))
	}
}
