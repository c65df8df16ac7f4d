package payment

import "time"

// Decision is everything that follows from one answer: the rows to append and
// what the instruction does next. The ledger records it as it is.
type Decision struct {
	State     State  // of the outcome row
	ErrorCode string // Railhead's own code for the reason; empty if the rail's code suffices
	// Park appends a PARKED row after the outcome row.
	Park bool
	// Reason opens a dead letter; empty opens none.
	Reason DeadReason
	// Requeue returns the instruction to pending, due after Delay.
	Requeue    bool
	NextAction Action
	Delay      time.Duration
	// The flags and counters of the instruction from now on.
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
	InquiryCount   int
	// CountsSend is set if the send of this claim may have reached the rail. The key
	// window and the time of the latest send then take it into account.
	CountsSend bool
}

// certain clears the flags of doubt: the evidence covers every send.
func (d Decision) certain() Decision {
	d.OutcomeUnknown, d.Provisional = false, false
	return d
}

// certainAfterRefusal clears them after a final refusal of one send if the rail keeps one
// outcome for each key. Otherwise the refusal covers only that send, and no send that a
// restore may have lost. After a provisional acceptance only the rail's final answer counts.
func (p Policy) certainAfterRefusal(d Decision, c Claim) Decision {
	if p.AnswerCoversKey && !d.Provisional {
		return d.certain()
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

// fail ends the instruction as FAILED, or as PARKED while some send has no trustworthy
// answer: a payment that may have been executed must not be recorded as failed.
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
