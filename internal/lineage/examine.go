package lineage

import (
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// finding is what a look amounts to: a cause to suspend, a reason to wait for
// others, or neither.
type finding struct {
	cause  outbox.SuspensionCause
	detail string
	wait   string
}

// suspends says what to suspend for. Where this guard misses nothing itself, and waits for no
// other, it takes over what is open: that may have been opened on another start of the server,
// and an operator can accept only what was compared on this one. It is never accepted otherwise.
func (f finding) suspends(open outbox.Suspension, suspended bool) (cause outbox.SuspensionCause, detail string) {
	if f.cause == "" && f.wait == "" && suspended {
		return open.Cause, open.Detail
	}
	return f.cause, f.detail
}

// check is what a guard knows of a look in addition to the facts.
type check struct {
	vanished  bool          // a suspension that it saw open is not there, and no operator has accepted the server since
	compared  bool          // this start of the server was passed before, by this guard or by an operator
	remembers bool          // this guard has a memory at all
	met       time.Duration // since it first saw this start; recovery may last longer than any silence
}

// examine weighs the facts. Memory is empty where there is none, or where an
// operator has compared since it was made. One that is outdated may show what is
// missing, but proves nothing by missing nothing.
func examine(server outbox.Server, memory outbox.Remembered, recall outbox.Recall, check check) finding {
	was := fmt.Sprintf("the server was %s on timeline %d", memory.SystemIdentifier, memory.Timeline)
	is := fmt.Sprintf("it is %s on timeline %d", server.SystemIdentifier, server.Timeline)
	switch {
	case server.AcceptedAt.IsZero() && memory.SystemIdentifier == "":
		return finding{cause: outbox.CauseNewTimeline, detail: "the server is " + server.SystemIdentifier +
			fmt.Sprintf(" on timeline %d, which was never accepted", server.Timeline)}
	case memory.SystemIdentifier != "" && memory.SystemIdentifier != server.SystemIdentifier:
		return finding{cause: outbox.CauseNewServer, detail: was + " and " + is}
	case memory.SystemIdentifier != "" && memory.Timeline != server.Timeline, server.AcceptedAt.IsZero():
		return finding{cause: outbox.CauseNewTimeline, detail: was + " and " + is}
	case memory.LogPosition > server.LogPosition:
		return finding{cause: outbox.CauseLogWentBack, detail: fmt.Sprintf(
			"the write-ahead log ended at %s and ends at %s", position(memory.LogPosition), position(server.LogPosition))}
	case check.vanished:
		return finding{cause: outbox.CauseRowsMissing, detail: "a suspension that no operator has ended is not there any more"}
	case recall.BeatsMissing:
		return finding{cause: outbox.CauseRowsMissing, detail: fmt.Sprintf(
			"%d heartbeats of %s were confirmed and are not there", memory.Beats, memory.Name)}
	case recall.ClaimMissing:
		return finding{cause: outbox.CauseRowsMissing, detail: fmt.Sprintf(
			"the claim in row %d of %s was confirmed and is not there", memory.AttemptNo, memory.OutboxID)}
	case check.compared, recall.Vouched:
		return finding{}
	case len(recall.Awaited) > 0 && check.met < recall.AwaitedFor:
		return finding{wait: "the server was started, and has to be compared with what these remember: " + list(recall.Awaited)}
	case check.remembers && !recall.Outdated, !recall.Known:
		return finding{}
	case check.met < recall.AwaitedFor+recall.Patience:
		return finding{wait: "the server was started, and nothing here remembers it from before: one that does may vouch for it"}
	default:
		return finding{cause: outbox.CauseNoMemory, detail: "the server was started since a relayer last ran, and nothing remembers " +
			"it from before (RAILHEAD_STATE_DIR keeps that): a plain start can't be told from a snapshot that was put back"}
	}
}

// position writes bytes of write-ahead log as PostgreSQL does.
func position(bytes int64) string { return fmt.Sprintf("%X/%X", bytes>>32, uint32(bytes)) }
