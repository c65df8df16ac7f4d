package lineage

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// facts is one cell of the truth table: what a look may find, each by itself.
type facts struct {
	accepted, memory, otherSystem, otherTimeline, longerLog bool
	beats, claim, vanished                                  bool // are missing
	compared, vouched, known, outdated, awaited             bool
	met                                                     time.Duration
}

const (
	awaitedFor = 15 * time.Second
	patience   = 10 * time.Second
)

func (f facts) examine() finding {
	server := outbox.Server{SystemIdentifier: "71", Timeline: 2, LogPosition: 1 << 33}
	if f.accepted {
		server.AcceptedAt = time.Unix(1, 0)
	}
	var memory outbox.Remembered
	if f.memory {
		memory = outbox.Remembered{SystemIdentifier: "71", Timeline: 2, LogPosition: 1 << 33, Name: "relayer-1", Beats: 7,
			AttemptNo: 1}
		if f.otherSystem {
			memory.SystemIdentifier = "70"
		}
		if f.otherTimeline {
			memory.Timeline = 1
		}
		if f.longerLog {
			memory.LogPosition++
		}
	}
	recall := outbox.Recall{Patience: patience, BeatsMissing: f.beats, ClaimMissing: f.claim, Vouched: f.vouched,
		Known: f.known, Outdated: f.outdated}
	if f.awaited {
		recall.Awaited, recall.AwaitedFor = []string{"relayer-2", "relayer-3"}, awaitedFor
	}
	return examine(server, memory, recall, check{vanished: f.vanished, compared: f.compared, remembers: f.memory,
		met: f.met})
}

// expected says what must be found. It goes from the weakest reason to the
// strongest, and the last one that holds is it.
func (f facts) expected() (cause outbox.SuspensionCause, waits bool) {
	proven := f.compared || f.vouched
	knows := f.memory && !f.outdated
	var silence time.Duration
	if f.awaited {
		silence = awaitedFor
	}
	if !proven && !knows && f.known {
		cause = outbox.CauseNoMemory
		if f.met < silence+patience {
			cause, waits = "", true
		}
	}
	if !proven && f.awaited && f.met < awaitedFor {
		cause, waits = "", true
	}
	for _, each := range []struct {
		found bool
		cause outbox.SuspensionCause
	}{
		{f.claim || f.beats || f.vanished, outbox.CauseRowsMissing},
		{f.memory && f.longerLog, outbox.CauseLogWentBack},
		{!f.accepted || f.memory && f.otherTimeline, outbox.CauseNewTimeline},
		{f.memory && f.otherSystem, outbox.CauseNewServer},
	} {
		if each.found {
			cause, waits = each.cause, false
		}
	}
	return cause, waits
}

// TestExamine goes through every combination of facts.
func TestExamine(t *testing.T) {
	t.Parallel()
	const bits = 13
	found := make(map[outbox.SuspensionCause]int)
	for n := range 1 << bits {
		is := func(bit int) bool { return n>>bit&1 == 1 }
		for _, met := range []time.Duration{0, patience, awaitedFor, awaitedFor + patience - 1, awaitedFor + patience} {
			f := facts{
				accepted: is(0), memory: is(1), otherSystem: is(2), otherTimeline: is(3), longerLog: is(4), beats: is(5),
				claim:    is(6),
				compared: is(7), vouched: is(8), known: is(9), outdated: is(10), awaited: is(11), vanished: is(12), met: met,
			}
			got := f.examine()
			cause, waits := f.expected()
			if got.cause != cause || (got.wait != "") != waits || (got.detail != "") != (cause != "") {
				t.Fatalf("%+v\n   got %+v\n  want cause %q, waits %t", f, got, cause, waits)
			}
			found[cause]++
		}
	}
	for _, cause := range []outbox.SuspensionCause{
		"", outbox.CauseNewServer, outbox.CauseNewTimeline, outbox.CauseLogWentBack, outbox.CauseRowsMissing,
		outbox.CauseNoMemory,
	} {
		if found[cause] == 0 {
			t.Errorf("no cell of the table finds %q", cause)
		}
	}
}

// TestPosition: the words of PostgreSQL, so that an operator can compare them.
func TestPosition(t *testing.T) {
	t.Parallel()
	if got := position(0x16_B374D848); got != "16/B374D848" {
		t.Errorf("got %s", got)
	}
}
