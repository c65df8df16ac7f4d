package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestListedTestsExist finds a test that scripts name, to run it or to leave it out, and that is gone.
func TestListedTestsExist(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\)`)
	known := map[string]bool{}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(text, -1) {
			known[string(found[1])] = true
		}
	})
	list := regexp.MustCompile(`(?s)\n(?:core|long)=\((.*?)\n\)`)
	for _, script := range []string{"check.sh", "test.sh"} {
		text, err := os.ReadFile(filepath.Join(root, "scripts", script))
		if err != nil {
			t.Fatal(err)
		}
		found := list.FindSubmatch(text)
		if found == nil {
			t.Fatalf("scripts/%s has no list of tests", script)
		}
		for line := range strings.Lines(string(found[1])) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for name := range strings.FieldsSeq(line) {
				if !known[name] {
					t.Errorf("scripts/%s names Test%s, which no package has", script, name)
				}
			}
		}
	}
}
