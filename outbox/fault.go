package outbox

import (
	"cmp"
	"fmt"

	"github.com/railhead-pay/railhead/payment"
)

// ReceiptOrFault is what became of one instruction of a batch: Fault is nil for
// one that went in.
type ReceiptOrFault struct {
	Receipt payment.Receipt
	Fault   *Fault
}

// Fault is why an instruction was refused: the database's words, or words of the
// same form about what must not even be sent there. It holds nothing of the payload.
type Fault struct {
	SQLState string `json:"sqlstate"` // one of Refusals, or the server's own
	Message  string `json:"message"`
	Detail   string `json:"detail,omitempty"`
	Hint     string `json:"hint,omitempty"` // what the caller can do about it
	// Field and Rule name what is wrong and the rule that it breaks, for callers to branch
	// on: payload.amount and DECIMALS. docs/ingest.md lists them. Empty where the refusal
	// is not of one field.
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

// Unwrap gives the sentinel that a caller branches on, by the table of Refusals;
// ErrInvalid for a state of the server's own, which is about the content too.
func (f *Fault) Unwrap() error { return cmp.Or(SentinelOf(f.SQLState), ErrInvalid) }
