package console

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFormsKeepNoInput: a browser that goes back puts what was ticked and typed into the fields of the page that it
// fetches anew, by their names and places, though that page may be of other payments or of another mark. The attribute
// keeps it from doing so. No form goes without it, no field undoes it, and no form is made or sent in another way.
func TestFormsKeepNoInput(t *testing.T) {
	t.Parallel()
	forms := regexp.MustCompile(`(?is)<form\b[^>]*>`)
	fields := regexp.MustCompile(`(?is)<(?:input|select|textarea|button)\b[^>]*\b(?:autocomplete|form|formmethod)\s*=[^>]*>`)
	otherwise := regexp.MustCompile(`(?i)createElement\(\s*["'` + "`" + `]form|<form\b|hx-(?:post|put|patch|delete|include|vals)\b|\.submit\(|FormData`)
	entries, err := fs.ReadDir(templates, "templates")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, entry := range entries {
		text, err := fs.ReadFile(templates, "templates/"+entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range forms.FindAllString(string(text), -1) {
			if form == `<form method="dialog">` {
				continue // its button closes it, and it has no field
			}
			if found++; !strings.HasSuffix(form, ` autocomplete="off">`) {
				t.Errorf("%s: what was typed comes back into %s", entry.Name(), form)
			}
		}
		for _, field := range fields.FindAllString(string(text), -1) {
			t.Errorf("%s: its form has the word about %s", entry.Name(), field)
		}
		if rest := forms.ReplaceAllString(string(text), ""); otherwise.MatchString(rest) {
			t.Errorf("%s sends what no form has: %q", entry.Name(), otherwise.FindString(rest))
		}
	}
	if found < 14 {
		t.Errorf("only %d forms were read", found)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(sources, "static/console.js") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && otherwise.Match(text) {
			t.Errorf("%s writes a form, which no template has: %q", file, otherwise.Find(text))
		}
	}
}

// TestTicksAreOfOneForm: no two pages of dead letters have a name of a tick in common, nor two suspensions: what a
// browser ticks again by name alone is on no other page.
func TestTicksAreOfOneForm(t *testing.T) {
	t.Parallel()
	one, other := suspensionRow{Since: "2026-11-30T10:00:00Z"}, suspensionRow{Since: "2026-11-30T10:07:00Z"}
	if one.Compared() == other.Compared() {
		t.Errorf("the tick of both suspensions is %q", one.Compared())
	}
	ids := someIDs(1)
	form := url.Values{"reason": {"x"}, "count": {"1"}, "form": {newSecret()}, "id": ids, tickedName(newSecret()): ids}
	if asked, err := orderOf("replay", form); err == nil || len(asked.ids) != 0 {
		t.Errorf("ticks of another page count: %v, %v", asked.ids, err)
	}
}
