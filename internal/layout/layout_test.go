// Package layout holds the repository to its own rules: who may import whom, and
// what must not be left in the tree.
package layout

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/railhead-pay/railhead/"

// mayImport lists, for each package tree, the trees of ours that it may import
// outside of its tests. Trees that are not listed may import anything but cmd.
var mayImport = map[string][]string{
	"payment":  {},
	"railsim":  {},
	"outbox":   {"payment"},
	"rails":    {"payment", "outbox", "internal/yamlstrict", "internal/reach"},
	"schedule": {"payment", "outbox"},
	"ledger":   {"payment", "outbox", "schedule", "migrations", "acl", "internal/linger", "internal/engine"},
	"relayer":  {"payment", "outbox", "rails", "schedule", "internal/lineage", "internal/clock", "internal/service"},
	"reaper":   {"payment", "outbox", "rails", "internal/lineage", "internal/clock", "internal/service"},
	"ingest": {"payment", "outbox", "rails", "internal/yamlstrict", "internal/reach", "internal/serving", "internal/lineage",
		"internal/service"},
	"console": {
		"payment", "outbox", "ledger", "rails", "acl", "alerts", "proofs", "internal/explain", "internal/service",
		"internal/tracing",
	},
	"":           {"payment", "outbox", "ledger", "internal/httpclient"}, // package railhead, at the root
	"migrations": {"payment", "outbox", "internal/engine"},
	"acl":        {},
}

// standardOnly are the trees that import nothing of other modules.
var standardOnly = []string{"payment", "outbox", "schedule"}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return
		}
		tree, _, below := strings.Cut(file, "/")
		if !below {
			tree = ""
		}
		seen[tree] = true
		allowed, listed := mayImport[tree]
		for _, imported := range importsOf(t, file) {
			ours, ok := strings.CutPrefix(imported, module)
			if !ok {
				if slices.Contains(standardOnly, tree) && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
					t.Errorf("%s imports %s: of others, %s imports the standard library only", file, imported, tree)
				}
				continue
			}
			other, _, _ := strings.Cut(ours, "/")
			switch {
			case other == "cmd":
				t.Errorf("%s imports %s: no package imports cmd", file, ours)
			case other == tree, !listed:
			case !slices.Contains(allowed, other) && !slices.Contains(allowed, ours) && !isHook(ours):
				t.Errorf("%s imports %s: %s may import only %v", file, ours, tree, allowed)
			}
		}
	})
	for _, tree := range []string{"payment", "outbox", "railsim", "rails", "schedule", "ledger", "relayer", "reaper",
		"migrations", "acl", "", "cmd"} {
		if !seen[tree] {
			t.Errorf("%s has no Go file: the rule looks at nothing", tree)
		}
	}
}

// isHook allows the hooks that crash tests stop a process at, which do nothing in
// any other build, and what every component makes its spans with.
func isHook(ours string) bool { return ours == "internal/faultpoint" || ours == "internal/tracing" }

// TestNothingUnfinished refuses marks of unfinished work.
func TestNothingUnfinished(t *testing.T) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	walk(t, func(file string) {
		switch path.Ext(file) {
		case ".go", ".sql", ".sh", ".yaml", ".yml", ".md":
		default:
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			// One of the marks is a currency code of ISO 4217 too, named in quotes or brackets.
			if found := marks.FindString(line); found != "" && !strings.Contains(line, `"XX`+`X"`) && !strings.Contains(line, "(XX"+"X") {
				t.Errorf("%s:%d: %s", file, n+1, found)
			}
		}
	})
}

const root = "../.."

// walk visits the files of the repository, built and hidden ones aside.
func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "build" || path.Base(name) == "node_modules" || strings.HasPrefix(name, ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		visit(name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	for _, each := range parsed.Imports {
		imports = append(imports, strings.Trim(each.Path.Value, `"`))
	}
	return imports
}

// commitsRead is how many of the last commits are held to the form of a subject.
const commitsRead = 30

// TestCommits: the subjects of the last commits are `area: imperative`, in at most 72 characters. A tree
// without its history, as in an archive, has none to read.
func TestCommits(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("there is no history in this tree")
	}
	log, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "log", "--no-merges",
		fmt.Sprintf("-%d", commitsRead), "--format=%h %s").Output()
	if err != nil {
		t.Fatalf("git log: %v", err)
	}
	form := regexp.MustCompile(`^[a-z][a-z0-9 .,/_-]*: [a-z].*[^.]$`)
	for line := range strings.Lines(string(log)) {
		commit, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !form.MatchString(subject) || utf8.RuneCountInString(subject) > 72 {
			t.Errorf("commit %s: %q has to be `area: imperative` in at most 72 characters", commit, subject)
		}
	}
}
