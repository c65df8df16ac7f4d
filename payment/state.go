package payment

import "slices"

// State is the state of an instruction as of one row of the archive.
type State string

// The states of outbox_attempt_state, in the order of the lifecycle.
const (
	Dispatching   State = "DISPATCHING"    // claim: the instruction may have reached the rail
	Inquiring     State = "INQUIRING"      // claim: the rail is being asked what became of it
	Dispatched    State = "DISPATCHED"     // the rail executed it, finally; dispatched is not settled
	Accepted      State = "ACCEPTED"       // the rail accepted it, its final answer is to come
	Retryable     State = "RETRYABLE"      // provably not executed, goes back to pending
	Unknown       State = "UNKNOWN"        // no trustworthy answer
	ZombieRequeue State = "ZOMBIE_REQUEUE" // the worker died or stalled; counts as UNKNOWN
	Failed        State = "FAILED"         // provably never executed; a dead letter for an operator
	Parked        State = "PARKED"         // waits for an operator, who brings evidence
	Cancelled     State = "CANCELLED"      // an operator or its caller ended it while no send could have been executed
	Replayed      State = "REPLAYED"       // an operator returned a dead letter to pending
	LateOutcome   State = "LATE_OUTCOME"   // evidence that came after the fence, or by callback
)

// States lists every state, in the order of the enum in the schema.
func States() []State {
	return []State{
		Dispatching, Dispatched, Retryable, Failed, ZombieRequeue,
		Inquiring, Accepted, Unknown, Parked, Cancelled, Replayed, LateOutcome,
	}
}

// IsClaim reports whether a row of this state opens a claim.
func (s State) IsClaim() bool { return s == Dispatching || s == Inquiring }

// IsTerminal reports whether only evidence may follow. FAILED is not terminal: an
// operator may replay it.
func (s State) IsTerminal() bool { return s == Dispatched || s == Cancelled }

// Waits reports whether an instruction whose last row, except LATE_OUTCOME, has this
// state has a row in pending.
func (s State) Waits() bool {
	switch s {
	case Retryable, Accepted, Unknown, ZombieRequeue, Replayed:
		return true
	default:
		return false
	}
}

// HasEnded reports whether a row of this state ends an instruction, until evidence or an
// operator's act changes that. PARKED is not an end.
func (s State) HasEnded() bool { return s == Dispatched || s == Failed || s == Cancelled }

// EndsUnpaid reports whether a row of this state ends an instruction whose payment was
// not made.
func (s State) EndsUnpaid() bool { return s == Failed || s == Cancelled }

// LeavesOpen reports whether a row of this state leaves the send that it answers
// without a final answer.
func (s State) LeavesOpen() bool { return s == Unknown || s == Accepted || s == ZombieRequeue }

// MayReplay reports whether an operator may return an instruction to pending if its last
// row, except LATE_OUTCOME, has this state.
func (s State) MayReplay() bool { return MayFollow(s, Replayed) || MayResolve(s, Replayed) }

// AnswersClaim reports whether a row of this state may be the outcome of a claim.
func (s State) AnswersClaim() bool {
	switch s {
	case Dispatched, Accepted, Retryable, Unknown, ZombieRequeue, Failed, Parked:
		return true
	default:
		return false
	}
}

// start is the state before the first row, in successors.
const start State = ""

// successors is the legal lifecycle, without LATE_OUTCOME: that may follow any row
// and changes nothing by itself. Late evidence about an earlier send can concern an
// instruction that waits after a replay, or that lost its rows in a failover. If the
// send was executed, the instruction is DISPATCHED at once; if it was accepted, an
// inquiry follows; if the rail no longer accepts the key and a send may be lost, it
// is PARKED. All of these must be legal there, or the instruction is sent again.
var successors = map[State][]State{
	start:         {Dispatching, Inquiring, Dispatched, Failed, Parked, Cancelled},
	Dispatching:   {Dispatched, Accepted, Retryable, Unknown, ZombieRequeue, Failed, Parked},
	Inquiring:     {Dispatched, Retryable, Unknown, ZombieRequeue, Failed, Parked},
	Retryable:     {Dispatching, Inquiring, Dispatched, Failed, Parked, Cancelled},
	Accepted:      {Inquiring, Dispatched, Failed, Parked},
	Unknown:       {Dispatching, Inquiring, Dispatched, Failed, Parked},
	ZombieRequeue: {Dispatching, Inquiring, Dispatched, Failed, Parked},
	Parked:        {Dispatched, Failed},
	Failed:        {Replayed},
	Replayed:      {Dispatching, Inquiring, Dispatched, Failed, Parked, Cancelled},
	Dispatched:    {},
	Cancelled:     {},
}

// MayFollow reports whether a row of state next may be appended when last is the
// state of the instruction's last row that is not LATE_OUTCOME; last is empty if
// there is none. It reports false for unknown states.
func MayFollow(last, next State) bool {
	legal, known := successors[last]
	if !known {
		return false
	}
	if next == LateOutcome {
		return true
	}
	return slices.Contains(legal, next)
}

// resolutions are the states that an operator's act may append in addition to
// successors: by evidence, by a replay after the rail's own "not executed", or by the
// request of an inquiry.
var resolutions = map[State][]State{
	Parked:     {Dispatched, Failed, Replayed, Unknown},
	Failed:     {Dispatched},
	Cancelled:  {Dispatched},
	Dispatched: {Failed},
}

// MayResolve reports whether an operator's act may append a row of state next after
// last: evidence ends a parked instruction and a contradiction, and a parked
// instruction may get an inquiry.
func MayResolve(last, next State) bool { return slices.Contains(resolutions[last], next) }
