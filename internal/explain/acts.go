package explain

import (
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Act is an act of an operator on one payment, and why it is not possible now.
type Act struct {
	Name    string // as the command: acknowledge, escalate, close, replay, resolve, inquire, cancel, skip, send-now
	Command string
	Why     string // empty: it is possible, as far as the rows show
	// Verdicts are what the evidence of resolve may say; the other acts have none.
	Verdicts []Verdict
}

// actCommands are the acts in the order in which they are offered.
var actCommands = []Act{
	{Name: "acknowledge", Command: "dead-letter acknowledge"},
	{Name: "escalate", Command: "dead-letter escalate"},
	{Name: "inquire", Command: "payment inquire"},
	{Name: "resolve", Command: "dead-letter resolve"},
	{Name: "replay", Command: "dead-letter replay"},
	{Name: "close", Command: "dead-letter close"},
	{Name: "send-now", Command: "payment send-now"},
	{Name: "cancel", Command: "payment cancel"},
	{Name: "skip", Command: "payment skip"},
}

// Acts returns every act, and for each one that is not possible the reason. A dead letter is ended by what the
// remedy names. The database judges once more.
func Acts(line reader.Timeline) []Act {
	var names named
	if line.DeadLetter.Open() {
		names = wayOf(line).names
	}
	all := make([]Act, 0, len(actCommands))
	for _, act := range actCommands {
		act.Command = "railhead " + act.Command
		switch act.Name {
		case "acknowledge", "escalate":
			act.Why = whyNotTriage(line, act.Name)
		case "close":
			act.Why = whyNotEnd(line, act.Name, names.close)
		case "replay":
			act.Why = whyNotEnd(line, act.Name, names.replay)
			if replayNeedsExpiry(line) {
				act.Command += " --expires-at TIME"
			}
		case "inquire":
			act.Why = whyNotEnd(line, act.Name, names.inquire)
		case "resolve":
			act.Verdicts = verdictsOf(line)
			act.Why = whyNotResolve(act.Verdicts)
		case "send-now":
			act.Why = whyNotDue(line)
		case "cancel":
			act.Why = whyNotCancel(line)
		case "skip":
			act.Why = whyNotSkip(line)
		}
		all = append(all, act)
	}
	return all
}

func whyNotTriage(line reader.Timeline, name string) string {
	status := map[string]payment.LetterStatus{
		"acknowledge": payment.LetterAcknowledged, "escalate": payment.LetterEscalated,
	}[name]
	switch {
	case !line.DeadLetter.Open():
		return "it has no open dead letter"
	case line.DeadLetter.Status == string(status):
		return "its dead letter is " + line.DeadLetter.Status
	}
	return ""
}

// whyNotUnsettled is why nothing is ended that a restore may have forgotten a send of.
func whyNotUnsettled(line reader.Timeline) string {
	switch {
	case !line.SuspendedAt.IsZero():
		return "lanes are suspended since " + Clock(line.SuspendedAt) + ": end that first, by railhead timeline accept"
	case line.Unconfirmed:
		return "no relayer has confirmed " + reader.NothingMissing
	}
	return ""
}

// whyNotEnd is why an act does not end the dead letter, or ask about it.
func whyNotEnd(line reader.Timeline, name string, named bool) string {
	switch {
	case !line.DeadLetter.Open():
		return "it has no open dead letter"
	case named && name != "inquire":
		return whyNotUnsettled(line)
	case named:
		return ""
	}
	switch name {
	case "close":
		return "a dead letter is closed only where the payment was provably not made; else it is resolved, with evidence"
	case "replay":
		if word, _ := line.Certainty(); word == reader.OutcomeUnknown || word == reader.Contradicted {
			return "it may have been paid, and would be sent again"
		}
		return "see what is to be done"
	default:
		return "only a parked payment is asked about, where its rail answers inquiries and is not paused"
	}
}

// whyNotDue is why a payment can't be made due now.
func whyNotDue(line reader.Timeline) string {
	switch p := line.Pending; {
	case line.NeverEnqueued:
		return neverEnqueuedHere
	case p == nil:
		return "it is not in pending"
	case p.Quarantine:
		return "it is quarantined"
	case line.PutBackAfter() != "":
		return "its row was put back in pending over a row " + string(line.PutBackAfter())
	case p.NextAction == string(payment.ActionSend) && line.IsLate():
		return "it is over since " + Clock(line.ExpiresAt.Time) + ", and is not sent any more"
	case p.NextAction == string(payment.ActionInquire) && !line.RailAsks:
		return "it waits for the rail's callback, and the rail answers no inquiries"
	case p.DueInMS <= 0:
		return "it is due already"
	}
	return ""
}

// whyNotCancel is why a payment can't be cancelled.
func whyNotCancel(line reader.Timeline) string {
	switch {
	case line.NeverEnqueued:
		return neverEnqueuedHere
	case line.Pending == nil:
		return "it is not in pending"
	case line.PutBackAfter() != "":
		return "its row was put back in pending over a row " + string(line.PutBackAfter())
	case line.Pending.OutcomeUnknown:
		return "a send of it may have been executed"
	}
	return whyNotUnsettled(line)
}

// whyNotSkip is why the line of a participant can't go on past a payment.
func whyNotSkip(line reader.Timeline) string {
	switch {
	case line.Order == nil || line.Order.OutboxID != line.OutboxID || line.Order.HeldBy == "":
		return "it is not the head of a line, behind which others wait in order"
	case line.Pending != nil:
		return "it is in pending: only one that has ended or is parked is passed"
	case payment.State(line.Order.HeldBy).IsClaim():
		return "it is in flight: only one that has ended or is parked is passed"
	}
	return ""
}
