package schedule

import (
	"maps"
	"slices"
)

// fairness throttles participants that fill a lane, so that the others wait only for
// each other.
//
// The rows of a lane are claimed by due time. A participant that enqueues 50,000 at once
// comes before all that enqueue after it, until the rail has executed the 50,000. So
// while more rows of a lane are due than it can take, the claims are counted by
// participant. A participant with more than one in noisyShare of them is throttled:
// within each priority the others come first, with all slots but one in throttledEvery.
// Those slots, and the slots that the others do not use, are for the throttled
// participants, which so get at least a quarter of the rate. Priorities are unaffected:
// apart from the oldest share, urgent rows of a throttled participant come before normal
// rows of all participants.
//
// A lane that can take all due rows throttles no participant, at no cost. With throttled
// participants a claim makes two scans of the same index instead of one.
type fairness struct {
	throttled []string
	counts    map[string]int // claims by participant
	counted   int            // their sum
}

const (
	fairnessWindow = 256 // claims after which the counts are halved
	fairnessSample = 16  // with fewer claims no participant is throttled
	noisyShare     = 8
	throttledMax   = 8
	throttledEvery = 4
)

// learn counts a full claim, made with these throttled participants, and reports whether
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
			if len(f.throttled) < throttledMax && f.counts[participant]*noisyShare > f.counted &&
				!slices.Contains(f.throttled, participant) {
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

// halve halves the counts, so that later claims weigh more, and removes those of 0.
func (f *fairness) halve() {
	f.counted = 0
	for participant, n := range f.counts {
		f.counts[participant] = n / 2
		f.counted += n / 2
	}
	maps.DeleteFunc(f.counts, func(_ string, n int) bool { return n == 0 })
}

// throttledShare returns how many slots of a claim are reserved for throttled participants:
// one in throttledEvery, as an average over the turns if there are fewer.
func throttledShare(free, turn int) int {
	share := free / throttledEvery
	if turn%throttledEvery < free%throttledEvery {
		share++
	}
	return share
}
