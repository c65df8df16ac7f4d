package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestListedTestsExist finds a test that scripts name, to run it or to leave it out, and that is gone;
// and one to be left out whose name two packages have: both would be.
func TestListedTestsExist(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\)`)
	known := map[string]int{} // in how many files
	walk(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(text, -1) {
			known[string(found[1])]++
		}
	})
	list := regexp.MustCompile(`(?s)\n(?:core|long|whole)=\((.*?)\n\)`)
	for _, script := range []string{"check.sh", "test.sh"} {
		text, err := os.ReadFile(filepath.Join(root, "scripts", script))
		if err != nil {
			t.Fatal(err)
		}
		found := list.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Fatalf("scripts/%s has no list of tests", script)
		}
		for _, one := range found {
			for line := range strings.Lines(string(one[1])) {
				if strings.HasPrefix(strings.TrimSpace(line), "#") {
					continue
				}
				for name := range strings.FieldsSeq(line) {
					if n := known[name]; n == 0 || n > 1 && script == "test.sh" {
						t.Errorf("scripts/%s names Test%s, which %d packages have, and not one", script, name, n)
					}
				}
			}
		}
	}
}
