package faults

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nemesisSeeds are the seeds of runs that found something, and one to begin with.
var nemesisSeeds = []uint64{1}

// TestNemesis mixes the faults for a few seconds. `make nemesis` makes the long run.
func TestNemesis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: make test LONG=1 and make nemesis play it")
	}
	built, err := Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range nemesisSeeds {
		var log strings.Builder
		report, err := Nemesis{Seed: seed, Lasting: 8 * time.Second, PerSec: 15, Relayers: 2, Reapers: 2}.Run(t.Context(),
			built, &log)
		if err != nil || !report.Good() {
			t.Errorf("%v\n%s\n%s\n%q\n%s\nits folder: %s", err, log.String(), report.Report, report.Verdict.Broken,
				report.Error, report.Folder)
		}
		if report.Payments < 30 || report.Injected < 2 {
			t.Errorf("%s: too little to tell anything", report)
		}
		t.Log(report)
	}
}

// TestDeck checks that the deck holds every blow as many times as its weight says.
func TestDeck(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for _, each := range deckOf(blows()) {
		seen[each.name]++
	}
	for _, each := range blows() {
		if each.weight < 1 || seen[each.name] != each.weight {
			t.Errorf("%q is %d times in the deck, want %d", each.name, seen[each.name], each.weight)
		}
	}
}
