package reader

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/payment"
)

// Contradiction describes which rows of an instruction with a CONFLICT contradict each
// other: two answers of the rail, or an answer and the recorded end.
func (t Timeline) Contradiction() string {
	last := t.last()
	recorded := "nothing"
	if last != nil {
		recorded = string(last.State)
	}
	notPaid := last != nil && last.State.EndsUnpaid()
	var executed, refused, denied, taken, inProgress, unanswered bool
	var references []string
	var byEvidence string // the reference that an operator recorded
	for n := range t.Attempts {
		row := &t.Attempts[n]
		if row.ErrorCode == payment.CodeResolved { // an operator's evidence
			byEvidence = cmp.Or(row.RailReference, byEvidence)
			continue
		}
		// Only evidence after the end contradicts it.
		late := row.State == payment.LateOutcome && last != nil && row.AttemptNo > last.AttemptNo
		switch result := payment.Result(row.Result); {
		case row.State == payment.Dispatched || result == payment.ResultExecuted:
			executed = true
			if row.RailReference != "" && !slices.Contains(references, row.RailReference) {
				references = append(references, row.RailReference)
			}
		case result.Refuses():
			refused = true
		case late && result.DeniesSend():
			denied = true
		case late && result == payment.ResultAccepted:
			taken = true
		case late && result == payment.ResultInProgress:
			inProgress = true
		}
		unanswered = unanswered || late && row.OutcomeUnknown
	}
	switch {
	case len(references) > 1:
		return fmt.Sprintf("the rail gave two references to the payment: %s and %s", references[0], references[1])
	case executed && refused:
		return "the rail said that it executed the payment, and that it refused it"
	case len(references) == 1 && byEvidence != "" && references[0] != byEvidence:
		return fmt.Sprintf("the rail executed the payment as %s, and an operator recorded it as %s",
			references[0], byEvidence)
	case executed && notPaid:
		return "the rail executed the payment, which is recorded as " + recorded
	case refused && last != nil && last.State == payment.Dispatched:
		return "the rail refused the payment, which is recorded as " + recorded
	case denied && last.State == payment.Dispatched && byEvidence != "":
		return "no send of the payment was executed, by the answers to them, and an operator recorded it as DISPATCHED"
	case taken && notPaid:
		return "the rail took the payment for now, and it is recorded as " + recorded
	case inProgress && notPaid:
		return "the rail has the payment in progress, and it is recorded as " + recorded
	case unanswered && notPaid:
		return "a send without an answer became known after the payment was recorded as " + recorded
	default:
		return "what is known of the payment is not what is recorded: " + recorded
	}
}
