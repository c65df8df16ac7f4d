package ledger

import (
	"maps"
	"slices"
)

// floodWatch notices participants that fill a lane, so that the others' wait does not
// depend on them.
//
// Rows of a lane are claimed by due time. Who enqueues 50,000 at once stands
// before everybody who comes after, for as long as the rail takes for 50,000. So
// while a lane has more due than it can take, the claims are counted by
// participant, and one that makes up more than one in floodShare of them is set
// apart: within each priority the others come first, with all of a claim but one
// slot in apartEvery, which are for those set apart, together with whatever the
// others leave. So others wait only behind each other, and a flood goes on at a
// quarter of the rate or more. Priorities stay what they are: urgent rows of a
// flood come before normal ones of everybody, the oldest's share aside.
//
// A lane that can take all that is due sets no participant apart, and pays
// nothing for this; with one, a claim is two scans of the same index instead of one.
type floodWatch struct {
	apart []string
	seen  map[string]int
	n     int
}

const (
	floodWindow = 256 // claims that are counted before the counts are halved
	floodSample = 16  // fewer claims say nothing
	floodShare  = 8
	apartMost   = 8
	apartEvery  = 4
)

// see counts a full claim, and reports whether another participant is set apart now.
func (f *floodWatch) see(found found, apart []string) bool {
	if f.seen == nil {
		f.seen = make(map[string]int)
	}
	for participant, n := range found.participants {
		if !slices.Contains(apart, participant) {
			f.seen[participant] += n
			f.n += n
		}
	}
	changed := false
	if f.n >= floodSample {
		for _, participant := range slices.Sorted(maps.Keys(f.seen)) {
			if len(f.apart) < apartMost && f.seen[participant]*floodShare > f.n && !slices.Contains(f.apart, participant) {
				f.apart = append(f.apart, participant)
				changed = true
			}
		}
	}
	if f.n >= floodWindow {
		f.halve()
	}
	return changed
}

// halve lets what was counted long ago weigh less, and keeps the counts few.
func (f *floodWatch) halve() {
	f.n = 0
	for participant, n := range f.seen {
		f.seen[participant] = n / 2
		f.n += n / 2
	}
	maps.DeleteFunc(f.seen, func(_ string, n int) bool { return n == 0 })
}

// apartShare is how many of a claim's slots are for those set apart before the
// others have more: one in apartEvery, over the turns where there are fewer.
func apartShare(free, turn int) int {
	share := free / apartEvery
	if turn%apartEvery < free%apartEvery {
		share++
	}
	return share
}
