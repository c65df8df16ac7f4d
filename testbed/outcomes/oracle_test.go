package outcomes_test

import (
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// end is the result that a cell has to have.
type end struct {
	state    payment.State // DISPATCHED, FAILED or PARKED
	executed int           // times, by the bank's ledger
}

var (
	paid      = end{payment.Dispatched, 1}
	unpaid    = end{payment.Failed, 0}
	parked    = end{payment.Parked, 0} // and not executed
	parkedYet = end{payment.Parked, 1} // and executed: an operator finds that out
)

// want returns the entry of the table, which follows the design and not package payment. It knows
// nothing of claims, ages and schedules: only what a rail of this shape can still report, and what
// it does with a second send.
func (c cell) want() end {
	bankDecided := c.trouble == lostAfter || c.trouble == killedAfter
	decision := paid
	if c.result == payment.ResultRefusedFinal || c.result == refusedAtEnd {
		decision = unpaid
	}
	switch {
	case c.trouble == noTrouble:
		return c.met(false)

	// From here on the first send has no answer.
	case c.shape.Asked() && bankDecided:
		return decision // the rail says so, for the whole payment
	case c.shape.Asked() && c.shape.NotFound == payment.NotFoundNotExecuted && c.shape.Dedupes():
		return c.met(true) // "no such payment" lets the key be sent again, and settles nothing
	case c.shape.Asked():
		return parked // "no such payment" proves nothing, or a late first send would pay twice

	// The rail can't be asked.
	case bankDecided && c.callsBack():
		return decision
	case c.shape.Dedupes() && bankDecided && c.tellsAgain() && c.result == payment.ResultRefusedBusiness:
		return paid // a key that was executed has its answer already
	case c.shape.Dedupes() && (c.tellsAgain() || !bankDecided):
		end := c.met(true)
		if end == parked && bankDecided && decision == paid {
			return parkedYet
		}
		return end
	case bankDecided && decision == paid:
		return parkedYet
	default:
		return parked
	}
}

// tellsAgain reports whether a repeated key gets the answer that was lost. A bank that says
// "duplicate" instead never reports the outcome of the earlier send.
func (c cell) tellsAgain() bool { return c.replay == railsim.ReplayStored }

// sentTwice reports whether there was a send before the one that the bank received.
func (c cell) sentTwice() bool { return c.trouble == lostBefore || c.trouble == killedBefore }

// callsBack reports whether the bank will report its decision: a provisional bank that accepted
// the payment does. It does not report what it refused at once.
func (c cell) callsBack() bool {
	return c.shape.CallsBack() && c.result != payment.ResultRefusedFinal
}

// met returns the end of the send that has the result. Doubt is whether an earlier send may have
// been executed.
func (c cell) met(doubt bool) end {
	switch c.result {
	case payment.ResultRefusedFinal:
		// A refusal speaks for the send that it answers, unless the rail keeps one
		// outcome a key.
		if doubt && !c.shape.CoversKey {
			return parked
		}
		return unpaid
	case payment.ResultRefusedBusiness:
		// It is not sent again automatically, and the answer says nothing about an earlier send.
		if doubt {
			return parked
		}
		return unpaid
	case payment.ResultRefusedTransient:
		// The key is used up where the rail requires a new id after a refusal.
		switch {
		case c.shape.TakesAgain():
			return paid
		case doubt:
			return parked
		default:
			return unpaid
		}
	case payment.ResultUnknown:
		// Executed, and the answer can't be read: asked about, sent again or reported.
		if c.shape.Asked() || c.shape.Dedupes() && c.tellsAgain() || c.shape.CallsBack() {
			return paid
		}
		return parkedYet
	case payment.ResultRefusedRail:
		// The component that refused it may stand before a bank that has executed the payment: it is
		// sent again only under its key, and where the rail is asked, only after the rail has said that
		// it knows no such payment.
		if !c.shape.Dedupes() || c.shape.Asked() && c.shape.NotFound != payment.NotFoundNotExecuted {
			return parked
		}
		return paid
	case refusedAtEnd:
		// With two sends, the report does not say about which one it is.
		if c.sentTwice() && !c.shape.CoversKey {
			return parked
		}
		return unpaid
	default:
		// It was accepted, or was not sent this time and is accepted the next.
		return paid
	}
}

// replaysOf returns how the bank of each shape answers a key that it has seen.
func replaysOf(all []cell) map[simrail.Shape]railsim.Replay {
	replays := make(map[simrail.Shape]railsim.Replay)
	for _, c := range all {
		replays[c.shape] = c.replay
	}
	return replays
}
