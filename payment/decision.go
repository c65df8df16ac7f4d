package payment

import "time"

// Decision is everything that follows from one answer: the rows to append and
// where the instruction goes. It is complete: the ledger adds nothing to it.
type Decision struct {
	State     State  // of the outcome row
	ErrorCode string // Railhead's word for why, empty where the rail's own says it all
	// Park appends a PARKED row after the outcome row.
	Park bool
	// Reason opens a dead letter; empty opens none.
	Reason DeadReason
	// Requeue returns the instruction to pending, due after Delay.
	Requeue    bool
	NextAction Action
	Delay      time.Duration
	// What the instruction carries on: the sticky flag and the counters.
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
	InquiryCount   int
	// CountsSend is set where this claim may have reached the rail, so that the
	// key window and the latest send are taken from it.
	CountsSend bool
}

// settled is for evidence that speaks for every send.
func (d Decision) settled() Decision {
	d.OutcomeUnknown, d.Provisional = false, false
	return d
}

// settledBySend is for a final refusal of one send, which settles only that send and
// none that a restore may have forgotten, unless the rail keeps one outcome a key.
// What the rail took before is settled by its final word alone.
func (p Policy) settledBySend(d Decision, c Claim) Decision {
	if p.AnswerCoversKey && !d.Provisional {
		return d.settled()
	}
	d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent
	return d
}

func (d Decision) dispatched() Decision {
	d.State = Dispatched
	return d
}

func (d Decision) requeue(state State, code string, next Action, delay time.Duration) Decision {
	d.State, d.ErrorCode = state, code
	d.Requeue, d.NextAction, d.Delay = true, next, delay
	return d
}

// fail writes FAILED, or PARKED while some send has no trustworthy answer: what
// may have been executed must not be called failed.
func (d Decision) fail(code string) Decision {
	if d.OutcomeUnknown {
		return d.park(Parked, code, DeadOutcomeUnknown)
	}
	d.State, d.ErrorCode, d.Reason = Failed, code, DeadFailed
	return d
}

func (d Decision) park(state State, code string, reason DeadReason) Decision {
	d.State, d.ErrorCode, d.Reason = state, code, reason
	return d
}
