package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

func paymentCommand() *cobra.Command {
	return group("payment", "Show instructions and their outcomes, follow them, and act on one", paymentShowCommand(),
		paymentListCommand(), withProgress(paymentTailCommand()), paymentInquireCommand(),
		paymentSendNowCommand(), paymentRescheduleCommand(), paymentCancelCommand())
}

func paymentShowCommand() *cobra.Command {
	withPayload := false
	command := &cobra.Command{
		Use: "show ID", Short: "Show everything that is known about one instruction",
		Long: "Show everything that is known about one instruction, in one snapshot: the order, what is certain about the\n" +
			"money, what happens next and why, and its history in order of time: the enqueue, every claim with its\n" +
			"worker, every outcome, inquiry, repair and callback, the acts of operators, and the acts that are possible\n" +
			"if it needs one.\n\n" +
			"ID is an outbox id, a rail key, an instruction id or the rail's own reference. The payload is shown only\n" +
			"with --payload. Connects with RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				found, err := reader.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if len(found) > 1 {
					return usage(severalFound(args[0], found))
				}
				line, err := reader.Timeline(cmd.Context(), found[0].OutboxID)
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(shownOf(line, withPayload))
				}
				if err := writeTimeline(o, line, withPayload); err != nil || !line.DeadLetter.Open() {
					return err
				}
				return o.text("\n%s\n", remedy(line))
			})
		},
	}
	command.Flags().BoolVar(&withPayload, "payload", false, "show payload and headers too")
	return command
}

// severalFound lists what an ID may mean; the caller says which.
func severalFound(id string, found []reader.Found) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%q means %d instructions; name one by its outbox id:", bounded(id, 128), len(found))
	for _, one := range found {
		fmt.Fprintf(&text, "\n  %s  participant %s, sequence %d, enqueued %s", one.OutboxID, one.ParticipantID,
			one.SequenceID, clock(one.EnqueuedAt))
	}
	return errors.New(text.String())
}

// shown is the JSON of payment show: a timeline, with its meaning.
type shown struct {
	reader.Timeline
	Money   moneyLine       `json:"money"`
	Next    string          `json:"next"`
	Remedy  string          `json:"remedy,omitempty"` // what an operator has to do
	Story   []event         `json:"timeline"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Headers json.RawMessage `json:"headers,omitempty"`
}

type moneyLine struct {
	Certainty reader.Certainty  `json:"certainty"`
	Why       string            `json:"why"`
	Evidence  *reader.Testimony `json:"by_evidence,omitempty"` // of an operator; else it is not by evidence
}

func shownOf(line reader.Timeline, withPayload bool) shown {
	word, why := line.Certainty()
	s := shown{Timeline: line, Money: moneyLine{word, why, line.Testimony()}, Next: nextStep(line), Story: eventsOf(line)}
	if line.DeadLetter.Open() {
		s.Remedy = remedy(line)
	}
	if withPayload {
		s.Payload, s.Headers = line.Payload, line.Headers
	}
	return s
}

// nextStep describes what happens next to an instruction, and why.
func nextStep(line reader.Timeline) string {
	last := lastRow(line)
	switch p := line.Pending; {
	case p != nil && p.Quarantine:
		return "no automatic step: it could not be claimed and is quarantined until an operator acts"
	case p != nil && line.PutBackAfter() != "":
		return putBackNext(line)
	case line.IsOver():
		ends := "ends"
		if !line.RepeatsSince.IsZero() {
			ends = "parks"
		}
		said := fmt.Sprintf("the reaper %s it as EXPIRED: it is over since %s, and is not claimed any more", ends,
			clock(line.ExpiresAt))
		if !line.SuspendedAt.IsZero() {
			said += "; not before the suspension since " + clock(line.SuspendedAt) + " is ended"
		} else if line.Unconfirmed {
			said += "; not before a relayer has confirmed that nothing is missing since the server was started or promoted"
		}
		return said
	case p != nil && p.Pause != nil:
		return "waits: " + sayPause(*p.Pause)
	case p != nil && line.SendOnce && !line.SuspendedAt.IsZero() && p.NextAction == string(payment.ActionSend) &&
		!p.OutcomeUnknown:
		said := "waits until the suspension since " + clock(line.SuspendedAt) +
			" is ended: its caller allows one send, and the database may have forgotten one that was made"
		if p.DueInMS > 0 {
			said += "; it is due at " + clock(p.NextAttemptAt)
		}
		return strings.Join(append([]string{said}, line.NotClaimed...), "; ")
	case p != nil && p.DueInMS > 0 && rescheduled(line) != nil:
		act := rescheduled(line)
		return fmt.Sprintf("%s in %s: not before %s, by %s: %s", p.NextAction, span(millis(p.DueInMS)),
			clock(p.NextAttemptAt), act.Actor, oneLine(act.Reason))
	case p != nil && p.DueInMS > 0 && last == nil:
		return fmt.Sprintf("%s in %s: not before %s, by its caller", p.NextAction, span(millis(p.DueInMS)),
			clock(p.NextAttemptAt))
	case p != nil && p.DueInMS > 0:
		return fmt.Sprintf("%s in %s, at %s (%s)%s", p.NextAction, span(millis(p.DueInMS)), clock(p.NextAttemptAt),
			waitingFor(p), because(last))
	case p != nil:
		said := fmt.Sprintf("%s, due since %s%s", p.NextAction, span(millis(p.DueInMS)), because(last))
		return strings.Join(append([]string{said}, line.NotClaimed...), "; ")
	case last != nil && last.State.IsClaim():
		return fmt.Sprintf("in flight with %s for %s; a reaper repairs it if it is open at the claim timeout, "+
			"or earlier if its worker stops", oneLine(last.WorkerID),
			span(line.Now.Sub(last.CreatedAt)))
	case line.DeadLetter.Open():
		return fmt.Sprintf("no automatic step: it needs an operator since %s (%s)", clock(line.DeadLetter.OpenedAt),
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
		by = "the first claim after " + oneLine(p.Pause.What) + " is resumed"
	case p.DueInMS > 0:
		by = "a claim at " + clock(p.NextAttemptAt)
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

// sayPause describes a pause, with its end if it has one.
func sayPause(p reader.Pause) string {
	ends := ""
	if !p.Until.IsZero() {
		ends = " until " + clock(p.Until)
	}
	return fmt.Sprintf("%s is paused by %s since %s%s: %s", oneLine(p.What), p.By, clock(p.At), ends, oneLine(p.Reason))
}

// waitingFor is the reason why a pending instruction is not due yet.
func waitingFor(p *reader.PendingRow) string {
	switch {
	case p.Provisional:
		return "no final word of the rail yet"
	case p.NextAction == "INQUIRE":
		return "by the rail's inquiry schedule"
	default:
		return "backoff"
	}
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
	return fmt.Sprintf("; row %d was %s", last.AttemptNo, oneLine(said))
}

func lastRow(line reader.Timeline) *reader.AttemptRow {
	for n := len(line.Attempts) - 1; n >= 0; n-- {
		if line.Attempts[n].State != payment.LateOutcome {
			return &line.Attempts[n]
		}
	}
	return nil
}
