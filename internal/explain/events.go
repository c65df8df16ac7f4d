package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Event is one line of the history of an instruction: a row of the archive, its
// enqueue, or an operator's act.
type Event struct {
	At        time.Time `json:"at"`
	AttemptNo int       `json:"attempt_no,omitempty"` // 0: no row of the archive
	What      string    `json:"what"`
	By        string    `json:"by,omitempty"`
	// Row is the row of the archive, or nil; Note is what its rail or its operator said.
	Row  *reader.AttemptRow `json:"-"`
	Note string             `json:"-"`
}

// EventsOf returns the events of an instruction in order.
func EventsOf(line reader.Timeline) []Event {
	var all []Event
	if !line.Earlier && !line.NeverEnqueued {
		all = append(all, Event{At: line.EnqueuedAt, What: "enqueued", By: line.EnqueuedBy})
	}
	claims := make(map[int]payment.State)
	for n := range line.Attempts {
		row := &line.Attempts[n]
		if row.State.IsClaim() {
			claims[row.AttemptNo] = row.State
		}
		// The answer itself is in the row before: this row is its consequence.
		if n > 0 && row.AnswersAttemptNo > 0 && row.AnswersAttemptNo == line.Attempts[n-1].AnswersAttemptNo &&
			row.State.HasEnded() {
			delete(claims, row.AnswersAttemptNo)
		}
		all = append(all, Event{
			At: row.CreatedAt, AttemptNo: row.AttemptNo, What: whatOf(row, claims[row.AnswersAttemptNo]),
			By: cmp.Or(row.WorkerID, row.Actor), Row: row, Note: row.ErrorMessage,
		})
	}
	for _, act := range line.Acts {
		all = append(all, Event{At: act.At, What: "operator: " + strings.ToLower(strings.ReplaceAll(act.Act, "_", " ")),
			By: act.By(), Note: act.Reason})
	}
	// Rows keep the order of their numbers, which is the order of the facts.
	slices.SortStableFunc(all, func(a, b Event) int {
		if a.AttemptNo > 0 && b.AttemptNo > 0 {
			return cmp.Compare(a.AttemptNo, b.AttemptNo)
		}
		return a.At.Compare(b.At)
	})
	return all
}

// whatOf describes a row.
func whatOf(row *reader.AttemptRow, answered payment.State) string {
	switch {
	case row.State == payment.Dispatching:
		return "claimed to be sent"
	case row.State == payment.Inquiring:
		return "claimed to be asked about"
	case isReport(row) && (row.State == payment.LateOutcome || row.AnswersAttemptNo > 0):
		return "callback of the rail"
	case row.State == payment.LateOutcome:
		return "a late outcome"
	case row.ErrorCode == payment.CodeAsked && row.State == payment.Unknown && row.AnswersAttemptNo == 0:
		return "an operator requested an inquiry"
	case row.ErrorCode == payment.CodeResolved:
		return "an operator resolved it"
	case row.State == payment.ZombieRequeue:
		return fmt.Sprintf("the reaper repaired row %d", row.AnswersAttemptNo)
	case row.ErrorCode == "NOT_SENT":
		return "nothing was sent"
	case answered == payment.Dispatching:
		return "the send's outcome"
	case answered == payment.Inquiring:
		return "the inquiry's outcome"
	case row.State == payment.Failed && row.ErrorCode == string(payment.DeadExpired):
		return "it expired"
	case row.State == payment.Parked:
		return "parked for an operator"
	case row.State == payment.Replayed:
		return "an operator replayed it"
	case row.State == payment.Cancelled:
		return "an operator cancelled it"
	default:
		return "it ended"
	}
}

// isReport distinguishes reports of the rail from answers to claims and from operators'
// acts, which have the version of their profile, or no result of the rail.
func isReport(row *reader.AttemptRow) bool {
	result := payment.Result(row.Result)
	return row.ProfileVersion == 0 && (result == payment.ResultExecuted || result == payment.ResultRefused ||
		result == payment.ResultAccepted)
}
