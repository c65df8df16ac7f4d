package explain

import (
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Verdict is what evidence says of a payment, and why it can't end the payment now.
type Verdict struct {
	Value, Words string
	Why          string // empty: it can, as far as the rows show
}

const neverEnqueuedHere = "it was never enqueued here"

// verdictsOf are the verdicts of resolve. They follow the SQL functions resolve_payment and require_rails_word:
// proof of execution ends more than a dead letter, because nothing else prevents another send.
func verdictsOf(line reader.Timeline) []Verdict {
	return []Verdict{
		{"executed", "executed", whyNotExecuted(line)}, {"not_executed", "not executed", whyNotUnpaid(line)},
	}
}

// whyNotResolve is why no evidence ends a payment: what is in the way of proof of execution.
func whyNotResolve(verdicts []Verdict) string {
	for _, verdict := range verdicts {
		if verdict.Why == "" {
			return ""
		}
	}
	return verdicts[0].Why
}

// whyNotExecuted is why proof of execution does not end a payment.
func whyNotExecuted(line reader.Timeline) string {
	last := lastRow(line)
	switch {
	case line.NeverEnqueued:
		return neverEnqueuedHere
	case takenBack(line):
		return "it was DISPATCHED once, and gets no second such row: escalate it if it was paid"
	case last != nil && last.State.IsClaim():
		return "it is in flight: wait for its answer, or until a reaper ends it"
	case line.Pending != nil && (last == nil || last.State != payment.Dispatched), isLost(line),
		last != nil && last.State.EndsUnpaid(), evidenceIsAskedFor(line):
		return ""
	}
	return "see what is to be done: an outcome that is known needs no evidence of an operator"
}

// whyNotUnpaid is why evidence that a payment was not executed does not end it.
func whyNotUnpaid(line reader.Timeline) string {
	switch {
	case line.NeverEnqueued:
		return neverEnqueuedHere
	case !isLost(line) && !evidenceIsAskedFor(line):
		return "it is not parked, not contradicted, and not quarantined with an unknown outcome"
	case line.Unconfirmed:
		return whyNotUnsettled(line)
	case askedFor(line) && line.Pause == nil:
		return "its inquiry is pending: wait for the rail's answer"
	case !line.RailAsks:
		return ""
	}
	answered, executed := answeredOfLate(line)
	switch {
	case executed:
		return "the rail reported within 15 minutes that it executed the payment"
	case !answered && isToBeAsked(line):
		return "the rail answers inquiries, and was not asked within 15 minutes: inquire first"
	}
	return ""
}

// isLost reports whether it should be in pending and is not.
func isLost(line reader.Timeline) bool {
	last := lastRow(line)
	return last != nil && last.State.Waits() && line.Pending == nil
}

// evidenceIsAskedFor reports whether its dead letter is open for evidence of either kind.
func evidenceIsAskedFor(line reader.Timeline) bool {
	last, p, after := lastRow(line), line.Pending, line.PutBackAfter()
	switch {
	case !line.DeadLetter.Open():
		return false
	case last != nil && last.State == payment.Parked, askedFor(line) && after == "":
		return true
	case line.DeadLetter.Reason == payment.DeadConflict:
		return last != nil && last.State.HasEnded()
	case line.DeadLetter.Reason != payment.DeadUnclaimable || p == nil || !p.Quarantine:
		return false
	case after == "":
		return p.OutcomeUnknown
	}
	return after.Waits() || after == payment.LateOutcome // the copy that was put back is no evidence
}

// isToBeAsked reports whether the rail can be asked what became of it, and has to be before evidence that it was
// not executed counts.
func isToBeAsked(line reader.Timeline) bool {
	last := lastRow(line)
	word, _ := line.Certainty()
	return line.DeadLetter.Open() && line.DeadLetter.Reason.IsAsked() && word == reader.OutcomeUnknown &&
		last != nil && last.State == payment.Parked && (line.Pending == nil || !line.Pending.Quarantine) &&
		line.Pause == nil && line.SuspendedAt.IsZero()
}

// answeredOfLate reports whether an inquiry of the last 15 minutes was answered, and whether the rail reported the
// execution since.
func answeredOfLate(line reader.Timeline) (answered, executed bool) {
	inquiries := make(map[int]bool)
	for _, row := range line.Attempts {
		inquiries[row.AttemptNo] = row.State == payment.Inquiring
		if !row.CompletedAt.After(line.Now.Add(-15 * time.Minute)) {
			continue
		}
		said := row.Result == string(payment.ResultExecuted)
		if inquiries[row.AnswersAttemptNo] || row.AnswersAttemptNo == 0 && !row.ClaimedAt.IsZero() && said {
			answered, executed = true, executed || said
		}
	}
	return answered, executed
}
