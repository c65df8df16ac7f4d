package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Tone is how urgent a word is: the colour that it is shown in.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Warn  Tone = "warn"
	Alarm Tone = "alarm"
)

// Fact is a line of what is known about a payment. The Word comes first, in its tone.
type Fact struct {
	Name, Word string
	Tone       Tone
	Text       string
}

// Head returns what is known about a payment, except its history: the order, what is certain
// about the money, what happens next, and its dead letter.
func Head(line reader.Timeline) []Fact {
	word, why := line.Certainty()
	head := []Fact{
		{Name: "amount", Text: fmt.Sprintf("%s %s on rail %s", OrDash(line.Amount), line.Currency, OrDash(line.RailType))},
		{Name: "participant", Text: fmt.Sprintf("%s, sequence %d", line.ParticipantID, line.SequenceID)},
		{Name: "instruction", Text: fmt.Sprintf("%s, key %s", line.InstructionID, line.IdempotencyKey)},
		{Name: "rail key", Text: OrDash(line.RailKey)},
		{Name: "enqueued", Text: EnqueuedBy(line)},
		{Name: "state", Word: OrDash(line.State), Tone: ToneOfState(line.State)},
		{Name: "money", Word: MoneyWords(word), Tone: ToneOfMoney(word), Text: ": " + OneLine(why)},
		{Name: "next", Text: NextStep(line)},
		{Name: "last row", Text: lastRowLine(line)},
	}
	if p := line.Priority; p != nil && *p != payment.PriorityNormal.Number() {
		head = append(head, Fact{Name: "priority", Text: map[int]string{0: "urgent", 2: "bulk"}[*p]})
	}
	if !line.ExpiresAt.IsZero() {
		head = append(head, Fact{Name: "expires", Text: Clock(line.ExpiresAt.Time)})
	}
	if line.SendOnce {
		head = append(head, Fact{Name: "send once", Text: "its caller allows one send: after one that may have reached " +
			"the rail only an operator's replay sends it again"})
	}
	if d := line.DeadLetter; d != nil {
		head = append(head, Fact{Name: "dead letter", Text: LetterLine(d)}, Fact{Name: "when opened", Text: OpeningLine(d)})
	}
	return head
}

// LastRow is the number of the last row of an instruction, by which an act names what a person saw; 0: it has none.
func LastRow(line reader.Timeline) int {
	if n := len(line.Attempts); n > 0 {
		return line.Attempts[n-1].AttemptNo
	}
	return 0
}

func lastRowLine(line reader.Timeline) string {
	if LastRow(line) == 0 {
		return "none (--row 0)"
	}
	return strconv.Itoa(LastRow(line))
}

// EnqueuedBy is the time of the enqueue and its login, or that the registry has no row of it.
func EnqueuedBy(line reader.Timeline) string {
	if line.NeverEnqueued {
		return "never: the registry has no row of it; its rows give " + Clock(line.EnqueuedAt)
	}
	return fmt.Sprintf("%s by %s, %s ago", Clock(line.EnqueuedAt), line.EnqueuedBy, Span(Millis(line.AgeMS)))
}

// LetterLine describes a dead letter: its reason, its status and who changed that last.
func LetterLine(d *reader.DeadLetter) string {
	text := string(d.Reason)
	if d.ErrorCode != "" {
		text += " (" + OneLine(d.ErrorCode) + ")"
	}
	if d.Actor == "" {
		text += fmt.Sprintf(", %s since %s", d.Status, Clock(d.OpenedAt))
	} else {
		text += fmt.Sprintf(", opened %s; %s by %s at %s", Clock(d.OpenedAt), d.Status, OneLine(d.Actor), Clock(d.UpdatedAt))
	}
	if d.Note != "" {
		text += ": " + OneLine(d.Note)
	}
	return text
}

// OpeningLine is the content of the rows when the letter was last opened.
func OpeningLine(d *reader.DeadLetter) string {
	text := "never claimed"
	switch {
	case d.Attempts == 1:
		text = "claimed once, at " + Clock(d.FirstAttemptAt)
	case d.Attempts > 1:
		text = fmt.Sprintf("claimed %d times, first at %s, last at %s", d.Attempts, Clock(d.FirstAttemptAt),
			Clock(d.LastAttemptAt))
	}
	if d.RailCode != "" {
		text += "; the rail's code was " + OneLine(d.RailCode)
	}
	if d.ErrorMessage != "" {
		text += "; the latest answer said: " + OneLine(d.ErrorMessage)
	}
	return text
}

// MoneyWords are the words of a certainty: "outcome unknown".
func MoneyWords(word reader.Certainty) string {
	switch word {
	case reader.OutcomeUnknown:
		return "outcome unknown"
	case reader.ExecutedByEvidence:
		return "executed"
	case reader.NotExecutedByEvidence:
		return "not executed"
	default:
		return strings.ToLower(strings.ReplaceAll(string(word), "_", " "))
	}
}

// ToneOfMoney returns the tone of a certainty.
func ToneOfMoney(word reader.Certainty) Tone {
	switch word {
	case reader.RailAccepted, reader.ExecutedByEvidence:
		return Good
	case reader.OutcomeUnknown, reader.Contradicted:
		return Alarm
	default:
		return Warn
	}
}

// ToneOfState returns the tone of a state.
func ToneOfState(state string) Tone {
	switch payment.State(state) {
	case payment.Dispatched:
		return Good
	case payment.Failed, payment.Parked, payment.Unknown, payment.ZombieRequeue, "CONFLICT":
		return Alarm
	case payment.Retryable, payment.LateOutcome:
		return Warn
	default:
		return Plain
	}
}

// ToneOfReason returns the tone of the reason of a dead letter.
func ToneOfReason(reason payment.DeadReason) Tone {
	switch reason {
	case payment.DeadFailed, payment.DeadExpired:
		return Warn
	default:
		return Alarm
	}
}
