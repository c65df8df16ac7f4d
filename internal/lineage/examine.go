package lineage

import (
	"fmt"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// finding is the result of a comparison: a cause to suspend, a reason to wait for other
// components, or neither.
type finding struct {
	cause  outbox.SuspensionCause
	detail string
	wait   string
}

// suspends returns the cause and detail of the suspension to open. If nothing is missing for
// this guard and it waits for no other, it takes over the open suspension: that may have been
// opened on another start of the server, and an operator can accept only a suspension of this
// start.
func (f finding) suspends(open outbox.Suspension, suspended bool) (cause outbox.SuspensionCause, detail string) {
	if f.cause == "" && f.wait == "" && suspended {
		return open.Cause, open.Detail
	}
	return f.cause, f.detail
}

// check has the facts of a comparison that the guard itself contributes.
type check struct {
	vanished  bool          // an open suspension has disappeared, and no operator has accepted the server since
	compared  bool          // this start of the server passed before, or was accepted by an operator
	remembers bool          // this guard has a memory
	met       time.Duration // since it first saw this start: recovery may last longer than AwaitedFor
}

// examine decides by the facts. Memory is empty if there is none, or if an operator has
// compared since it was written. An outdated memory can show that rows are missing, but not
// that none are.
func examine(server outbox.Server, memory outbox.Remembered, recall outbox.Recall, check check) finding {
	was := fmt.Sprintf("the server was %s on timeline %d", memory.SystemIdentifier, memory.Timeline)
	is := fmt.Sprintf("it is %s on timeline %d", server.SystemIdentifier, server.Timeline)
	switch {
	case server.AcceptedAt.IsZero() && memory.SystemIdentifier == "":
		return finding{cause: outbox.CauseNewTimeline, detail: "the server is " + server.SystemIdentifier +
			fmt.Sprintf(" on timeline %d, which was not accepted with the present rows", server.Timeline)}
	case memory.SystemIdentifier != "" && memory.SystemIdentifier != server.SystemIdentifier:
		return finding{cause: outbox.CauseNewServer, detail: was + " and " + is}
	case memory.SystemIdentifier != "" && memory.Timeline != server.Timeline:
		return finding{cause: outbox.CauseNewTimeline, detail: was + " and " + is}
	case server.AcceptedAt.IsZero():
		return finding{cause: outbox.CauseNewTimeline, detail: is +
			", as before, and was accepted with other rows: a dump was loaded, or the acceptance is missing"}
	case memory.LogPosition > server.LogPosition:
		return finding{cause: outbox.CauseLogWentBack, detail: fmt.Sprintf(
			"the write-ahead log ended at %s and ends at %s", position(memory.LogPosition), position(server.LogPosition))}
	case check.vanished:
		return finding{cause: outbox.CauseRowsMissing, detail: "a suspension that no operator has ended is missing"}
	case recall.BeatsMissing:
		return finding{cause: outbox.CauseRowsMissing, detail: fmt.Sprintf(
			"%d heartbeats of %s were confirmed and are missing", memory.Beats, memory.Name)}
	case recall.ClaimMissing:
		return finding{cause: outbox.CauseRowsMissing, detail: fmt.Sprintf(
			"the claim in row %d of %s was confirmed and is missing", memory.AttemptNo, memory.OutboxID)}
	case check.compared, recall.Vouched:
		return finding{}
	case len(recall.Awaited) > 0 && check.met < recall.AwaitedFor:
		return finding{wait: "the server was started, and these have to compare it with their memory: " +
			strings.Join(recall.Awaited, ", ")}
	case check.remembers && !recall.Outdated, !recall.Known:
		return finding{}
	case check.met < recall.AwaitedFor+recall.Patience:
		return finding{wait: "no relayer or reaper has compared this start of the server, and this service has no memory " +
			"from before: waiting for one that has"}
	default:
		return finding{cause: outbox.CauseNoMemory, detail: "a relayer has run on this cell, no relayer or " +
			"reaper has compared this start of the server, and none has a memory from before (in RAILHEAD_STATE_DIR): " +
			"a plain start can't be distinguished from a restored snapshot"}
	}
}

// position formats a position in the write-ahead log as PostgreSQL does.
func position(bytes int64) string { return fmt.Sprintf("%X/%X", bytes>>32, uint32(bytes)) }
