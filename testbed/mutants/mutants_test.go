package mutants

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// TestListApplies checks that every edit finds its text exactly once in the tree as it is, and can
// be reverted.
func TestListApplies(t *testing.T) {
	t.Parallel()
	all, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 12 {
		t.Errorf("%d mutants, want at least 12", len(all))
	}
	dir := t.TempDir()
	if err := copyTree(root, dir); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		undo, err := m.apply(dir)
		if err := errors.Join(err, undo()); err != nil {
			t.Error(err)
		}
		for _, edit := range m.Edits {
			was, err1 := os.ReadFile(filepath.Join(root, edit.File))
			is, err2 := os.ReadFile(filepath.Join(dir, edit.File))
			if err := errors.Join(err1, err2); err != nil || string(was) != string(is) {
				t.Errorf("%s leaves %s changed (%v)", m.Name, edit.File, err)
			}
		}
	}
}

// TestCheapMutantsAreCaught removes a few guards for real. `make mutants` removes all of them.
func TestCheapMutantsAreCaught(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: make test LONG=1 and make mutants remove them")
	}
	all, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	bench, err := NewBench(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	for _, m := range all {
		if !m.Cheap {
			continue
		}
		how, err := bench.Catch(t.Context(), m)
		if err != nil {
			t.Error(err)
		}
		t.Log(m.Name, how.Reason)
		caught++
	}
	if caught == 0 {
		t.Error("no mutant is cheap")
	}
}

// TestBenchFindsWhatIsMissed checks that a mutant that nothing notices, one that no longer
// applies, one that does not compile and a missing catcher are errors.
func TestBenchFindsWhatIsMissed(t *testing.T) {
	t.Parallel()
	bench, err := NewBench(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	edit := Edit{File: "payment/currency.go", Old: "package payment\n", New: "package payment\n\n// Nothing is gone.\n"}
	catcher := Catcher{Package: "./payment", Test: "TestWordLists"}
	for _, one := range []struct {
		name   string
		mutant Mutant
		says   string
	}{
		{"missed", Mutant{Name: "m", Edits: []Edit{edit}, Catcher: catcher}, ErrMissed.Error()},
		{"outdated", Mutant{Name: "m", Edits: []Edit{{File: edit.File, Old: "never there", New: "x"}}, Catcher: catcher}, "0 times"},
		{"broken", Mutant{Name: "m", Edits: []Edit{{File: edit.File, Old: edit.Old, New: "package other\n"}}, Catcher: catcher}, "does not compile"},
		{"no such test", Mutant{Name: "m", Edits: []Edit{edit}, Catcher: Catcher{Package: "./payment", Test: "TestOfNothing"}}, "no such test"},
	} {
		if _, err := bench.Catch(t.Context(), one.mutant); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, want %q", one.name, err, one.says)
		}
	}
}

func TestListIsChecked(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ text, says string }{
		{"- mutant: A", "no name"},
		{"- mutant: some\n  guard: g", "needs a guard and edits"},
		{"- mutant: some\n  guard: g\n  edits: [{file: a, old: x, new: y}]", "catcher"},
		{"- mutant: some\n  guard: g\n  edits: [{file: a, old: x, new: x}]\n  catcher: {fault: f}", "changes nothing"},
		{"- mutant: some\n  guard: g\n  edits: [{file: ../a, old: x, new: y}]\n  catcher: {fault: f}", "changes nothing"},
		{"- misspelt: some", "misspelt"},
	} {
		if _, err := parse([]byte(one.text)); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%q: %v, want %q", one.text, err, one.says)
		}
	}
}

func TestModuleOf(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ pkg, folder, within string }{
		{"./ledger", ".", "./ledger"}, {"./proofs", ".", "./proofs"}, {"./testbed/model", "testbed", "./model"}, {"testbed/cmd/testbed/", "testbed", "./cmd/testbed"},
		{"./testbedding", ".", "./testbedding"},
	} {
		if folder, within := moduleOf(one.pkg); folder != one.folder || within != one.within {
			t.Errorf("%s is %s in %s, want %s in %s", one.pkg, within, folder, one.within, one.folder)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ output, want string }{
		{"run: {Fault:x}\nBAD  x seed=1\n     the bank executed i1 2 times\n     logs and ledgers: /tmp/x\n", "the bank executed i1 2 times"},
		{"BAD  x seed=1 hit=0\n     the fault was never hit\n     logs and ledgers: /tmp/x\nexit status 8\n", ""},
		{"--- FAIL: TestX\nhalf a line\n    x_test.go:7: got 1, want 2\nFAIL\n", "x_test.go:7: got 1, want 2"},
		{"    x_test.go:7: [rapid] failed after 3 tests\npanic: out of range\n", "panic: out of range"},
	} {
		if got := reason(one.output); got != one.want {
			t.Errorf("%q: %q, want %q", one.output, got, one.want)
		}
	}
}
