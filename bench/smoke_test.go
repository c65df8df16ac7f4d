package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// tiny returns a size that is enough to run every line of the benchmark, but not for a figure.
func tiny() size {
	return size{
		drain: 300, e2e: 100, slow: 60, enqueue: 400, latency: 200 * time.Millisecond, churn: 1500,
		sessions: []int{1, 2, 3}, archives: []int{0, 2000}, scaled: 300, deaths: 1, flush: 50 * time.Microsecond,
		steady: 2 * time.Second, streams: 20, cores: 1,
	}
}

// runTiny runs one round and reads the file that it wrote. Node is left out: it would have to be
// installed from the network.
func runTiny(t *testing.T, o options) results {
	t.Helper()
	o.rounds, o.size, o.whole = 1, tiny(), true
	if o.systems = []string{"railhead", "river", "floor"}; o.modes == nil {
		o.modes = modeNames()
	}
	o.out = filepath.Join(t.TempDir(), "figures.json")
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	var kept results
	if err := json.Unmarshal(raw, &kept); err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestCommonModesRun is the short form of TestEveryModeRuns.
func TestCommonModesRun(t *testing.T) {
	kept := runTiny(t, options{modes: []string{"drain", "latency", "order"}})
	for _, each := range []struct{ system, mode string }{
		{"railhead", "drain"}, {"river", "drain"}, {"floor", "latency p99"}, {"railhead", "drain STRICT"},
		{"railhead", "drain CPU"}, {"railhead", "drain WAL"},
	} {
		if row, ok := kept.row(each.system, each.mode); !ok || row.Median <= 0 {
			t.Errorf("%s of %s is %v, want a figure", each.mode, each.system, row.Median)
		}
	}
}

func TestEveryModeRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("short: make test LONG=1 and make bench-smoke run them")
	}
	kept := runTiny(t, options{})
	for _, each := range []struct{ system, mode string }{
		{"railhead", "drain"}, {"river", "e2e WAL"}, {"floor", "latency p99"}, {"railhead", "held CPU"}, {"river", "held drain"},
		{"railhead", "enqueue hot"}, {"floor", "enqueue batch"}, {"railhead", "two relayers"}, {"railhead", "one waits"}, {"railhead", "no streams"}, {"railhead", "streams"}, {"railhead", "streams memory"}, {"railhead", "http of 256"}, {"railhead", "http of 8 own CPU"}, {"railhead", "lanes p99"}, {"railhead", "drain STRICT"}, {"railhead", "STRICT blocked p99"},
		{"railhead", "drain on 1"}, {"railhead", "e2e on 1"},
		// Package against reads these.
		{"railhead", "drain CPU"}, {"railhead", "drain WAL"}, {"railhead", "enqueue free CPU"}, {"railhead", "enqueue free WAL"},
	} {
		if row, ok := kept.row(each.system, each.mode); !ok || row.Median <= 0 {
			t.Errorf("%s of %s is %v, want a figure", each.mode, each.system, row.Median)
		}
	}
	for _, target := range kept.Targets {
		if target.Ratio <= 0 && !slices.Contains(kept.NotRun, "not run: mode slow: no cc to build the shim with") {
			t.Errorf("%s was not measured", target.Mode)
		}
	}
	if want := len(targets()); len(kept.Targets) != want {
		t.Errorf("%d targets are judged, want %d", len(kept.Targets), want)
	}
}

func TestEverySizeOfArchiveRuns(t *testing.T) {
	kept := runTiny(t, options{scale: true})
	for _, mode := range slices.Sorted(maps.Keys(scaleModes)) {
		row, ok := kept.row("railhead", scaledMode(mode, 2000))
		if !ok || row.RatioSelf == nil {
			t.Errorf("%s is not compared with no archive", mode)
		}
	}
}
