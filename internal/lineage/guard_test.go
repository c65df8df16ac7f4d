package lineage_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ledger is a store whose answers a test sets, and that fails before or after a call.
type ledger struct {
	server outbox.Server
	recall outbox.Recall
	asked  outbox.Remembered        // what Recall was asked for last
	opened []outbox.SuspensionCause // anew, or taken over
	openOn outbox.Server            // the start of the server on which the last one was
	keeps  outbox.SuspensionCause   // the cause that is kept in place of a reported one; "": that one
	again  []time.Time              // of each call that found the same one open: since when an acceptance counts
	before string                   // the call that fails before it has an effect
	after  string                   // the call that fails after it
	calls  int
}

var errAway = errors.New("the server is away")

func (l *ledger) fails(call string, do func()) error {
	l.calls++
	if l.before == call {
		return errAway
	}
	do()
	if l.after == call {
		return errAway
	}
	return nil
}

func (l *ledger) CheckServer(context.Context) (server outbox.Server, err error) {
	err = l.fails("CheckServer", func() {
		server = l.server
		server.Suspensions = append([]outbox.Suspension(nil), l.server.Suspensions...)
	})
	return server, err
}

func (l *ledger) Recall(_ context.Context, _ string, memory outbox.Remembered) (recall outbox.Recall, err error) {
	err = l.fails("Recall", func() { l.asked, recall = memory, l.recall })
	return recall, err
}

// Suspend opens a suspension, unless one is open; one of another start is taken over.
func (l *ledger) Suspend(
	_ context.Context, _ string, cause outbox.SuspensionCause, detail string, lookedAt time.Time,
) error {
	return l.fails("Suspend", func() {
		_, open := l.server.OpenSuspension()
		if open && l.openOn.Same(l.server) && lookedAt.After(l.server.Suspensions[0].OpenedAt) {
			l.opened = append(l.opened, cause)
			l.server.Suspensions[0].OpenedAt = l.server.Now
			return
		}
		if open && l.openOn.Same(l.server) {
			l.again = append(l.again, lookedAt)
			return
		}
		l.opened = append(l.opened, cause)
		if !open {
			l.suspend(cmp.Or(l.keeps, cause), detail)
		}
		l.server.Suspensions[0].ServerStartedAt, l.server.Suspensions[0].Timeline = l.server.StartedAt, l.server.Timeline
		l.openOn = l.server
	})
}

func (l *ledger) suspend(cause outbox.SuspensionCause, detail string) {
	l.openOn = l.server
	l.server.Suspensions = append([]outbox.Suspension{{
		Suspension: payment.Suspension{KnownUntil: noon.Add(-time.Minute), OpenedAt: l.server.Now},
		ID:         payment.NewID(), Cause: cause, Detail: detail,
		ServerStartedAt: l.server.StartedAt, Timeline: l.server.Timeline,
	}}, l.server.Suspensions...)
}

// accept is an operator's, by the server's clock.
func (l *ledger) accept() {
	for n := range l.server.Suspensions {
		if s := &l.server.Suspensions[n]; s.Open() {
			s.AcceptedAt, s.DoubtedUntil = l.server.Now, l.server.Now.Add(24*time.Hour)
		}
	}
	if l.server.AcceptedAt.IsZero() {
		l.server.AcceptedAt = l.server.Now
	}
}

// restart is a start of the server of which nothing else is new.
func (l *ledger) restart(after time.Duration) {
	l.server.StartedAt = l.server.Now.Add(after)
	l.server.Now = l.server.StartedAt.Add(time.Second)
	l.recall.Vouched = false
}

func newLedger() *ledger {
	return &ledger{server: outbox.Server{
		SystemIdentifier: "71", Timeline: 1, LogPosition: 100,
		StartedAt: noon.Add(-time.Hour), Now: noon, AcceptedAt: noon.Add(-30 * 24 * time.Hour),
	}}
}

func guard(t *testing.T, l *ledger, file string) *lineage.Guard {
	t.Helper()
	g, err := lineage.New(lineage.Config{Name: "relayer-1", File: file}, l, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func look(t *testing.T, g *lineage.Guard) {
	t.Helper()
	if err := g.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// is checks what follows from a look: whether lanes of a rail without keys are
// claimed, whether those of one with keys are, and whether the guard vouches.
func is(t *testing.T, what string, g *lineage.Guard, never, keyed, vouched bool) {
	t.Helper()
	claimed, _ := g.Allows(payment.Policy{ResendOnUnknown: payment.ResendNever}, nil, 0)
	goesOn, _ := g.Allows(payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)},
		nil, 0)
	if claimed != never || goesOn != keyed {
		t.Errorf("%s: claimed %t and with keys %t, want %t and %t (%s)", what, claimed, goesOn, never, keyed, g.Reason())
	}
	if got := g.Beat(outbox.Heartbeat{}).Vouched; got != vouched {
		t.Errorf("%s: vouches %t, want %t", what, got, vouched)
	}
	if g.Suspended() == never || g.Suspended() != (g.Reason() != "") {
		t.Errorf("%s: suspended %t, for %q", what, g.Suspended(), g.Reason())
	}
}

func remembered(l *ledger) outbox.Remembered {
	return outbox.Remembered{
		SystemIdentifier: l.server.SystemIdentifier, Timeline: l.server.Timeline, LogPosition: l.server.LogPosition,
		SeenAt: l.server.Now,
		Name:   "relayer-0", Beats: 9,
	}
}

func keep(t *testing.T, memory outbox.Remembered) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.json")
	text, err := json.Marshal(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFirstStart(t *testing.T) {
	t.Parallel()
	l := newLedger()
	file := filepath.Join(t.TempDir(), "state", "server.json")
	g := guard(t, l, file)
	is(t, "before a look", g, false, false, false)
	look(t, g)
	is(t, "on a cell where nothing ran", g, true, true, true)
	g.Beaten(1)
	l.server.Now = noon.Add(time.Minute)
	look(t, g)
	if l.asked.SystemIdentifier != "71" || l.asked.Beats != 1 || l.asked.Name != "relayer-1" {
		t.Errorf("it remembers %+v", l.asked)
	}
	again := guard(t, l, file)
	look(t, again)
	if l.asked.SystemIdentifier != "71" || l.asked.Timeline != 1 || l.asked.LogPosition != 100 {
		t.Errorf("the next start remembers %+v", l.asked)
	}

	// On a server that was never accepted even the first start finds something.
	l = newLedger()
	l.server.AcceptedAt = time.Time{}
	g = guard(t, l, "")
	look(t, g)
	is(t, "never accepted", g, false, true, false)
	if len(l.opened) != 1 || l.opened[0] != outbox.CauseNewTimeline {
		t.Errorf("opened %v", l.opened)
	}
}

// TestCauseThatIsKept: the log has the cause that the database keeps, which knows whether other tables were accepted.
func TestCauseThatIsKept(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.server.AcceptedAt = time.Time{}
	l.keeps = outbox.CauseRowsMissing
	var text strings.Builder
	g, err := lineage.New(lineage.Config{Name: "relayer-1"}, l, slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	look(t, g)
	is(t, "in other tables", g, false, true, false)
	if got := text.String(); !strings.Contains(got, "cause=ROWS_MISSING") || strings.Contains(got, "NEW_TIMELINE") {
		t.Errorf("the log of a suspension that is kept as ROWS_MISSING: %s", got)
	}
}

// TestNoFile: nothing remembers the server, and a relayer has run on it.
func TestNoFile(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.recall.Known = true
	g := guard(t, l, "")
	look(t, g)
	is(t, "no memory", g, false, true, false)
	if len(l.opened) != 1 || l.opened[0] != outbox.CauseNoMemory {
		t.Errorf("opened %v", l.opened)
	}
	look(t, g)
	if len(l.opened) != 1 {
		t.Errorf("what is said is said again: %v", l.opened)
	}

	l = newLedger()
	l.recall.Known, l.recall.Vouched = true, true
	g = guard(t, l, "")
	look(t, g)
	is(t, "another vouches", g, true, true, true)
	l.restart(time.Minute)
	look(t, g)
	is(t, "after a plain restart the process remembers", g, true, true, true)
}

// TestPatience: a guard without a memory does not suspend before one that has a
// memory has had the time to vouch.
func TestPatience(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.recall.Known, l.recall.Patience = true, time.Hour
	g, err := lineage.New(lineage.Config{Name: "relayer-1"}, l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	look(t, g)
	is(t, "nothing has vouched yet", g, false, false, false)
	if !g.Waiting() || len(l.opened) != 0 {
		t.Errorf("waiting %t, opened %v", g.Waiting(), l.opened)
	}
	l.recall.Vouched = true
	look(t, g)
	is(t, "another vouches", g, true, true, true)
}

func TestMemoryFromAFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*ledger)
		cause  outbox.SuspensionCause
	}{
		"a plain restart":        {func(l *ledger) { l.restart(time.Minute) }, ""},
		"another server":         {func(l *ledger) { l.server.SystemIdentifier = "72" }, outbox.CauseNewServer},
		"another timeline":       {func(l *ledger) { l.server.Timeline = 2 }, outbox.CauseNewTimeline},
		"the log is shorter":     {func(l *ledger) { l.server.LogPosition-- }, outbox.CauseLogWentBack},
		"a heartbeat is missing": {func(l *ledger) { l.recall.BeatsMissing = true }, outbox.CauseRowsMissing},
		"a claim is missing":     {func(l *ledger) { l.recall.ClaimMissing = true }, outbox.CauseRowsMissing},
		"an outdated memory":     {func(l *ledger) { l.recall.Known, l.recall.Outdated = true, true }, outbox.CauseNoMemory},
		"accepted since": {func(l *ledger) {
			l.server.Timeline = 2
			l.server.AcceptedAt, l.server.Now = noon.Add(time.Second), noon.Add(2*time.Second)
		}, ""},
		"accepted since, and started again": {func(l *ledger) {
			l.server.Timeline, l.recall.Known = 2, true
			l.server.AcceptedAt, l.server.Now = noon.Add(time.Second), noon.Add(time.Second)
			l.restart(time.Minute)
		}, outbox.CauseNoMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			file := keep(t, remembered(l))
			c.change(l)
			g := guard(t, l, file)
			look(t, g)
			is(t, name, g, c.cause == "", true, c.cause == "")
			if c.cause == "" && len(l.opened) > 0 || c.cause != "" && (len(l.opened) != 1 || l.opened[0] != c.cause) {
				t.Errorf("opened %v, want %q", l.opened, c.cause)
			}
		})
	}
}

// TestSuspendedByAnother binds a guard that misses nothing itself, and keeps its
// memory as it is until an operator has accepted.
func TestSuspendedByAnother(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, "")
	look(t, g)
	l.suspend(outbox.CauseLogWentBack, "in a test")
	look(t, g)
	is(t, "suspended by another", g, false, true, false)
	if len(l.opened) != 0 {
		t.Errorf("opened %v", l.opened)
	}
	claim := payment.Claim{CreatedAt: noon}
	if weighed := g.Weigh(claim); !weighed.Doubted || !weighed.MaybeSent {
		t.Errorf("a claim is weighed as %+v", weighed)
	}
	l.server.Now = noon.Add(time.Hour)
	l.accept()
	look(t, g)
	is(t, "accepted", g, true, true, true)
	if weighed := g.Weigh(claim); weighed.Doubted || !weighed.MaybeSent {
		t.Errorf("after it a claim is weighed as %+v", weighed)
	}
}

// TestSuspensionIsRepeated: while a suspension is open because data went back, each look tells the database so again,
// which may not have ended yet that the map of cells is confirmed. What an operator accepts meanwhile is not opened
// anew: only an acceptance of before the suspension is none of it.
func TestSuspensionIsRepeated(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		for cause, repeats := range map[outbox.SuspensionCause]bool{
			outbox.CauseRowsMissing: true, outbox.CauseLogWentBack: true, outbox.CauseNoMemory: false,
		} {
			l := newLedger()
			g := guard(t, l, "")
			look(t, g)
			if own {
				l.recall.BeatsMissing = cause == outbox.CauseRowsMissing
				if cause == outbox.CauseLogWentBack {
					l.server.LogPosition = 10
				}
			} else {
				l.suspend(cause, "another noticed")
			}
			if own && cause == outbox.CauseNoMemory {
				continue
			}
			look(t, g)
			opened := l.server.Suspensions[0].OpenedAt
			l.again, l.server.Now = nil, l.server.Now.Add(time.Minute)
			for range 3 {
				look(t, g)
			}
			want := map[bool]int{true: 3}[repeats]
			if len(l.again) != want || want > 0 && !l.again[2].Equal(opened) {
				t.Errorf("%s, by itself %t: repeated with %v, want %d times with %s", cause, own, l.again, want, opened)
			}
			l.accept()
			l.again, l.server.LogPosition, l.recall.BeatsMissing = nil, 200, false
			look(t, g)
			look(t, g)
			if len(l.again) != 0 {
				t.Errorf("%s: repeated after the acceptance", cause)
			}
		}
	}
}

// TestWentBackAgain: data that goes back again on the same start, while a suspension is open, moves the time at
// which it was opened, once. What the suspension was opened for does not, however often it is read, or whichever
// guard finds it, and nor does a heartbeat that was overtaken.
func TestWentBackAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		goes  func(l *ledger, g *lineage.Guard)
		cause outbox.SuspensionCause
	}{
		"the log":        {func(l *ledger, _ *lineage.Guard) { l.server.LogPosition = 110 }, outbox.CauseLogWentBack},
		"heartbeats":     {func(_ *ledger, g *lineage.Guard) { g.Beaten(41) }, outbox.CauseRowsMissing},
		"two heartbeats": {func(_ *ledger, g *lineage.Guard) { g.Beaten(42); g.Beaten(43) }, outbox.CauseRowsMissing},
		"a heartbeat":    {func(_ *ledger, g *lineage.Guard) { g.Beaten(43) }, outbox.CauseRowsMissing},
	} {
		l := newLedger()
		g := guard(t, l, "")
		look(t, g)
		g.Beaten(50)
		other := guard(t, l, keep(t, remembered(l)))
		l.server.LogPosition = 90
		look(t, g)
		l.recall.BeatsMissing = true
		g.Beaten(40) // of before the suspension: the evidence that it was opened for
		l.server.Now = noon.Add(time.Second)
		look(t, other)
		step := func(beats, at int64) {
			t.Helper()
			l.server.Now, l.server.LogPosition = l.server.Now.Add(time.Second), at
			g.Beaten(beats)
			look(t, g)
			look(t, other)
		}
		step(41, 100)
		step(43, 110)
		step(42, 120)
		if len(l.opened) != 1 || !l.server.Suspensions[0].OpenedAt.Equal(noon) {
			t.Errorf("%s, before: opened %v, at %s", name, l.opened, l.server.Suspensions[0].OpenedAt)
		}
		l.server.Now = noon.Add(time.Hour)
		c.goes(l, g)
		for range 3 {
			look(t, g)
			l.server.Now = l.server.Now.Add(time.Second)
		}
		if len(l.opened) != 2 || l.opened[1] != c.cause || !l.server.Suspensions[0].OpenedAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("%s: opened %v, at %s", name, l.opened, l.server.Suspensions[0].OpenedAt)
		}
	}
}

// TestTakenOver: where the server is started while a suspension is open, and nothing more is missing, it is
// taken over, once, because an operator can accept what was compared on this start alone. While others are
// awaited that may miss something, it is not.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, keep(t, remembered(l)))
	look(t, g)
	l.suspend(outbox.CauseLogWentBack, "another noticed")
	look(t, g)
	l.restart(time.Minute)
	l.recall.Known, l.recall.Awaited, l.recall.AwaitedFor = true, []string{"relayer-2"}, time.Hour
	look(t, g)
	if len(l.opened) != 0 {
		t.Errorf("another is awaited: opened %v", l.opened)
	}
	l.recall.Awaited = nil
	for range 2 {
		look(t, g)
		is(t, "started again", g, false, true, false)
		if len(l.opened) != 1 || l.opened[0] != outbox.CauseLogWentBack {
			t.Errorf("started again: opened %v", l.opened)
		}
	}
}

// TestAcceptedByAClockThatIsBehind: the clock of the restored server may be behind
// that of the one before. An acceptance ends the suspension all the same.
func TestAcceptedByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, "")
	look(t, g)
	l.server.Timeline, l.server.AcceptedAt = 2, time.Time{}
	l.server.Now, l.server.StartedAt = noon.Add(-2*time.Hour), noon.Add(-3*time.Hour)
	look(t, g)
	is(t, "restored, known until a time to come", g, false, false, false)
	l.accept()
	look(t, g)
	is(t, "accepted", g, true, true, true)
	look(t, g)
	if len(l.opened) != 1 {
		t.Errorf("opened %v", l.opened)
	}
}

// TestRestoredTwice: what was accepted once is noticed again where the acceptance is
// gone with the rows.
func TestRestoredTwice(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, "")
	look(t, g)
	for range 2 {
		l.server.Suspensions, l.server.Timeline, l.server.AcceptedAt = nil, 2, time.Time{}
		l.restart(time.Minute)
		look(t, g)
		is(t, "restored", g, false, true, false)
		l.server.Now = l.server.Now.Add(time.Minute)
		l.accept()
		look(t, g)
		is(t, "accepted", g, true, true, true)
	}
	if len(l.opened) != 2 {
		t.Errorf("opened %v", l.opened)
	}
}

// TestSuspensionVanishes: that a suspension is not there any more is no acceptance: the rows went back over
// it, and it is opened again, unless an operator has accepted the server since.
func TestSuspensionVanishes(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, keep(t, remembered(l)))
	l.suspend(outbox.CauseLogWentBack, "another noticed")
	look(t, g)
	is(t, "suspended", g, false, true, false)
	l.server.Suspensions = nil
	look(t, g)
	is(t, "forgotten, and not ended", g, false, true, false)
	if len(l.opened) != 1 || l.opened[0] != outbox.CauseRowsMissing {
		t.Errorf("opened %v", l.opened)
	}
	l.server.Suspensions = nil
	l.server.Now = l.server.Now.Add(time.Minute)
	l.server.AcceptedAt = l.server.Now
	look(t, g)
	is(t, "forgotten, and the server accepted since", g, true, true, true)
}

// TestOwnBeats: an earlier process of the same name counts, and a row that was
// removed in a long silence begins anew.
func TestOwnBeats(t *testing.T) {
	t.Parallel()
	l := newLedger()
	g := guard(t, l, "")
	look(t, g)
	for _, c := range []struct{ row, want int64 }{
		{1001, 1001}, // the row of an earlier process of the same name
		{1002, 1002},
		{1005, 1005}, // two lost answers
		{3, 1006},    // rows are missing
	} {
		g.Beaten(c.row)
		look(t, g)
		if l.asked.Beats != c.want {
			t.Errorf("the row counts %d: it remembers %d, want %d", c.row, l.asked.Beats, c.want)
		}
	}
}

func TestLastClaimIsRemembered(t *testing.T) {
	t.Parallel()
	l := newLedger()
	file := filepath.Join(t.TempDir(), "server.json")
	g := guard(t, l, file)
	look(t, g)
	claims := []payment.Claim{{OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: noon},
		{OutboxID: payment.NewID(), AttemptNo: 3, ClaimedAt: noon}}
	g.Claimed(t.Context(), claims)
	g.Claimed(t.Context(), nil)
	for what, guard := range map[string]*lineage.Guard{"the process": g, "the file": guard(t, l, file)} {
		look(t, guard)
		if l.asked.OutboxID != claims[1].OutboxID || l.asked.AttemptNo != 3 || !l.asked.ClaimedAt.Equal(noon) {
			t.Errorf("%s remembers %+v", what, l.asked)
		}
	}
}

// TestStoreFails: whatever call is lost, before or after its effect, nothing is
// claimed by mistake, and the next Look reports what this one could not.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"CheckServer", "Recall", "Suspend"} {
		for _, effect := range []bool{false, true} {
			l := newLedger()
			g := guard(t, l, "")
			look(t, g)
			l.server.Timeline, l.server.AcceptedAt = 2, time.Time{}
			l.restart(time.Minute)
			if effect {
				l.after = call
			} else {
				l.before = call
			}
			if err := g.Look(t.Context()); !errors.Is(err, errAway) {
				t.Errorf("%s lost: %v", call, err)
			}
			// Claims name the server that was checked last, which this one is not.
			if claimed, _ := g.Allows(payment.Policy{}, nil, 0); claimed && g.Server().Same(l.server) {
				t.Errorf("%s lost: claimed on a server that was not looked at", call)
			}
			l.before, l.after = "", ""
			look(t, g)
			is(t, call+" lost", g, false, true, false)
		}
	}
}

// TestSaveFails stops nothing.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	l := newLedger()
	folder := filepath.Join(t.TempDir(), "state")
	g := guard(t, l, filepath.Join(folder, "server.json"))
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	look(t, g)
	g.Claimed(t.Context(), []payment.Claim{{OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: noon}})
	look(t, g)
	is(t, "nothing can be saved", g, true, true, true)
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "cut off": `{"system_id`, "of no server": `{"seen_at": "2026-11-21T12:00:00Z"}`, "never seen": `{"system_identifier": "71"}`} {
		file := filepath.Join(t.TempDir(), "server.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := lineage.New(lineage.Config{Name: "relayer-1", File: file}, newLedger(), slog.New(slog.DiscardHandler))
		if !lineage.ErrBadMemory(err) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWindow: a lane continues while its key window covers the time since the newest recorded
// moment, however recently the server was checked.
func TestWindow(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.suspend(outbox.CauseNewTimeline, "in a test")
	l.server.Suspensions[0].KnownUntil = noon.Add(-30 * time.Minute)
	g := guard(t, l, "")
	look(t, g)
	for window, want := range map[time.Duration]bool{time.Hour: true, 33 * time.Minute: false, time.Minute: false} {
		claimed, goesOn := g.Allows(payment.Policy{ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(window)}, nil, 0)
		if claimed != want || goesOn != want {
			t.Errorf("a window of %s: claimed %t, goes on %t", window, claimed, goesOn)
		}
	}
}

// TestWindowOverTwoRestores: what the rail may have told a send that a restore forgot may be of one
// that an earlier restore forgot: the lane goes on while its key window covers that too, and an
// earlier one that lies further back than the rail knows keys does not count.
func TestWindowOverTwoRestores(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		known, opened time.Duration // of the earlier one, before noon
		rules         []payment.KeyRules
		want          bool
	}{
		"long before":                    {5 * time.Hour, 4 * time.Hour, nil, true},
		"not known since when, long ago": {56 * 365 * 24 * time.Hour, 4 * time.Hour, nil, true},
		"within the window":              {50 * time.Minute, 45 * time.Minute, nil, true},
		"within it, and older than it":   {58 * time.Minute, 45 * time.Minute, nil, false},
		"not known since when":           {56 * 365 * 24 * time.Hour, 45 * time.Minute, nil, false},
		"by the longer window of then":   {5 * time.Hour, 4 * time.Hour, []payment.KeyRules{{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(5 * time.Hour)}}, false},
		"by the shorter one of then":     {5 * time.Hour, 4 * time.Hour, []payment.KeyRules{{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Minute)}}, false},
	} {
		l := newLedger()
		l.suspend(outbox.CauseNewTimeline, "in a test")
		l.server.Suspensions[0].KnownUntil = noon.Add(-5 * time.Minute)
		l.server.Suspensions = append(l.server.Suspensions, outbox.Suspension{
			Suspension: payment.Suspension{
				KnownUntil: noon.Add(-test.known), OpenedAt: noon.Add(-test.opened),
				AcceptedAt: noon.Add(-test.opened + time.Minute), DoubtedUntil: noon.Add(24 * time.Hour),
			},
			ID: payment.NewID(),
		})
		g := guard(t, l, "")
		look(t, g)
		_, goesOn := g.Allows(payment.Policy{ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(time.Hour)}, test.rules, 0)
		if goesOn != test.want {
			t.Errorf("%s: goes on %t, want %t", name, goesOn, test.want)
		}
	}
}
