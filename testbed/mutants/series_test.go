package mutants

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// catchable is noticed by a test of payment, harmless by nothing.
var (
	catchable = Mutant{
		Name: "catchable", Guard: "g", Catcher: Catcher{Package: "./payment", Test: "TestWordLists"},
		Edits: []Edit{{File: "payment/doc.go", Old: "\npackage payment\n",
			New: "\npackage payment\n\nfunc init() { panic(\"no guard\") }\n"}},
	}
	harmless = Mutant{
		Name: "harmless", Guard: "g", Catcher: Catcher{Package: "./payment", Test: "TestWordLists|TestOneOfThem"},
		Edits: []Edit{{File: "payment/currency.go", Old: "package payment\n",
			New: "package payment\n\n// Nothing is gone.\n"}},
	}
)

// TestSeries checks that a series continues where it was interrupted: a mutant that was caught in
// this very tree is not tried again, one that was missed is.
func TestSeries(t *testing.T) {
	dir := t.TempDir()
	run := func(want string, lines ...string) {
		t.Helper()
		evidence, err := OpenEvidence(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer evidence.Close()
		var said strings.Builder
		total, err := Series{Root: root, Mutants: []Mutant{catchable, harmless}, Lanes: 1, Evidence: evidence,
			Out: &said}.Run(t.Context())
		if err != nil || total.String() != want {
			t.Errorf("%v, %v; want %s\n%s", total, err, want, said.String())
		}
		for _, line := range lines {
			if !strings.Contains(said.String(), line) {
				t.Errorf("it does not say %q:\n%s", line, said.String())
			}
		}
	}
	run("mutants=2 caught=1 missed=1", "[1/2] caught catchable", "panic: no guard",
		"[2/2] MISSED harmless: "+ErrMissed.Error())
	run("mutants=2 caught=1 missed=1", "[1/2] caught catchable", "(with this code, at ", "[2/2] MISSED harmless")
}

// TestLanes checks that each lane has a server, and that one server of the caller's is not shared.
func TestLanes(t *testing.T) {
	t.Setenv(pgserver.EnvURL, "postgres://nowhere/postgres")
	s := Series{Root: root, Mutants: []Mutant{catchable, harmless}, Lanes: 2, Out: &strings.Builder{}}
	if _, err := s.Run(t.Context()); !errors.Is(err, errOneServer) {
		t.Errorf("two lanes on one server: %v", err)
	}
	t.Setenv(pgserver.EnvURL, "")
	// The test's own folder does not serve: a server may run under another account, which has to
	// enter it.
	var err error
	if s.TempRoot, err = os.MkdirTemp("", "lanes-"); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(s.TempRoot)
	if err := os.Chmod(s.TempRoot, 0o755); err != nil {
		t.Fatal(err)
	}
	total, err := s.Run(t.Context())
	if err != nil || total.String() != "mutants=2 caught=1 missed=1" {
		t.Errorf("%v, %v", total, err)
	}
	if left, err := os.ReadDir(s.TempRoot); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDigestOfATree checks that the digest changes with files that can affect a catcher, and with
// no others.
func TestDigestOfATree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest := func(file, text string) string {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		sum, err := digestOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := digest("ledger/sql/claim.sql", "SELECT 1")
	for file, changes := range map[string]bool{
		"ledger/sql/claim.sql": true, "docs/page.md": false, List: false, "build/bin/x": false, ".git/HEAD": false,
	} {
		if now := digest(file, "other"); (now != first) != changes {
			t.Errorf("a change of %s: %s after %s", file, now, first)
		}
		first = digest(file, "again")
	}
	one, other := catchable, catchable
	other.Edits = harmless.Edits
	if keyOf(first, one) == keyOf(first, other) || keyOf(first, one) == keyOf("", one) {
		t.Error("mutants of other trees or with other edits share a key")
	}
}

// TestKeysFollowWhatACatcherSees checks that a catcher of a narrow package depends on what it
// imports, and every other one on the whole tree.
func TestKeysFollowWhatACatcherSees(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n", "go.sum": "", "guard.txt": "guard",
		"payment/payment.go":      "package payment\n",
		"payment/payment_test.go": "package payment_test\n\nimport _ \"example.com/m/support\"\n",
		"payment/testdata/a.json": "{}", "payment/sub/sub.go": "package sub\n",
		"support/support.go": "package support\n", "cmd/main.go": "package main\n\nfunc main() {}\n",
	} {
		write(file, text)
	}
	keys := func() [3]string {
		t.Helper()
		seen, err := newDigests(dir)
		if err != nil {
			t.Fatal(err)
		}
		var all [3]string
		for i, catcher := range []Catcher{{Package: "./payment", Test: "T"}, {Package: "./cmd", Test: "T"}, {Fault: "f"}} {
			m := Mutant{Name: "m", Edits: []Edit{{File: "guard.txt", Old: "guard", New: ""}}, Catcher: catcher}
			if all[i], err = seen.key(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	was := keys()
	for _, change := range []struct {
		file string
		seen bool
	}{
		{"payment/payment.go", true}, {"payment/payment_test.go", true}, {"payment/testdata/a.json", true},
		{"support/support.go", true}, {"guard.txt", true}, {"go.sum", true},
		{"payment/sub/sub.go", false}, {"cmd/main.go", false},
	} {
		text, err := os.ReadFile(filepath.Join(dir, change.file))
		if err != nil {
			t.Fatal(err)
		}
		write(change.file, string(text)+"\n")
		now := keys()
		if (now[0] != was[0]) != change.seen || now[1] == was[1] || now[2] == was[2] {
			t.Errorf("after a change of %s the keys are %v, before %v", change.file, now, was)
		}
		was = now
	}
}

// elsewhere are texts in tests of narrow packages that look like files of another folder, each with what it is.
var elsewhere = map[string]string{
	"../x":             "a path for a bank",
	"go":               "the language of an example",
	"../build/clients": "the clients in other languages, for examples of a document",
}

// TestNarrowPackagesSeeTheirImportsAlone: a test of a narrow package that read a file of another folder, or started a
// program of the tree, would depend on more than its key has.
func TestNarrowPackagesSeeTheirImportsAlone(t *testing.T) {
	t.Parallel()
	outside := regexp.MustCompile(`^\.\./`)
	used := make(map[string]bool)
	for _, pkg := range narrow {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", pkg, err)
		}
		for _, file := range files {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(syntax, func(node ast.Node) bool {
				literal, ok := node.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				said, err := strconv.Unquote(literal.Value)
				switch {
				case err != nil:
					t.Fatal(err)
				case elsewhere[said] != "":
					used[said] = true
				case said == "go", said == "git", outside.MatchString(said) && !strings.HasSuffix(said, ".md"):
					t.Errorf("%s has %q: it is not narrow, or that is no file, and belongs to the list elsewhere", file, said)
				}
				return true
			})
		}
	}
	for said := range elsewhere {
		if !used[said] {
			t.Errorf("the list elsewhere has %q, which no test has", said)
		}
	}
}

// TestByCatcher checks that the mutants of a catcher stay together, that faults come first, and Go
// before SQL.
func TestByCatcher(t *testing.T) {
	t.Parallel()
	a, b := Catcher{Package: "./a", Test: "T"}, Catcher{Package: "./b", Test: "T"}
	ofGo, ofSQL := []Edit{{File: "ledger/x.go"}}, []Edit{{File: "ledger/sql/x.sql"}}
	var names []string
	for _, job := range byCatcher([]Mutant{
		{Name: "1", Catcher: b, Edits: ofGo}, {Name: "2", Catcher: a, Edits: ofSQL}, {Name: "3", Catcher: Catcher{Fault: "f"}, Edits: ofGo},
		{Name: "4", Catcher: b, Edits: ofGo}, {Name: "5", Catcher: Catcher{Fault: "g", Seeds: 3}, Edits: ofGo}, {Name: "6", Catcher: a, Edits: ofGo},
	}) {
		for _, m := range job {
			names = append(names, m.Name)
		}
	}
	if got := strings.Join(names, " "); got != "5 3 6 2 1 4" {
		t.Errorf("in the order %s", got)
	}
}
