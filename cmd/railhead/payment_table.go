package main

import (
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// writeTimeline writes a timeline as text: a head of names and values, then a
// line for each row of the archive and each operator's act.
func writeTimeline(o output, line reader.Timeline, withPayload bool) error {
	word, why := line.Certainty()
	head := [][2]string{
		{"amount", fmt.Sprintf("%s %s on rail %s", orDash(line.Amount), line.Currency, orDash(line.RailType))},
		{"participant", fmt.Sprintf("%s, sequence %d", line.ParticipantID, line.SequenceID)},
		{"instruction", fmt.Sprintf("%s, key %s", line.InstructionID, line.IdempotencyKey)},
		{"rail key", orDash(line.RailKey)},
		{"enqueued", enqueuedBy(line)},
		{"state", o.paint(orDash(line.State), toneOfState(line.State))},
		{"money", o.paint(moneyWords(word), toneOfMoney(word)) + ": " + oneLine(why)},
		{"next", nextStep(line)},
	}
	if p := line.Priority; p != nil && *p != payment.PriorityNormal.Number() {
		head = append(head, [2]string{"priority", map[int]string{0: "urgent", 2: "bulk"}[*p]})
	}
	if !line.ExpiresAt.IsZero() {
		head = append(head, [2]string{"expires", clock(line.ExpiresAt)})
	}
	if line.SendOnce {
		head = append(head, [2]string{"send once",
			"its caller allows one send: after one that may have reached the rail only an operator's replay sends it again"})
	}
	if d := line.DeadLetter; d != nil {
		head = append(head, [2]string{"dead letter", letterLine(d)}, [2]string{"when opened", openingLine(d)})
	}
	if withPayload {
		head = append(head, [2]string{"payload", oneLine(string(line.Payload))},
			[2]string{"headers", oneLine(string(line.Headers))})
	}
	if err := o.text("%s\n", o.paint("payment "+line.OutboxID.String(), strong)); err != nil {
		return err
	}
	for _, field := range head {
		if err := o.text("  %-12s %s\n", field[0], field[1]); err != nil {
			return err
		}
	}
	return writeEvents(o, line)
}

// enqueuedBy is the time of the enqueue and its login, or that the registry has no row of it.
func enqueuedBy(line reader.Timeline) string {
	if line.NeverEnqueued {
		return "never: the registry has no row of it; its rows give " + clock(line.EnqueuedAt)
	}
	return fmt.Sprintf("%s by %s, %s ago", clock(line.EnqueuedAt), line.EnqueuedBy, span(millis(line.AgeMS)))
}

func letterLine(d *reader.DeadLetter) string {
	text := string(d.Reason)
	if d.ErrorCode != "" {
		text += " (" + oneLine(d.ErrorCode) + ")"
	}
	if d.Actor == "" {
		text += fmt.Sprintf(", %s since %s", d.Status, clock(d.OpenedAt))
	} else {
		text += fmt.Sprintf(", opened %s; %s by %s at %s", clock(d.OpenedAt), d.Status, oneLine(d.Actor), clock(d.UpdatedAt))
	}
	if d.Note != "" {
		text += ": " + oneLine(d.Note)
	}
	return text
}

// openingLine is the content of the rows when the letter was last opened.
func openingLine(d *reader.DeadLetter) string {
	text := "never claimed"
	switch {
	case d.Attempts == 1:
		text = "claimed once, at " + clock(d.FirstAttemptAt)
	case d.Attempts > 1:
		text = fmt.Sprintf("claimed %d times, first at %s, last at %s", d.Attempts, clock(d.FirstAttemptAt),
			clock(d.LastAttemptAt))
	}
	if d.RailCode != "" {
		text += "; the rail's code was " + oneLine(d.RailCode)
	}
	if d.ErrorMessage != "" {
		text += "; the latest answer said: " + oneLine(d.ErrorMessage)
	}
	return text
}

// moneyWords are the words of a certainty: "outcome unknown".
func moneyWords(word reader.Certainty) string {
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

func toneOfMoney(word reader.Certainty) tone {
	switch word {
	case reader.RailAccepted, reader.ExecutedByEvidence:
		return good
	case reader.OutcomeUnknown, reader.Contradicted:
		return alarm
	default:
		return warn
	}
}

func toneOfState(state string) tone {
	switch payment.State(state) {
	case payment.Dispatched:
		return good
	case payment.Failed, payment.Parked, payment.Unknown, payment.ZombieRequeue, "CONFLICT":
		return alarm
	case payment.Retryable, payment.LateOutcome:
		return warn
	default:
		return plain
	}
}
