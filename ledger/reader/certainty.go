package reader

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Certainty is what is known about the money of an instruction.
type Certainty string

// The values of Certainty. Dispatched is not settled: ACCEPTED means that the rail has
// final responsibility, not that the payee has the money. ACCEPTED and REFUSED rest on
// answers of the rail; an end by an operator's evidence is BY_EVIDENCE.
const (
	NotSent               Certainty = "NOT_SENT"        // no send can have reached the rail
	OutcomeUnknown        Certainty = "OUTCOME_UNKNOWN" // some send has no trustworthy answer
	RailAccepted          Certainty = "ACCEPTED"
	RailRefused           Certainty = "REFUSED"      // sent, and not executed by the rail's own answer
	Contradicted          Certainty = "CONTRADICTED" // there is evidence of both
	ExecutedByEvidence    Certainty = "EXECUTED_BY_EVIDENCE"
	NotExecutedByEvidence Certainty = "NOT_EXECUTED_BY_EVIDENCE"
)

// Certainty returns what the timeline proves about the money, and the reason in a few
// words. It concludes no more than the rows prove: a send that may have reached the rail
// and has no answer is OUTCOME_UNKNOWN, however old it is.
func (t Timeline) Certainty() (word Certainty, why string) {
	word, why, _ = t.judge()
	return word, why
}

// Testimony returns the evidence on which the certainty rests; nil if it rests on the
// rail's answers, or on no evidence.
func (t Timeline) Testimony() *Testimony {
	_, _, testimony := t.judge()
	return testimony
}

func (t Timeline) judge() (word Certainty, why string, by *Testimony) {
	last := t.last()
	switch {
	case t.DeadLetter.Open() && t.DeadLetter.Reason == payment.DeadConflict:
		return Contradicted, t.Contradiction() + "; a person compares with the rail's statement", nil
	case last != nil && last.State == payment.Dispatched:
		if by := t.testimonyOf(last); by != nil {
			row := *last
			row.RailReference = cmp.Or(by.reference, row.RailReference)
			return ExecutedByEvidence, reasonFrom(&row, by.String()), by
		}
	}
	word, why = t.byRows(last)
	if word == NotSent && t.OtherCell != nil {
		return OutcomeUnknown, t.OtherCell.String(), nil
	}
	if word != RailRefused && word != NotExecutedByEvidence {
		return word, why, nil
	}
	for _, row := range []*AttemptRow{last, t.lastRefusal()} {
		if row == nil || row == last && !row.State.HasEnded() {
			continue
		}
		if by := t.testimonyOf(row); by != nil {
			return NotExecutedByEvidence, reasonFrom(row, by.String()), by
		}
	}
	if word == RailRefused && t.OtherCell != nil { // the rail has refused the sends of this cell
		return OutcomeUnknown, t.OtherCell.String(), nil
	}
	return word, why, nil
}

// NothingMissing is what no relayer has confirmed while Timeline.Unconfirmed is set.
const NothingMissing = "that nothing is missing since the server was started or promoted, or a dump was loaded"

// byRows returns the certainty by the rows of the archive, without an operator's evidence.
func (t Timeline) byRows(last *AttemptRow) (word Certainty, why string) {
	lastNo := 0
	if last != nil {
		lastNo = last.AttemptNo
	}
	unknown := last != nil && last.OutcomeUnknown || t.Pending != nil && t.Pending.OutcomeUnknown
	provisional := last != nil && last.Provisional || t.Pending != nil && t.Pending.Provisional
	switch {
	case last != nil && last.State == payment.Dispatched:
		return RailAccepted, reasonFrom(last, "the rail took final responsibility; dispatched is not settled")
	case !t.SuspendedAt.IsZero():
		return OutcomeUnknown, fmt.Sprintf("the database may have forgotten a send of it: "+
			"lanes are suspended since %s, compare with the rail", t.SuspendedAt.UTC().Format(time.RFC3339))
	case t.Unconfirmed:
		return OutcomeUnknown, "the database may have forgotten a send of it: no relayer has confirmed " + NothingMissing
	case last != nil && last.State == payment.Dispatching:
		return OutcomeUnknown, fmt.Sprintf("it is being sent, or its worker died on it, since row %d", lastNo)
	case provisional:
		return OutcomeUnknown, "the rail took it for now; its final word is to come"
	case unknown && last == nil:
		if doubt := t.lastDoubt(); doubt != nil {
			return OutcomeUnknown, doubtAt(doubt)
		}
		return OutcomeUnknown, "pending says that a send has no trustworthy answer, and no row of it is in the archive"
	case unknown && t.sendUnanswered(lastNo):
		return OutcomeUnknown, fmt.Sprintf("a send has no trustworthy answer, as of row %d", lastNo)
	case unknown:
		if doubt := t.lateDoubt(last); doubt != nil && payment.Result(doubt.Result).LeavesDoubt() {
			return OutcomeUnknown, doubtAt(doubt)
		}
		if !slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool {
			return row.State == payment.Dispatching || row.State == payment.LateOutcome
		}) {
			return OutcomeUnknown, fmt.Sprintf("it is kept unknown as of row %d, and the rows show no send of it: "+
				"compare with the rail", lastNo)
		}
		return OutcomeUnknown, fmt.Sprintf("it is kept unknown as of row %d, "+
			"although every send that the rows show has an answer: compare with the rail", lastNo)
	}
	refused := t.lastRefusal()
	resolved := last != nil && (last.State == payment.Cancelled || last.State == payment.Failed && refused == nil)
	if against := t.lateDoubt(last); against != nil && resolved {
		return NotExecutedByEvidence,
			fmt.Sprintf("an operator resolved that it was not executed, against row %d", against.AttemptNo)
	}
	if last == nil || !last.State.HasEnded() {
		if doubt := t.lateDoubt(last); doubt != nil {
			return OutcomeUnknown, doubtAt(doubt)
		}
	}
	if !t.RepeatsSince.IsZero() && (refused == nil || payment.Result(refused.Result).LeftNothing()) {
		return OutcomeUnknown, t.repeats(refused)
	}
	if refused != nil {
		return RailRefused, reasonFrom(refused, "by the rail's own word it was not executed")
	}
	if doubt := t.lastDoubt(); doubt != nil {
		return OutcomeUnknown, doubtAt(doubt)
	}
	switch {
	case last == nil && (t.Pending != nil || t.NeverEnqueued):
		return NotSent, "it was never claimed"
	case last == nil && t.Lost:
		return OutcomeUnknown, "it is lost: no row of it is in pending or the archive, and its month has not left " +
			"(railhead prove run nothing-lost)"
	case last == nil:
		return OutcomeUnknown, "only its key is left: its rows have left the archive"
	case t.Earlier:
		return OutcomeUnknown, "its oldest rows are not in this look"
	case !slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool { return row.State.IsClaim() }):
		return NotSent, "it was never claimed"
	default:
		return NotSent, "every claim ended before the first byte"
	}
}

// repeats returns the reason for OUTCOME_UNKNOWN if the instruction may repeat a call that
// was lost: its own rows prove nothing about that call.
func (t Timeline) repeats(refused *AttemptRow) string {
	known := "no send of it is known"
	if refused != nil {
		known = fmt.Sprintf("by row %d the rail did not look at it", refused.AttemptNo)
	}
	return fmt.Sprintf("%s, and it may repeat a call that was forgotten before lanes were suspended at %s: "+
		"compare with the rail", known, t.RepeatsSince.UTC().Format(time.RFC3339))
}

// sendUnanswered reports whether the rows up to a number show a send without a trustworthy
// answer, also of a claim that a restore lost.
func (t Timeline) sendUnanswered(upTo int) bool {
	if t.Earlier {
		return true
	}
	answered := make(map[int]bool)
	for _, row := range t.Attempts {
		result := payment.Result(row.Result)
		if row.AttemptNo <= upTo && row.AnswersAttemptNo > 0 && (result.LeftNothing() || result.RefusesSend()) {
			answered[row.AnswersAttemptNo] = true
		}
	}
	return slices.ContainsFunc(t.Attempts, func(row AttemptRow) bool {
		return row.AttemptNo <= upTo && (row.State == payment.Dispatching && !answered[row.AttemptNo] ||
			row.State == payment.LateOutcome && payment.Result(row.Result).LeavesDoubt())
	})
}

// last returns the latest row that is not LATE_OUTCOME.
func (t Timeline) last() *AttemptRow {
	for n := len(t.Attempts) - 1; n >= 0; n-- {
		if t.Attempts[n].State != payment.LateOutcome {
			return &t.Attempts[n]
		}
	}
	return nil
}

// lateDoubt returns the latest LATE_OUTCOME row after last by which some send may have been
// executed. If last was an end, that row opened a CONFLICT.
func (t Timeline) lateDoubt(last *AttemptRow) *AttemptRow {
	for n := range slices.Backward(t.Attempts) {
		row := &t.Attempts[n]
		if payment.Result(row.Result).MayMeanPaid() && row.State == payment.LateOutcome &&
			(last == nil || row.AttemptNo > last.AttemptNo) {
			return row
		}
	}
	return nil
}

// lastDoubt returns the latest row by which some send has no trustworthy answer.
func (t Timeline) lastDoubt() *AttemptRow {
	for n := range slices.Backward(t.Attempts) {
		if t.Attempts[n].OutcomeUnknown {
			return &t.Attempts[n]
		}
	}
	return nil
}

// lastRefusal returns the latest row that proves that a send which reached the rail was not
// executed: a refusal, an operator's evidence, or a "no such payment" that was proof. A
// refusal after such evidence is of another send, unless it is of the whole payment.
func (t Timeline) lastRefusal() *AttemptRow {
	var found *AttemptRow
	judged := false
	for n := range t.Attempts {
		row := &t.Attempts[n]
		if row.State == payment.Failed && row.ErrorCode == payment.CodeResolved {
			found, judged = row, true
			continue
		}
		switch payment.Result(row.Result) {
		case payment.ResultRefused:
			if row.State != payment.LateOutcome || !judged { // a late one may be of one send among several
				found, judged = row, false
			}
		case payment.ResultRefusedFinal, payment.ResultRefusedTransient,
			payment.ResultRefusedBusiness, payment.ResultRefusedLater:
			if !judged {
				found = row
			}
		case payment.ResultRefusedRail:
			if row.RailCode != "" && !judged { // the rail answered: the send was not refused before its first byte
				found = row
			}
		case payment.ResultNotFound:
			if !row.OutcomeUnknown && row.State != payment.LateOutcome && !judged {
				found = row
			}
		}
	}
	return found
}

func doubtAt(doubt *AttemptRow) string {
	return fmt.Sprintf("by row %d a send may have been executed, and no row after it settles that", doubt.AttemptNo)
}

func reasonFrom(row *AttemptRow, why string) string {
	switch {
	case row.RailReference != "":
		return fmt.Sprintf("%s (row %d, reference %s)", why, row.AttemptNo, row.RailReference)
	case row.RailCode != "":
		return fmt.Sprintf("%s (row %d, code %s)", why, row.AttemptNo, row.RailCode)
	default:
		return fmt.Sprintf("%s (row %d)", why, row.AttemptNo)
	}
}
