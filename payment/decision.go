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
	// AsAsked is set if Delay is longer than our own wait because the rail asked for it.
	AsAsked bool
	// The flags and counters of the instruction from now on.
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
	InquiryCount   int
	// CountsSend is set if the send of this claim may have reached the rail. The key
	// window and the time of the latest send then take it into account.
	CountsSend bool
}
