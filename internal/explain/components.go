package explain

import (
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// clockAlarmMS is from when clocks differ too much: sends start within seconds.
const clockAlarmMS = 1000

// ClockOffset shows by how much the database's clock is ahead of a host's.
func ClockOffset(offsetMS int64) (string, Tone) {
	tone := Plain
	if offsetMS >= clockAlarmMS || offsetMS <= -clockAlarmMS {
		tone = Warn
	}
	return fmt.Sprintf("%+d ms", offsetMS), tone
}

// ToneOfFreshness returns the tone of the freshness of a heartbeat.
func ToneOfFreshness(freshness reader.Freshness) Tone {
	return map[reader.Freshness]Tone{reader.Fresh: Good, reader.Warning: Warn, reader.Stale: Alarm}[freshness]
}

// Replaced reports whether another component of the kind was started after the last heartbeat of a
// stale one. Alerts do not count such a component. The heartbeats are those of a status as of now.
func Replaced(beat reader.Beat, all []reader.Beat, now time.Time) bool {
	last := now.Add(-Millis(beat.AgeMS))
	for _, other := range all {
		if beat.Freshness == reader.Stale && other.Kind == beat.Kind && other.StartedAt.After(last) {
			return true
		}
	}
	return false
}

// Heartbeat describes what follows from the age of a component's heartbeat. Replaced is as the
// function of that name returns it.
func Heartbeat(beat reader.Beat, replaced bool) string {
	after := Span(Millis(beat.StaleAfterMS))
	switch beat.Freshness {
	case reader.Fresh:
		return "its heartbeat is fresh"
	case reader.Warning:
		return "its last heartbeat is older than half of " + after + ", from which on it counts as dead"
	case reader.Stopped:
		return "it announced its stop"
	case reader.Stale:
	default:
		return ""
	}
	said := "it has announced no stop, and counts as dead since its last heartbeat is older than " + after
	switch beat.Kind {
	case "relayer":
		said += ": it starts no send, and a reaper may repair its claims"
	case "reaper":
		said += ": unless another reaper runs, no claim is repaired and nothing expires"
	case "ingest":
		said += ": callers may have no answer from its address"
	case "callback":
		said += ": it accepts no report of a rail, and rails repeat theirs"
	case "events":
		said += ": another process may take over its endpoints once its leases have ended"
	}
	if replaced {
		said += "; another one of its kind was started after that heartbeat"
	}
	return said
}

// Serving describes which binaries work on a cell.
func Serving(schema reader.Schema) string {
	said := fmt.Sprintf("The cell is at migration %d.", schema.Migration)
	switch {
	case schema.Migration == 0:
		return "The cell has no stamp of a migration."
	case schema.Serves == schema.Migration:
		said += fmt.Sprintf(" Binaries of migration %d work on it, and older ones do not.", schema.Migration)
	default:
		said += fmt.Sprintf(" Binaries of the migrations %d to %d work on it.", schema.Serves, schema.Migration)
	}
	return said + fmt.Sprintf(" This one is of migration %d.", schema.OfBuild)
}
