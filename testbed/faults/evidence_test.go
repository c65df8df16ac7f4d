package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ran returns the report of a good run, and unhit and doubled those of bad ones. All are
// of one fault and seed; the digest distinguishes this build from an earlier one.
func ran(digest string) Report { return Report{Fault: "x", Seed: 7, Digest: digest, Hit: 2} }

func unhit(digest string) Report { return Report{Fault: "x", Seed: 7, Digest: digest} }

func doubled(digest string) Report {
	return Report{Fault: "x", Seed: 7, Digest: digest, Hit: 1,
		Verdict: Verdict{Doubled: 1, Broken: []string{"executed twice"}}}
}

const now, earlier = "now", "earlier"

// TestStanding checks which runs the evidence makes unnecessary, and which run counts.
func TestStanding(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name  string
		runs  []Report
		reach Reach
		want  string // the digest of the run that counts; "": it is to be made
		bad   bool
		past  int // runs that are reported as bad
	}{
		{"nothing", nil, AnyBuild, "", false, 0},
		{"good", []Report{ran(now)}, ThisBuild, now, false, 0},
		{"not hit", []Report{unhit(now)}, ThisBuild, "", false, 1},
		{"not hit, then good", []Report{unhit(now), ran(now)}, ThisBuild, now, false, 1},
		{"good, then not hit", []Report{ran(now), unhit(now)}, ThisBuild, now, false, 1},
		{"doubled stays", []Report{doubled(now), ran(now)}, ThisBuild, now, true, 1},
		{"doubled later", []Report{ran(now), doubled(now)}, AnyBuild, now, true, 1},
		{"of another build", []Report{ran(earlier)}, ThisBuild, "", false, 0},
		{"of another build, bad", []Report{doubled(earlier), ran(now)}, ThisBuild, now, false, 0},
		{"of any build", []Report{ran(earlier)}, AnyBuild, earlier, false, 0},
		{"this build before another", []Report{ran(now), ran(earlier)}, AnyBuild, now, false, 0},
		{"bad on another build", []Report{doubled(earlier)}, AnyBuild, "", false, 1},
		{"bad on another build, good on that", []Report{doubled(earlier), ran(earlier)}, AnyBuild, "", false, 1},
		{"bad on another build, good on a third", []Report{unhit(earlier), ran("between")}, AnyBuild, "", false, 1},
		{"bad on another build, good on this", []Report{doubled(earlier), ran(now)}, AnyBuild, now, false, 1},
		{"not hit on this build, good on another", []Report{ran(earlier), unhit(now)}, AnyBuild, "", false, 1},
		{"another seed", []Report{{Fault: "x", Seed: 8, Digest: now, Hit: 1}}, AnyBuild, "", false, 0},
	} {
		evidence := reopened(t, one.runs, "")
		report, ok := evidence.Standing("x", 7, now, one.reach)
		if report.Digest != one.want || ok != (one.want != "") || ok && report.Good() == one.bad {
			t.Errorf("%s: %v %+v, want the run of %q", one.name, ok, report, one.want)
		}
		if past := evidence.Bad("x", 7, now, one.reach); len(past) != one.past {
			t.Errorf("%s: tells of %d runs that went badly, want %d", one.name, len(past), one.past)
		}
	}
}

// TestTornLine checks that a line that was cut off while it was written spoils no other
// line.
func TestTornLine(t *testing.T) {
	t.Parallel()
	evidence := reopened(t, []Report{ran(now)}, `{"fault": "x", "se`)
	if err := evidence.Add(Report{Fault: "x", Seed: 8, Digest: now, Hit: 1}); err != nil {
		t.Fatal(err)
	}
	for _, seed := range []uint64{7, 8} {
		if _, ok := evidence.Standing("x", seed, now, ThisBuild); !ok {
			t.Errorf("the run of seed %d is forgotten", seed)
		}
	}
}

// TestSeriesGoesByTheEvidence checks that a series makes no run that the evidence has,
// adds the runs of the evidence to the sum with their builds, and reports those that went
// badly.
func TestSeriesGoesByTheEvidence(t *testing.T) {
	t.Parallel()
	second := ran(earlier)
	second.Seed = 8
	third := doubled(now)
	third.Seed = 9
	var out strings.Builder
	series := Series{
		Faults: []Fault{{Name: "x"}}, Seeds: []uint64{7, 8, 9}, Built: Binaries{Digest: now}, Reach: AnyBuild, Lanes: 1,
		Out:      &out,
		Evidence: reopened(t, []Report{unhit(earlier), ran(now), second, third}, ""),
	}
	total, err := series.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := total.String(), "faults: run=3 seeds=3 injected=0 hit=5 lost=0 doubled=1 false=0"; got != want ||
		total.Bad != 1 {
		t.Errorf("%s, %d bad, want %s", got, total.Bad, want)
	}
	if got, want := total.Origin(), "faults: builds=2 this_build=2 repeated=1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		said = append(said, strings.Fields(line)[0])
	}
	if !slices.Contains(said, "past") || !slices.Contains(said, "BAD") || slices.Contains(said, "good") {
		t.Errorf("said\n%s", out.String())
	}
}

// reopened returns the evidence of these runs, as another process finds it.
func reopened(t *testing.T, runs []Report, torn string) *Evidence {
	t.Helper()
	dir := t.TempDir()
	evidence, err := OpenEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range runs {
		if err := evidence.Add(report); err != nil {
			t.Fatal(err)
		}
	}
	if err := evidence.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "runs.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, torn...), 0o644); err != nil {
		t.Fatal(err)
	}
	if evidence, err = OpenEvidence(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { evidence.Close() })
	return evidence
}
