package reader

import (
	"slices"

	"github.com/railhead-pay/railhead/payment"
)

// MayHaveReachedRail reports whether some send of the instruction may have reached the
// rail, whatever became of it: one that was answered by more than that nothing left, one
// that is in flight, one that a restore forgot, or that the rail refused before there was any
// other (sends_of has the same rule). Rows that are not in this look count as one.
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

// WasDispatched reports whether a row says DISPATCHED, also one that another took back.
func (t Timeline) WasDispatched() bool {
	return slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool { return row.State == payment.Dispatched })
}

// ContradictedSince reports whether something became known after the last state that may
// have been executed, or was, so that a replay is refused.
func (t Timeline) ContradictedSince() bool {
	last := t.last()
	if last == nil {
		return false
	}
	whole := last.Result == string(payment.ResultRefused) // the rail's word for every send
	return slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool {
		result := payment.Result(row.Result)
		return row.State == payment.LateOutcome && row.AttemptNo > last.AttemptNo &&
			(result == payment.ResultExecuted || !whole &&
				(result.LeavesDoubt() || result == payment.ResultInProgress || row.OutcomeUnknown && !last.OutcomeUnknown))
	})
}
