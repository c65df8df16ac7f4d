package explain

import (
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// EndpointState describes whether a process delivers to an endpoint.
func EndpointState(e outbox.ListedEndpoint, now time.Time) (string, Tone) {
	// What has come after its place is counted nowhere: that nothing waits does not say that it has accepted all.
	const still = "; neither what waits nor what comes after READ UNTIL is delivered"
	switch {
	case !e.PausedAt.IsZero():
		return "paused: " + OneLine(e.PauseReason) + still, Alarm
	case e.LeaseUntil.Before(now):
		return "no process has it" + still, Alarm
	default:
		return "has a process", Plain
	}
}

// HeldEvents names the transaction that holds events back, and rows that none holds back.
func HeldEvents(held reader.HeldEvents) string {
	ahead := ""
	if !held.Ahead.IsZero() {
		ahead = "rows of another server, the next one of " + Clock(held.Ahead) + ", have transaction numbers that this one " +
			"has yet to reach: callers get them then, also those that they had already"
	}
	if held.Since.IsZero() {
		if ahead != "" {
			return ahead
		}
		return "no row is held from callers"
	}
	said := "rows since " + Clock(held.Since) + " are held from callers: the oldest transaction "
	switch {
	case held.Prepared != "":
		said += "is the prepared one " + OneLine(held.Prepared)
	case held.PID != 0:
		said += fmt.Sprintf("is that of process %d, login %s, database %s, application %q",
			held.PID, OrDash(OneLine(held.Login)), OrDash(OneLine(held.Database)), OneLine(held.Application))
	default:
		said += "has ended since"
	}
	if ahead != "" {
		said += "; " + ahead
	}
	return said
}
