package schedule

import (
	"maps"
	"slices"
)

// fairness throttles participants that fill a lane, so that others wait only behind
// each other.
//
// Rows of a lane are claimed by due time. A participant that enqueues 50,000 at once
// comes before all that enqueue after it, for as long as the rail takes for 50,000.
// So while a lane has more due than it can take, the claims are counted by
// participant, and one that makes up more than one in noisyShare of them is
// throttled: within each priority the others come first, with all of a claim but one
// slot in throttledEvery, which are for the throttled, together with what the others
// leave. So a noisy participant goes on at a quarter of the rate or more. Priorities
// are not touched: its urgent rows come before normal ones of all participants, the
// oldest share aside.
//
// A lane that can take all that is due throttles no participant, and pays nothing
// for this; with one, a claim is two scans of the same index instead of one.
type fairness struct {
	throttled []string
	counts    map[string]int // claims by participant
	counted   int            // their sum
}

const (
	fairnessWindow = 256 // claims that are counted before the counts are halved
	fairnessSample = 16  // fewer claims throttle no participant
	noisyShare     = 8
	throttledMax   = 8
	throttledEvery = 4
)

// learn counts a full claim, made while these were throttled, and reports whether
// another participant is throttled from now on.
func (f *fairness) learn(got taken, throttled []string) bool {
	if f.counts == nil {
		f.counts = make(map[string]int)
	}
	for participant, n := range got.participants {
		if !slices.Contains(throttled, participant) {
			f.counts[participant] += n
			f.counted += n
		}
	}
	changed := false
	if f.counted >= fairnessSample {
		for _, participant := range slices.Sorted(maps.Keys(f.counts)) {
			if len(f.throttled) < throttledMax && f.counts[participant]*noisyShare > f.counted && !slices.Contains(f.throttled, participant) {
				f.throttled = append(f.throttled, participant)
				changed = true
			}
		}
	}
	if f.counted >= fairnessWindow {
		f.halve()
	}
	return changed
}

// halve gives earlier counts less weight, and bounds how many there are.
func (f *fairness) halve() {
	f.counted = 0
	for participant, n := range f.counts {
		f.counts[participant] = n / 2
		f.counted += n / 2
	}
	maps.DeleteFunc(f.counts, func(_ string, n int) bool { return n == 0 })
}

// throttledShare is how many of a claim's slots are for throttled participants before
// the others have more: one in throttledEvery, over the turns where there are fewer.
func throttledShare(free, turn int) int {
	share := free / throttledEvery
	if turn%throttledEvery < free%throttledEvery {
		share++
	}
	return share
}
