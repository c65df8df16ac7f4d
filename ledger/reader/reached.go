package reader

import (
	"slices"

	"github.com/railhead-pay/railhead/payment"
)

// MayHaveReachedRail reports whether some send of the instruction may have reached the
// rail, whatever its outcome: a send whose answer does not prove that nothing left, one in
// flight, one that a restore lost, or one that the rail refused before there was a claim. The
// SQL function sends_of has the same rule. It reports true if earlier rows are left out.
func (t Timeline) MayHaveReachedRail() bool {
	if t.Earlier {
		return true
	}
	left := make(map[int]bool) // of claims, those of which nothing left
	for _, row := range t.Attempts {
		if row.State != payment.LateOutcome && payment.Result(row.Result).LeftNothing() {
			left[row.AnswersAttemptNo] = true
		}
	}
	for _, row := range t.Attempts {
		switch row.State {
		case payment.Dispatching:
			if !left[row.AttemptNo] {
				return true
			}
		case payment.LateOutcome:
			result := payment.Result(row.Result)
			if row.AnswersAttemptNo == 0 && (result == payment.ResultRefused || !row.ClaimedAt.IsZero() &&
				(result == payment.ResultExecuted || result.ReachedRail() || row.OutcomeUnknown && result.IsOfInquiry())) {
				return true
			}
		}
	}
	return false
}

// WasDispatched reports whether some row is DISPATCHED, even if a later row contradicts it.
func (t Timeline) WasDispatched() bool {
	return slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool { return row.State == payment.Dispatched })
}

// ContradictedSince reports whether evidence after the last state shows a send that was, or
// may have been, executed: a replay is then refused.
func (t Timeline) ContradictedSince() bool {
	last := t.last()
	if last == nil {
		return false
	}
	coversAll := last.Result == string(payment.ResultRefused) // a refusal of every send
	return slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool {
		result := payment.Result(row.Result)
		return row.State == payment.LateOutcome && row.AttemptNo > last.AttemptNo &&
			(result == payment.ResultExecuted || !coversAll &&
				(result.LeavesDoubt() || result == payment.ResultInProgress || row.OutcomeUnknown && !last.OutcomeUnknown))
	})
}
