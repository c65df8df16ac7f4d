package outbox

import (
	"cmp"
	"fmt"

	"github.com/railhead-pay/railhead/payment"
)

// ReceiptOrFault is the result for one instruction of a batch. Fault is nil if it was
// enqueued.
type ReceiptOrFault struct {
	Receipt payment.Receipt
	Fault   *Fault
}

// Fault is why an instruction was refused, or with StateCommitUnknown that it may be stored. It is an error of
// the database, or an error of the same form about an instruction that is not sent to the database. It contains
// nothing of the payload.
type Fault struct {
	SQLState string `json:"sqlstate"` // one of Refusals, or the server's own
	Message  string `json:"message"`
	Detail   string `json:"detail,omitempty"`
	Hint     string `json:"hint,omitempty"` // what the caller can do about it
	// Field and Rule name the invalid field and the violated rule, for callers to branch
	// on: payload.amount and DECIMALS. docs/ingest.md lists them. They are empty if the
	// refusal concerns more than one field.
	Field string `json:"field,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

func (f *Fault) Error() string {
	text := fmt.Sprintf("%s (%s)", f.Message, f.SQLState)
	if f.Detail != "" {
		text += "\n" + f.Detail
	}
	if f.Hint != "" {
		text += "\n" + f.Hint
	}
	return text
}

// StateCommitUnknown is the SQLSTATE of a Fault that is no refusal: the instruction may be stored, and
// another cell has answered for its own part of the batch. (ISO/IEC 9075: connection exception, transaction
// resolution unknown.)
const StateCommitUnknown = "08007"

// Unwrap returns the sentinel on which a caller branches, by the table of Refusals, or ErrCommitUnknown. For
// another SQLSTATE of the server's own it returns ErrInvalid: that is about the content too.
func (f *Fault) Unwrap() error {
	if f.SQLState == StateCommitUnknown {
		return ErrCommitUnknown
	}
	return cmp.Or(SentinelOf(f.SQLState), ErrInvalid)
}
