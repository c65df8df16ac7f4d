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
	// recorded is set if the database has these refusals: it has those of sends alone.
	recorded bool
	passed   time.Time // when the latest call began that got an answer about a payment; zero: none did
	passes   passes    // of such calls
	// since is when the rail was paused or resumed; zero: it was not. A refusal of a call that began
	// before proves nothing about the rail of now.
	since  time.Time
	inRow  int
	of     map[payment.ID]bool // the instructions refused in a row, up to the number that matters
	known  map[payment.ID]turnedAway
	oldest []payment.ID // the keys of known, oldest first
}

// turnedAway is what is remembered of an instruction that the rail refused.
type turnedAway struct {
	first time.Time // its first refusal
	// since is when others first passed after that, and after the last pause; count is its refusals since.
	since time.Time
	count int
	// recorded is how many refusals the database has with its latest one. If it has fewer later, an operator has replayed
	// the instruction since.
	recorded int
}

// Refusal is what a refusal of our credentials, route or form is about. The zero value: it may be
// about the rail, and proves nothing yet.
type Refusal struct {
	// OthersPass is set if the rail has accepted such calls for others since it first refused the
	// instruction, or since the call began: it does not refuse all of them.
	OthersPass bool
	// OfOne is set if, in addition, it has refused the instruction as often as the profile tolerates.
	// The refusals of before others passed count as one, and those of before a pause as none.
	OfOne bool
	// RailRefuses is set if the rail refused as many such calls in a row, of as many instructions, as
	// the profile tolerates.
	RailRefuses bool
}

// refusalsMax bounds the instructions that are remembered. Beyond it the oldest are dropped: what counts
// of their refusals is then found from those that the database has.
const refusalsMax = 1024

func newRefusals(policy payment.RailRefusedPolicy, recorded bool) refusals {
	return refusals{
		policy: policy, recorded: recorded, of: make(map[payment.ID]bool), known: make(map[payment.ID]turnedAway),
	}
}

// answered records that the rail accepted a call of ours that began at this time.
func (r *refusals) answered(begun time.Time) {
	if begun.After(r.passed) {
		r.passed = begun
		r.passes.add(begun)
	}
	r.endRow()
}

// anew begins a new row, of calls that begin from now on.
func (r *refusals) anew(now time.Time) {
	r.since = now
	r.endRow()
}

func (r *refusals) endRow() {
	r.inRow = 0
	clear(r.of)
}

// refused records a refusal of one instruction, in answer to a call that began at this time. The
// database has the earlier refusals of before in order, those of other processes included. If the
// rail refuses us, a new row begins.
func (r *refusals) refused(id payment.ID, before []time.Time, begun, now time.Time) Refusal {
	meanwhile := begun.Before(r.passed) // others passed during the call: on a busy rail it is always so
	switch {
	case begun.Before(r.since) && meanwhile:
		return Refusal{OthersPass: true}
	case begun.Before(r.since):
		return Refusal{}
	}
	one := r.known[id]
	if r.recorded && len(before) < one.recorded {
		one = turnedAway{} // what was before the replay counts no more, for this process as for all others
	}
	one.recorded = min(len(before)+1, payment.MaxRailRefusals)
	if len(before) > 0 && (one.first.IsZero() || before[0].Before(one.first)) {
		one.first = before[0]
	}
	again := !one.first.IsZero() // a first refusal ends nothing: the rail may refuse all from then on
	passed := meanwhile || again && r.passed.After(one.first)
	if !again {
		one.first = now
	}
	if again && passed {
		r.again(&one, before)
	}
	r.remember(id, one)
	if passed {
		return Refusal{OthersPass: true, OfOne: one.count > 0 && one.count+1 >= r.policy.PerInstruction}
	}
	r.inRow++
	if len(r.of) < r.policy.Instructions {
		r.of[id] = true
	}
	if r.inRow < r.policy.After || len(r.of) < r.policy.Instructions {
		return Refusal{}
	}
	r.anew(now)
	return Refusal{RailRefuses: true}
}

// again counts a refusal after others have passed, and those that the database has. What was
// counted before the last pause of the rail is forgotten: the rail may have refused all.
func (r *refusals) again(one *turnedAway, before []time.Time) {
	if one.since.Before(r.since) {
		one.since, one.count = time.Time{}, 0
	}
	if one.since.IsZero() {
		if !r.passed.After(r.since) {
			return
		}
		from := one.first
		if from.Before(r.since) {
			from = r.since
		}
		one.since = r.passes.after(from, r.passed)
	}
	recorded := 0
	for _, at := range before {
		if at.After(one.since) {
			recorded++
		}
	}
	one.count = max(one.count, recorded) + 1
}

func (r *refusals) remember(id payment.ID, one turnedAway) {
	if _, known := r.known[id]; !known {
		if len(r.oldest) >= refusalsMax {
			delete(r.known, r.oldest[0])
			r.oldest = r.oldest[1:]
		}
		r.oldest = append(r.oldest, id)
	}
	r.known[id] = one
}
