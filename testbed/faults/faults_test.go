package faults

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/railsim"
)

// short lists the faults that tell most in the least time. `make faults` runs all of
// them, with many seeds.
var short = []string{
	"kill_relayer_answered", "kill_caller_enqueued", "commit_of_claim_lost_after",
	"answer_lost_after_execution", "poison_rows", "one_key_fifty_callers",
}

// TestFaults injects a few faults into a complete installation with real processes.
func TestFaults(t *testing.T) {
	t.Parallel()
	built, err := Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	series := Series{Seeds: []uint64{1}, Built: built, Lanes: 3, Out: &log}
	names := short
	if testing.Short() {
		names = short[:3]
	}
	for _, name := range names {
		fault, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		series.Faults = append(series.Faults, fault)
	}
	total, err := series.Run(t.Context())
	if err != nil || total.Bad > 0 || total.Runs != len(names) {
		t.Errorf("%v\n%s%s", err, log.String(), total)
	}
	t.Logf("%s%s", log.String(), total)
}

// TestTable checks that every fault has a name of its own that fits on a command line and
// says what it does, and that options follow from fault and seed alone.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, fault := range All() {
		if seen[fault.Name] || !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(fault.Name) || fault.About == "" || fault.Inject == nil {
			t.Errorf("fault %q (%s) is there twice, has a bad name, or does nothing", fault.Name, fault.About)
		}
		seen[fault.Name] = true
		if _, err := Find(fault.Name); err != nil {
			t.Error(err)
		}
	}
	if one, two := Standard("x", 1).draws().Uint64(), Standard("x", 1).draws().Uint64(); one != two {
		t.Error("the same fault and seed draw differently")
	}
	replays := make(map[railsim.Replay]bool)
	for seed := range uint64(len(railsim.Replays())) {
		replays[Standard("x", seed).OnReplay] = true
	}
	if len(replays) != len(railsim.Replays()) {
		t.Errorf("%d seeds in a row draw %d answers to a repeated key", len(railsim.Replays()), len(replays))
	}
	judged := make(map[string]bool)
	for seed := range uint64(2) {
		for _, rail := range Standard("x", seed).judgedRails() {
			judged[rail] = true
		}
	}
	if len(judged) != len(Standard("x", 1).Rails) {
		t.Errorf("two seeds in a row count the slots of %v", judged)
	}
	if Standard("x", 1).draws().Uint64() == Standard("y", 1).draws().Uint64() {
		t.Error("two faults of one seed draw the same")
	}
}

// TestMissed checks that a run counts as missed only where nothing went wrong except that
// its fault was never hit. A missed run is made again.
func TestMissed(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		report Report
		missed bool
	}{
		"never hit":             {Report{}, true},
		"hit":                   {Report{Hit: 1}, false},
		"hit, and broken":       {Report{Hit: 1, Verdict: Verdict{Broken: []string{"a rule"}}}, false},
		"never hit, and broken": {Report{Verdict: Verdict{Broken: []string{"a rule"}}}, false},
		"never hit, and lost":   {Report{Verdict: Verdict{Lost: 1}}, false},
		"could not be made":     {Report{Error: "why"}, false},
	} {
		if got := c.report.missed(); got != c.missed {
			t.Errorf("%s: missed is %t", what, got)
		}
	}
}
