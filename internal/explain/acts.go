package explain

import (
	"strings"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Act is an act of an operator on one payment, and why it is not possible now.
type Act struct {
	Name    string // as the command: acknowledge, escalate, close, replay, resolve, inquire, cancel, send-now
	Command string
	Why     string // empty: it is possible, as far as the rows show
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
}

// Acts returns every act, and for each one that is not possible the reason. An act that ends a dead
// letter is possible where Remedy names it. The database judges once more.
func Acts(line reader.Timeline) []Act {
	remedy := ""
	if line.DeadLetter.Open() {
		remedy = Remedy(line)
	}
	all := make([]Act, 0, len(actCommands))
	for _, act := range actCommands {
		act.Command = "railhead " + act.Command
		named := strings.Contains(remedy, act.Command+" ")
		switch act.Name {
		case "acknowledge", "escalate":
			act.Why = whyNotTriage(line, act.Name)
		case "send-now":
			act.Why = whyNotDue(line)
		case "cancel":
			if act.Why = whyNotUnsettled(line); act.Why == "" && !named {
				act.Why = whyNotCancel(line)
			}
		default:
			act.Why = whyNotEnd(line, act.Name, named)
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
		return "no relayer has confirmed that nothing is missing since the server was started or promoted"
	}
	return ""
}

// whyNotEnd is why an act does not end the dead letter, or ask about it.
func whyNotEnd(line reader.Timeline, name string, named bool) string {
	unsettled := whyNotUnsettled(line)
	switch {
	case !line.DeadLetter.Open():
		return "it has no open dead letter"
	case named && unsettled != "" && (name == "replay" || name == "close"):
		return unsettled
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
	case "inquire":
		return "only a parked payment is asked about, where its rail answers inquiries"
	default:
		return "see what is to be done: an outcome that is known needs no evidence of an operator"
	}
}

func whyNotDue(line reader.Timeline) string {
	switch p := line.Pending; {
	case p == nil:
		return "it is not in pending"
	case p.Quarantine:
		return "it is quarantined"
	case p.DueInMS <= 0:
		return "it is due already"
	}
	return ""
}

func whyNotCancel(line reader.Timeline) string {
	switch word, _ := line.Certainty(); {
	case line.Pending == nil:
		return "it is not in pending"
	case line.PutBackAfter() != "":
		return "its row was put back in pending over a row " + string(line.PutBackAfter())
	case line.Pending.OutcomeUnknown || word != reader.NotSent && word != reader.RailRefused:
		return "a send of it may have been executed"
	}
	return ""
}
