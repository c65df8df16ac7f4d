package rails

import "time"

// passes are moments at which others passed, in order: enough of them to tell when others first passed after
// any earlier moment, with an error of a sixteenth of the time since then, and at least a second. So a hundred
// years need fewer than a thousand.
type passes []time.Time

const (
	passesApart = time.Second // at least, of two moments
	passesShare = 16          // of the age of a moment, that the one after it may be away
)

// add adds a moment after all others, and removes those that are too close for their age.
func (p *passes) add(at time.Time) {
	all := *p
	if len(all) > 0 && at.Sub(all[len(all)-1]) < passesApart {
		return
	}
	all = append(all, at)
	kept := all[:1]
	for n := 1; n < len(all); n++ {
		each := all[n]
		if n == len(all)-1 || all[n+1].Sub(kept[len(kept)-1]) >= at.Sub(each)/passesShare {
			kept = append(kept, each)
		}
	}
	*p = kept
}

// after returns the first moment after another one; latest if there is none.
func (p passes) after(from, latest time.Time) time.Time {
	for _, at := range p {
		if at.After(from) {
			return at
		}
	}
	return latest
}
