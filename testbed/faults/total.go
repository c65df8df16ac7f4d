package faults

import "fmt"

// Total adds up runs, one for each fault and seed.
type Total struct {
	Runs, Seeds, Injected, Hit, Lost, Doubled, False, Bad int
	// InWindow counts what was acknowledged within a window that a failover or restore
	// forgot, and is gone.
	InWindow int
	// ThisBuild counts the runs of the programs under test.
	ThisBuild int
	// Repeated counts the runs that went badly at first, and then well.
	Repeated int

	digest string
	builds map[string]bool
}

// newTotal returns an empty Total for a number of seeds; digest is that of the programs
// under test.
func newTotal(seeds int, digest string) Total {
	return Total{Seeds: seeds, digest: digest, builds: make(map[string]bool)}
}

// Add counts one run.
func (t *Total) Add(r Report) {
	t.Runs++
	t.Injected += r.Injected
	t.Hit += r.Hit
	t.Lost += r.Verdict.Lost
	t.InWindow += r.Verdict.LostInWindow
	t.Doubled += r.Verdict.Doubled + r.Verdict.Unexpected
	t.False += r.Verdict.False()
	if !r.Good() {
		t.Bad++
	}
	t.builds[r.Digest] = true
	if r.Digest == t.digest {
		t.ThisBuild++
	}
}

// Origin returns a line that says from how many builds the runs are.
func (t Total) Origin() string {
	return fmt.Sprintf("faults: builds=%d this_build=%d repeated=%d", len(t.builds), t.ThisBuild, t.Repeated)
}

// String returns the line that a series is judged by.
func (t Total) String() string {
	line := fmt.Sprintf("faults: run=%d seeds=%d injected=%d hit=%d lost=%d doubled=%d false=%d",
		t.Runs, t.Seeds, t.Injected, t.Hit, t.Lost, t.Doubled, t.False)
	if t.InWindow > 0 {
		line += fmt.Sprintf(" within_window=%d", t.InWindow)
	}
	return line
}
