package rails

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// refusals tell a rail that refuses us from an instruction that the rail refuses. A
// refusal speaks against the instruction where others passed since the rail first
// refused it; else it may be the rail, and so many in a row of so many instructions
// are. What they remember belongs to a process, and begins anew with each version of
// the profile: others then have to pass once more. Sends and inquiries have one each. Not
// safe for concurrent use; the guard's lock protects it.
type refusals struct {
	policy payment.RailRefusedPolicy
	passed time.Time // of the last answer about a payment; zero: none yet
	inRow  int
	of     map[payment.ID]bool // the instructions of the row, as many as matter
	first  map[payment.ID]time.Time
	oldest []payment.ID // in first, in the order in which they came
}

// refusalsMax bounds the instructions that are remembered. Of more, the oldest are
// forgotten, and count as refused for the first time again.
const refusalsMax = 1024

func newRefusals(policy payment.RailRefusedPolicy) refusals {
	return refusals{policy: policy, of: make(map[payment.ID]bool), first: make(map[payment.ID]time.Time)}
}

// answered notes that the rail takes our calls.
func (r *refusals) answered(now time.Time) {
	r.passed, r.inRow = now, 0
	clear(r.of)
}

// refused notes a refusal of one instruction, whose first is the one that is remembered
// or the one that rows know of (zero: none). It reports whether others passed since
// then, and else whether the rail refuses us, which begins a new row.
func (r *refusals) refused(id payment.ID, first, now time.Time) (othersPass, railRefuses bool) {
	if known, ok := r.first[id]; ok && (first.IsZero() || known.Before(first)) {
		first = known
	}
	if !first.IsZero() && r.passed.After(first) {
		return true, false
	}
	if _, ok := r.first[id]; !ok {
		r.remember(id, now)
	}
	r.inRow++
	if len(r.of) < r.policy.Instructions {
		r.of[id] = true
	}
	if r.inRow < r.policy.After || len(r.of) < r.policy.Instructions {
		return false, false
	}
	r.inRow = 0
	clear(r.of)
	return false, true
}

func (r *refusals) remember(id payment.ID, now time.Time) {
	if len(r.oldest) >= refusalsMax {
		delete(r.first, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
	r.first[id], r.oldest = now, append(r.oldest, id)
}
