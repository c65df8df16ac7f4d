package rails

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// refusals distinguishes a rail that refuses us from an instruction that the rail refuses. A
// refusal is about the instruction if others passed since the rail first refused it. Otherwise it
// may be about the rail; enough in a row, of enough instructions, are. The counts belong to a
// process and start anew with each version of the profile: others then have to pass once more.
// Sends and inquiries are counted apart. It is not safe for concurrent use; the guard's lock
// protects it.
type refusals struct {
	policy payment.RailRefusedPolicy
	passed time.Time // of the last answer about a payment; zero: none yet
	inRow  int
	of     map[payment.ID]bool // the instructions refused in a row, up to the number that matters
	first  map[payment.ID]time.Time
	oldest []payment.ID // the keys of first, oldest first
}

// refusalsMax bounds the instructions that are remembered. Beyond it the oldest are dropped, and
// their next refusal counts as the first again.
const refusalsMax = 1024

func newRefusals(policy payment.RailRefusedPolicy) refusals {
	return refusals{policy: policy, of: make(map[payment.ID]bool), first: make(map[payment.ID]time.Time)}
}

// answered records that the rail accepts our calls.
func (r *refusals) answered(now time.Time) {
	r.passed, r.inRow = now, 0
	clear(r.of)
}

// refused records a refusal of one instruction. Its first refusal is the remembered one or, if
// earlier, the one that the database has (zero: none). It reports whether others passed since then,
// and otherwise whether the rail refuses us, which starts a new row.
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
