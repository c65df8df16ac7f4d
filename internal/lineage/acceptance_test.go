package lineage_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestAcceptedByAClockThatWasAhead: an acceptance that is dated by a clock that was ahead hides no snapshot
// that is put back later, neither before its time has come nor after it.
func TestAcceptedByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		accepted   time.Duration // when, from noon
		suspension bool          // what was accepted is the end of a suspension
		later      time.Duration // when the snapshot is put back
	}{
		{"a clock that was right", -time.Hour, false, time.Minute},
		{"a clock that was ahead", time.Hour, false, time.Minute},
		{"its time has come", time.Hour, false, 2 * time.Hour},
		{"a suspension, by a clock that was ahead", time.Hour, true, time.Minute},
		{"a suspension, and its time has come", time.Hour, true, 2 * time.Hour},
	} {
		l := newLedger()
		l.server.StartedAt = noon.Add(-2 * time.Hour)
		l.server.AcceptedAt = noon.Add(-24 * time.Hour)
		if test.suspension {
			l.server.Suspensions = []outbox.Suspension{{
				Suspension: payment.Suspension{KnownUntil: noon.Add(-111 * time.Minute), OpenedAt: noon.Add(-110 * time.Minute),
					AcceptedAt: noon.Add(test.accepted)},
				ID: payment.NewID(),
			}}
		} else {
			l.server.AcceptedAt = noon.Add(test.accepted)
		}
		l.recall.Known, l.recall.Vouched = true, true
		g := guard(t, l, "")
		look(t, g)
		is(t, test.name+": at first", g, true, true, true)
		// The snapshot: the log ends before, the heartbeats are gone, the server was started again.
		l.restart(test.later)
		l.server.LogPosition = 50
		l.recall = outbox.Recall{Known: true}
		look(t, g)
		// Its key window is an hour; by the date of the acceptance what was sent since may be told what
		// was forgotten two hours ago.
		is(t, test.name+": snapshot", g, false, test.later < time.Hour && !test.suspension, false)
		// By what it remembers, and not because it remembers nothing any more.
		if len(l.opened) != 1 || l.opened[0] != outbox.CauseLogWentBack {
			t.Errorf("%s: suspensions were opened for %v", test.name, l.opened)
		}
	}
}

// TestAcceptedOnAnEarlierStart: a guard saw a suspension, and did not look again (its machine was
// frozen, or cut off) until an operator had accepted it, another had sent, and a snapshot of after
// the acceptance was put back. The acceptance is of an earlier start: nothing has compared this
// one, and relayer-2, which sent, is awaited.
func TestAcceptedOnAnEarlierStart(t *testing.T) {
	t.Parallel()
	for _, looked := range []bool{true, false} {
		l := newLedger()
		g := guard(t, l, keep(t, remembered(l)))
		look(t, g)
		l.suspend(outbox.CauseLogWentBack, "another noticed")
		look(t, g)
		is(t, "suspended", g, false, true, false)
		l.server.Now = l.server.Now.Add(time.Minute)
		l.accept()
		if looked {
			look(t, g)
		}
		l.restart(10 * time.Minute)
		l.recall.Known, l.recall.Awaited, l.recall.AwaitedFor, l.recall.Patience = true, []string{"relayer-2"}, time.Hour,
			time.Hour
		look(t, g)
		is(t, map[bool]string{true: "looked in between", false: "did not look in between"}[looked]+": on the next start", g,
			false, false, false)
	}
}

// TestAcceptedAheadByAnEarlierStart: an earlier start's clock was ahead, and has dated an
// acceptance into this start. A guard without a memory does not take it for a comparison of this
// one: relayer-2, which sent, is awaited. One that was made on this start is one, whatever its
// time.
func TestAcceptedAheadByAnEarlierStart(t *testing.T) {
	t.Parallel()
	for _, here := range []bool{false, true} {
		l := newLedger()
		l.suspend(outbox.CauseNoMemory, "another noticed")
		l.server.Now = l.server.Now.Add(time.Hour) // the clock of the earlier start
		l.accept()
		l.server.Now = noon
		l.restart(10 * time.Minute)
		if l.server.Now = noon.Add(2 * time.Hour); here {
			l.server.Suspensions[0].ServerStartedAt = l.server.StartedAt
		}
		l.recall.Known, l.recall.Awaited, l.recall.AwaitedFor, l.recall.Patience = true, []string{"relayer-2"}, 3*time.Hour,
			time.Hour
		g := guard(t, l, "")
		look(t, g)
		is(t, map[bool]string{true: "accepted here", false: "accepted by an earlier start"}[here], g, here, here, here)
	}
}
