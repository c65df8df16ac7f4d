package explain

import (
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// DeliveryLines describes how far the events of a payment are delivered to an endpoint: first up to which
// row, then each event that the endpoint has not accepted.
func DeliveryLines(d reader.Delivery) []Fact {
	head := Fact{Name: d.Endpoint}
	switch {
	case d.LastNo == 0:
		head.Text = "there is no event of it yet"
	case d.PassedNo == 0:
		head.Text, head.Tone = fmt.Sprintf("the endpoint has not come to its events yet, up to row %d", d.LastNo), Warn
	case d.PassedNo < d.LastNo:
		head.Text, head.Tone = fmt.Sprintf("the endpoint has come to row %d of %d", d.PassedNo, d.LastNo), Warn
	default:
		head.Text = fmt.Sprintf("the endpoint has come to row %d, the last one", d.LastNo)
	}
	if d.PassedNo > 0 {
		except := ""
		if len(d.Waiting) > 0 {
			except = ", except those named here,"
		}
		head.Text += ": each event until then" + except + " was accepted or discarded, was not for this endpoint, or is " +
			"from before the endpoint was to begin"
	}
	if !d.PausedAt.IsZero() {
		head.Text, head.Tone = head.Text+"; the endpoint is paused since "+Clock(d.PausedAt), Warn
	}
	lines := []Fact{head}
	for n, event := range d.Waiting {
		lines = append(lines, waitingLine(d.Endpoint, event, n > 0))
	}
	return lines
}

// waitingLine describes an event that waits. It is behind if an earlier one of the payment waits.
func waitingLine(endpoint string, event reader.WaitingEvent, behind bool) Fact {
	line := Fact{Name: endpoint, Text: fmt.Sprintf("%s of row %d", event.Type, event.AttemptNo), Tone: Warn}
	switch {
	case event.Tries > 0:
		line.Text += fmt.Sprintf(" was not accepted in %s, last at %s: %s", tries(event.Tries), Clock(event.FailedAt),
			OneLine(event.Status))
	case !event.FailedAt.IsZero(): // only redeliver counts from the beginning again
		line.Text += fmt.Sprintf(" was not accepted at %s: %s; an operator has asked for it again since",
			Clock(event.FailedAt), OneLine(event.Status))
	default:
		line.Text += " waits; no try of it has failed"
	}
	if behind {
		line.Text += "; it comes after an earlier one of this payment"
	}
	switch {
	case event.NextAt.IsZero():
		line.Text += "; it is not tried again until an operator asks: railhead events redeliver " + endpoint
		line.Tone = Alarm
	case event.Tries > 0 && !behind:
		line.Text += "; the next try is at " + Clock(event.NextAt)
	case !behind:
		line.Text += "; it is due since " + Clock(event.NextAt)
	}
	return line
}

func tries(n int) string {
	if n == 1 {
		return "one try"
	}
	return fmt.Sprintf("%d tries", n)
}

// WithDeliveries adds the last failed delivery of each event to the history.
func WithDeliveries(events []Event, deliveries []reader.Delivery) []Event {
	for _, d := range deliveries {
		for _, waits := range d.Waiting {
			if waits.FailedAt.IsZero() {
				continue
			}
			at := slices.IndexFunc(events, func(e Event) bool { return e.At.After(waits.FailedAt) })
			if at < 0 {
				at = len(events)
			}
			events = slices.Insert(events, at, Event{
				At: waits.FailedAt, What: fmt.Sprintf("the delivery of %s of row %d failed", waits.Type, waits.AttemptNo),
				By: "endpoint " + d.Endpoint, Note: waits.Status,
			})
		}
	}
	return events
}
