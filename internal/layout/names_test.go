package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// nameInDoc finds variables, metrics, roles, tables, columns and functions in a page.
	nameInDoc = regexp.MustCompile(`\b(?:RAILHEAD|PGRUN|TEST)_[A-Z0-9_]+\b|\b(?:railhead|payment|participant|outbox|supervisor|enqueue|v)_[a-z0-9_]+\b`)
	anyName   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+`)
)

// ofCell is a variable of one of the cells that pages take for examples.
var ofCell = regexp.MustCompile(`^(RAILHEAD_[A-Z_]+)_(EAST|WEST|NORTH)$`)

// TestNamesInDocsExist finds a metric, column, table, function, role or variable that a page names and no source has.
func TestNamesInDocsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var pages []string
	walk(t, func(file string) {
		if strings.HasSuffix(file, ".md") {
			pages = append(pages, file)
			return
		}
		switch filepath.Ext(file) {
		case ".go", ".sql", ".yaml", ".yml", ".sh", ".js", ".ts", ".json", ".tmpl", ".mod", "":
		default:
			return
		}
		if file == "internal/layout/names_test.go" || strings.Contains(file, "node_modules/") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range anyName.FindAllString(string(text), -1) {
			known[name] = true
		}
	})
	if len(pages) < 40 || len(known) < 2000 {
		t.Fatalf("%d pages and %d names were seen: the rule looks at nothing", len(pages), len(known))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, name := range nameInDoc.FindAllString(line, -1) {
				if !known[name] && !known[ofCell.ReplaceAllString(name, "$1")] && !strings.HasSuffix(name, "_") {
					t.Errorf("%s:%d: %s is in no source", page, n+1, name)
				}
			}
		}
	}
}
