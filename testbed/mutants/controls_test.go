package mutants

import (
	"fmt"
	"testing"
)

// TestTogether checks that the controls of a package run as one, those of each tree separately,
// and that a single one, a fault, and a pattern with brackets do not.
func TestTogether(t *testing.T) {
	t.Parallel()
	goEdit, sqlEdit := []Edit{{File: "ledger/x.go"}}, []Edit{{File: "ledger/sql/x.sql"}}
	groups := together([]Mutant{
		{Edits: goEdit, Catcher: Catcher{Package: "./a", Test: "TestOne"}},
		{Edits: goEdit, Catcher: Catcher{Package: "./a", Test: "TestOne"}},
		{Edits: goEdit, Catcher: Catcher{Package: "./a", Test: "TestTwo/x"}},
		{Edits: goEdit, Catcher: Catcher{Package: "./a", Test: "Test(Three|Four)"}},
		{Edits: sqlEdit, Catcher: Catcher{Package: "./a", Test: "TestOne"}},
		{Edits: goEdit, Catcher: Catcher{Package: "./b", Test: "TestOne"}},
		{Edits: goEdit, Catcher: Catcher{Fault: "f"}},
	})
	if len(groups) != 1 || len(groups[0]) != 2 || groups[0][0].catcher.Test != "TestOne" ||
		groups[0][1].catcher.Test != "TestTwo/x" || groups[0][0].read {
		t.Errorf("together are %+v", groups)
	}
}

// TestTogetherIsBounded checks that many catchers of a package run in several processes, each in
// one.
func TestTogetherIsBounded(t *testing.T) {
	t.Parallel()
	var mutants []Mutant
	for n := range 2*controlsAtOnce + 5 {
		mutants = append(mutants, Mutant{Catcher: Catcher{Package: "./a", Test: fmt.Sprintf("Test%d", n)}})
	}
	seen := make(map[control]int)
	groups := together(mutants)
	for _, group := range groups {
		if len(group) > controlsAtOnce {
			t.Errorf("%d run in one process", len(group))
		}
		for _, one := range group {
			seen[one]++
		}
	}
	if len(groups) != 3 || len(seen) != len(mutants) {
		t.Errorf("%d processes control %d of %d catchers", len(groups), len(seen), len(mutants))
	}
}

func TestIsAmong(t *testing.T) {
	t.Parallel()
	tests := []string{"TestOne", "TestTwo", "TestTwo/slots", "TestTwo/slots/come"}
	for pattern, want := range map[string]bool{
		"TestOne": true, "TestTwo/slots": true, "TestTwo/slots/come|TestOne": true, "One": true,
		"TestThree": false, "TestOne/slots": false, "TestOne|TestThree": false, "TestTwo/come": false, "slots": false,
	} {
		if got := (Catcher{Test: pattern}).isAmong(tests); got != want {
			t.Errorf("%s: %t", pattern, got)
		}
	}
}

// TestControlTogether counts the catchers that ran, and none where one fails.
func TestControlTogether(t *testing.T) {
	t.Parallel()
	bench, err := NewBench(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one := control{catcher: Catcher{Package: "./payment", Test: "TestWordLists"}}
	none := control{catcher: Catcher{Package: "./payment", Test: "TestOfNothing"}}
	if err := bench.controlTogether(t.Context(), []control{one, none}); err != nil {
		t.Fatal(err)
	}
	if !bench.controls.has(one) || bench.controls.has(none) {
		t.Errorf("one that passed counts: %t, one that is not there: %t", bench.controls.has(one), bench.controls.has(none))
	}
	failing := Mutant{Edits: catchable.Edits}
	undo, err := failing.apply(bench.built.root)
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	bench.built.programs, bench.controls = map[string]string{}, newControls()
	if err := bench.controlTogether(t.Context(), []control{one, none}); err == nil || bench.controls.has(one) {
		t.Errorf("where a test fails: %v, and it counts: %t", err, bench.controls.has(one))
	}
}
