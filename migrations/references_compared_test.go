package migrations_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rawReference is a comparison of a stored reference as it was stored.
var rawReference = regexp.MustCompile(
	`[a-z_]+[.]rail_reference\s*(=|<>|IN \(|IS (NOT )?DISTINCT FROM)|(=|<>|DISTINCT FROM)\s*[a-z_]+[.]rail_reference|` +
		`->> 'rail_reference'\)?( COLLATE "C")?\s*(=|<>|IN \()`)

// rawReferences are the comparisons by which an index is read, with every form that is looked for; and those of
// references that are stored clean.
var rawReferences = map[string]string{
	"resolve_payment": "a.rail_reference IN (|r.rail_reference =|->> 'rail_reference') COLLATE \"C\" IN (",
	"page_evidence":   "other.rail_reference IN (|->> 'rail_reference') COLLATE \"C\" IN (",
	"page_references": "o.rail_reference =|= a.rail_reference",
}

// TestReferencesAreComparedAsTheyAreSeen: builds of before migration 65 stored a reference as the rail gave it, so that
// two of them are the same if clean_reference says so. A comparison of the columns takes one payment for two.
func TestReferencesAreComparedAsTheyAreSeen(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, folder := range []string{"functions", "views", "../proofs/sql", "../proofs/sql/violations"} {
		files, err := filepath.Glob(folder + "/*.sql")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			text := sqlComment.ReplaceAllString(read(t, file), "")
			seen += strings.Count(text, "clean_reference(")
			allowed := strings.Split(rawReferences[strings.TrimSuffix(filepath.Base(file), ".sql")], "|")
			for _, raw := range rawReference.FindAllString(text, -1) {
				if !containsTrimmed(allowed, raw) {
					t.Errorf("%s compares a reference as it was stored: %q; compare what clean_reference returns", file, raw)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("clean_reference is called %d times", seen)
	}
}

func containsTrimmed(all []string, one string) bool {
	for _, each := range all {
		if each != "" && strings.Join(strings.Fields(each), " ") == strings.Join(strings.Fields(one), " ") {
			return true
		}
	}
	return false
}
