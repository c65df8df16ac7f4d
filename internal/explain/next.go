// Package explain puts into words what is recorded about a payment: what is certain about its
// money, what happens next and why, what an operator can do, and its history. The commands and
// the console show the same sentences.
package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// NextStep describes what happens next to an instruction, and why.
func NextStep(line reader.Timeline) string { return ownNext(line) + holdsOthers(line) }

func ownNext(line reader.Timeline) string {
	last := lastRow(line)
	switch p := line.Pending; {
	case p != nil && p.Quarantine:
		return "no automatic step: it could not be claimed and is quarantined until an operator acts"
	case p != nil && line.PutBackAfter() != "":
		return putBackNext(line)
	case line.IsOver():
		ends := "ends"
		if !line.RepeatsSince.IsZero() || line.OtherCell != nil {
			ends = "parks"
		}
		said := fmt.Sprintf("the reaper %s it as EXPIRED: it is over since %s, and is not claimed any more", ends,
			Clock(line.ExpiresAt.Time))
		if !line.SuspendedAt.IsZero() {
			said += "; not before the suspension since " + Clock(line.SuspendedAt) + " is ended"
		} else if line.Unconfirmed {
			said += "; not before a relayer has confirmed " + reader.NothingMissing
		}
		return said
	case p != nil && p.Pause != nil:
		return "waits: " + SayPause(*p.Pause)
	case p != nil && line.SendOnce && !line.SuspendedAt.IsZero() && p.NextAction == string(payment.ActionSend) &&
		!p.OutcomeUnknown:
		said := "waits until the suspension since " + Clock(line.SuspendedAt) +
			" is ended: its caller allows one send, and the database may have forgotten one that was made"
		if p.DueInMS > 0 {
			said += "; it is due at " + Clock(p.NextAttemptAt)
		}
		return strings.Join(append([]string{said}, line.NotClaimed...), "; ")
	case line.Behind():
		return behindHead(line)
	case p != nil && p.DueInMS > 0 && rescheduled(line) != nil:
		act := rescheduled(line)
		return fmt.Sprintf("%s in %s: not before %s, by %s: %s", p.NextAction, Span(Millis(p.DueInMS)),
			Clock(p.NextAttemptAt), act.Actor, OneLine(act.Reason))
	case p != nil && p.DueInMS > 0 && last == nil:
		return fmt.Sprintf("%s in %s: not before %s, by its caller", p.NextAction, Span(Millis(p.DueInMS)),
			Clock(p.NextAttemptAt))
	case p != nil && p.DueInMS > 0:
		return fmt.Sprintf("%s in %s, at %s (%s)%s%s", p.NextAction, Span(Millis(p.DueInMS)), Clock(p.NextAttemptAt),
			waitingFor(p, last), because(last), oldReplay(line))
	case p != nil:
		said := fmt.Sprintf("%s, due since %s%s%s", p.NextAction, Span(Millis(p.DueInMS)), because(last),
			oldReplay(line))
		return strings.Join(append([]string{said}, line.NotClaimed...), "; ")
	case last != nil && last.State.IsClaim():
		return fmt.Sprintf("in flight with %s for %s; a reaper repairs it if it is open at the claim timeout, "+
			"or earlier if its worker stops", OneLine(last.WorkerID),
			Span(line.Now.Sub(last.CreatedAt)))
	case line.DeadLetter.Open():
		return fmt.Sprintf("no automatic step: it needs an operator since %s (%s)", Clock(line.DeadLetter.OpenedAt),
			line.DeadLetter.Reason)
	case last != nil && last.State.HasEnded():
		return "nothing: it has ended"
	case last != nil && last.State.Waits():
		return "no automatic step: it is " + string(last.State) +
			", and its row in pending is missing (railhead prove run nothing-lost)"
	case last != nil && line.DeadLetter != nil:
		return "nothing: it is " + string(last.State) + ", and its dead letter is closed"
	case last != nil:
		return "no automatic step: it is " + string(last.State) + ", and has no dead letter (railhead prove run nothing-lost)"
	case line.NeverEnqueued:
		return "nothing: its row is gone from pending"
	case line.Lost:
		return "no automatic step: it is lost (railhead prove run nothing-lost)"
	default:
		return "nothing: only its key is left"
	}
}

// putBackNext describes what happens to a row that was put back in pending.
func putBackNext(line reader.Timeline) string {
	by, p := "the next claim", line.Pending
	switch {
	case line.IsOver():
		by = "the reaper"
	case p.Pause != nil:
		by = "the first claim after " + OneLine(p.Pause.What) + " is resumed"
	case p.DueInMS > 0:
		by = "a claim at " + Clock(p.NextAttemptAt)
	}
	said := fmt.Sprintf("%s is not made: its row was put back in pending over a row %s, and %s quarantines it as "+
		"UNCLAIMABLE", p.NextAction, line.PutBackAfter(), by)
	return strings.Join(append([]string{said}, line.NotClaimed...), "; ")
}

// rescheduled is the act of an operator that gave an instruction its due time, or nil.
func rescheduled(line reader.Timeline) *reader.Act {
	for n := range line.Acts { // the newest first
		var due struct {
			To time.Time `json:"to"`
		}
		act := &line.Acts[n]
		if (act.Act == "RESCHEDULE" || act.Act == "SEND_NOW") && json.Unmarshal(act.Detail, &due) == nil &&
			due.To.Equal(line.Pending.NextAttemptAt) {
			return act
		}
	}
	return nil
}

// SayPause describes a pause, with its end if it has one.
func SayPause(p reader.Pause) string {
	ends := ""
	if !p.Until.IsZero() {
		ends = " until " + Clock(p.Until)
	}
	return fmt.Sprintf("%s is paused by %s since %s%s: %s", OneLine(p.What), p.By, Clock(p.At), ends, OneLine(p.Reason))
}

// SayGate describes a closed gate, with its end if it has one.
func SayGate(g reader.ClosedGate) string {
	ends := ""
	if !g.Until.IsZero() {
		ends = " until " + Clock(g.Until)
	}
	return fmt.Sprintf("enqueue is closed for %s by %s since %s%s: %s", OneLine(g.String()), g.By, Clock(g.At), ends,
		OneLine(g.Reason))
}

// waitingFor is the reason why a pending instruction is not due yet.
func waitingFor(p *reader.PendingRow, last *reader.AttemptRow) string {
	switch {
	case last != nil && payment.WasAsked(last.ErrorMessage):
		return "as the rail asked"
	case p.Provisional:
		return "no final word of the rail yet"
	case p.NextAction == "INQUIRE":
		return "by the rail's inquiry schedule"
	default:
		return "backoff"
	}
}

// replayHolds is how long a replay of an unknown outcome is sent to a rail without keys (just_replayed).
const replayHolds = 15 * time.Minute

// oldReplay says that such a replay may not be sent any more.
func oldReplay(line reader.Timeline) string {
	last := lastRow(line)
	if last == nil || last.State != payment.Replayed || !line.Pending.OutcomeUnknown ||
		line.Now.Sub(last.CreatedAt) <= replayHolds {
		return ""
	}
	return "; the replay is older than 15 minutes: where the rail keeps no keys, or the caller allows one send, the " +
		"next claim parks it again"
}

// because names the row that returned an instruction to pending.
func because(last *reader.AttemptRow) string {
	if last == nil {
		return "; never claimed before"
	}
	said := string(last.State)
	switch {
	case last.ErrorCode != "":
		said += " " + last.ErrorCode
	case last.RailCode != "":
		said += " " + last.RailCode
	case last.Result != "" && last.Result != said:
		said += " " + last.Result
	}
	return fmt.Sprintf("; row %d was %s", last.AttemptNo, OneLine(said))
}

func lastRow(line reader.Timeline) *reader.AttemptRow {
	for n := len(line.Attempts) - 1; n >= 0; n-- {
		if line.Attempts[n].State != payment.LateOutcome {
			return &line.Attempts[n]
		}
	}
	return nil
}
