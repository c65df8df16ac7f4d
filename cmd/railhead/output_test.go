package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": 0, "999ms": 999 * time.Millisecond, "1.0s": time.Second, "59.9s": 59999 * time.Millisecond, "1m00s": time.Minute,
		"59m59s": time.Hour - time.Second, "1h00m": time.Hour, "47h59m": 48*time.Hour - time.Minute, "2d00h": 48 * time.Hour, "5.0s": -5 * time.Second,
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	if got := oneLine("a\x1b[31m\nb\u202e\u2028c\x7fé"); got != "a\uFFFD[31m b\uFFFD\uFFFDc\uFFFDé" {
		t.Errorf("%q", got)
	}
	if got := bounded("äöü", 2); got != "äö..." {
		t.Errorf("%q", got)
	}
}

func TestColor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		env := map[string]string{"NO_COLOR": test.noColor, "TERM": test.term}
		if got := wantsColor(func(name string) string { return env[name] }); got != test.want {
			t.Errorf("NO_COLOR=%q TERM=%q: %t", test.noColor, test.term, got)
		}
	}
	var painted, bare bytes.Buffer
	rows := func() [][]cell { return [][]cell{{{"ab", alarm}, {text: "x"}}, {{text: "c"}, {text: ""}}} }
	if err := (output{w: &painted, color: true}).table([]string{"A", "B"}, rows()); err != nil {
		t.Fatal(err)
	}
	if err := (output{w: &bare}).table([]string{"A", "B"}, rows()); err != nil {
		t.Fatal(err)
	}
	if got := bare.String(); got != "A   B\nab  x\nc\n" {
		t.Errorf("%q", got)
	}
	if got := painted.String(); got != "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[31mab\x1b[0m  x\nc\n" {
		t.Errorf("%q", got)
	}
}

// TestTableFits: a line has 120 characters at most, nothing is cut away, and ids are whole.
func TestTableFits(t *testing.T) {
	t.Setenv("COLUMNS", "")
	id, words, solid := "01890000-0000-7000-8000-000000000001", strings.Repeat("word ", 60), strings.Repeat("x", 150)
	var out bytes.Buffer
	err := output{w: &out}.table([]string{"OUTBOX ID", "REASON", "REFERENCE", "TWO"},
		[][]cell{plainCells(id, words, solid, "a\nb"), plainCells(id, "short", "-", "")})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if got := fold("OUTCOME_UNKNOWN of one", 12); !slices.Equal(got, []string{"OUTCOME_", "UNKNOWN of", "one"}) {
		t.Errorf("folded to %q", got)
	}
	text := out.String()
	if strings.Count(text, id) != 2 || strings.Count(text, "word") != 60 || strings.Count(text, "x") != 150 ||
		tableWidth(func(string) string { return "90" }) != 90 {
		t.Errorf("something is cut:\n%s", text)
	}
}

// TestNextStep goes through the sentences about an instruction's next step.
func TestNextStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	failed := []reader.AttemptRow{{AttemptNo: 2, State: payment.Failed, RailCode: "AC04"}}
	for want, line := range map[string]reader.Timeline{
		"SEND, due since 5.0s; never claimed before": {Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -5000}},
		"SEND, due since 5.0s; never claimed before; no running relayer serves rail wire": {
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -5000}, NotClaimed: reader.WhyNotClaimed("wire", nil)},
		"INQUIRE in 30.0s, at 2026-11-21T09:00:00.000Z (by the rail's inquiry schedule); row 2 was UNKNOWN WORKER_LOST": {
			Pending: &reader.PendingRow{AttemptCount: 3, NextAction: "INQUIRE", DueInMS: 30000, NextAttemptAt: now},
			Attempts: []reader.AttemptRow{{AttemptNo: 2, State: payment.Unknown, ErrorCode: "WORKER_LOST"},
				{AttemptNo: 3, State: payment.LateOutcome}}},
		"INQUIRE in 31.0s, at 2026-11-21T09:00:00.000Z (as the rail asked); row 2 was UNKNOWN 503": {
			Pending: &reader.PendingRow{AttemptCount: 2, NextAction: "INQUIRE", DueInMS: 31000, NextAttemptAt: now},
			Attempts: []reader.AttemptRow{{AttemptNo: 2, State: payment.Unknown, RailCode: "503",
				ErrorMessage: payment.SayAsked(time.Minute, time.Minute) + "HTTP 503"}}},
		"SEND, due since 5.0s; row 4 was REPLAYED": {
			Now:      now,
			Attempts: []reader.AttemptRow{{AttemptNo: 4, State: payment.Replayed, CreatedAt: now.Add(-15 * time.Minute)}},
			Pending:  &reader.PendingRow{AttemptCount: 4, NextAction: "SEND", DueInMS: -5000, OutcomeUnknown: true}},
		"SEND, due since 6.0s; row 4 was REPLAYED; the replay is older than 15 minutes: where the rail keeps no keys, or the caller allows one send, the next claim parks it again": {
			Now:      now,
			Attempts: []reader.AttemptRow{{AttemptNo: 4, State: payment.Replayed, CreatedAt: now.Add(-16 * time.Minute)}},
			Pending:  &reader.PendingRow{AttemptCount: 4, NextAction: "SEND", DueInMS: -6000, OutcomeUnknown: true}},
		"SEND, due since 7.0s; row 4 was REPLAYED": { // nothing of it is unknown
			Now: now, Attempts: []reader.AttemptRow{{AttemptNo: 4, State: payment.Replayed, CreatedAt: now.Add(-time.Hour)}},
			Pending: &reader.PendingRow{AttemptCount: 4, NextAction: "SEND", DueInMS: -7000}},
		"no automatic step: it could not be claimed and is quarantined until an operator acts": {Pending: &reader.PendingRow{Quarantine: true}},
		"waits: everything is paused by amy since 2026-11-21T09:00:00.000Z: drill":             {Pending: &reader.PendingRow{Pause: &reader.Pause{What: "everything", By: "amy", At: now, Reason: "drill"}}},
		"the reaper ends it as EXPIRED: it is over since 2026-11-21T09:00:00.000Z, and is not claimed any more": {
			Now: now.Add(time.Second), ExpiresAt: reader.Moment{Time: now},
			Pending: &reader.PendingRow{NextAction: "SEND", Pause: &reader.Pause{What: "everything"}}},
		"the reaper ends it as EXPIRED: it is over since 2026-11-21T09:00:00.000Z, and is not claimed any more; not before the suspension since 2026-11-21T09:00:00.000Z is ended": {
			Now: now, ExpiresAt: reader.Moment{Time: now}, SuspendedAt: now,
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: 5000}},
		"the reaper ends it as EXPIRED: it is over since 2026-11-21T09:00:00.000Z, and is not claimed any more; not before a relayer has confirmed that nothing is missing since the server was started or promoted, or a dump was loaded": {
			Now: now, ExpiresAt: reader.Moment{Time: now}, Unconfirmed: true,
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: 5000}},
		"the reaper parks it as EXPIRED: it is over since 2026-11-21T09:00:00.000Z, and is not claimed any more": {
			Now: now, ExpiresAt: reader.Moment{Time: now}, RepeatsSince: now,
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: 5000}},
		"waits until the suspension since 2026-11-21T09:00:00.000Z is ended: its caller allows one send, and the database may have forgotten one that was made; it is due at 2026-11-21T09:00:00.000Z": {
			Now: now, SuspendedAt: now, SendOnce: true,
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: 5000, NextAttemptAt: now}},
		"waits until the suspension since 2026-11-21T09:00:00.000Z is ended: its caller allows one send, and the database may have forgotten one that was made; no running relayer serves rail wire": {
			Now: now, SuspendedAt: now, SendOnce: true, Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -5000},
			NotClaimed: reader.WhyNotClaimed("wire", nil)},
		"SEND, due since 6.0s; never claimed before": { // nothing holds it
			Now: now, SuspendedAt: now, Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -6000}},
		"INQUIRE, due since 5.0s; never claimed before": { // what may have been paid does not expire
			Now: now, ExpiresAt: reader.Moment{Time: now},
			Pending: &reader.PendingRow{NextAction: "INQUIRE", DueInMS: -5000, OutcomeUnknown: true}},
		"SEND is not made: its row was put back in pending over a row FAILED, and the next claim quarantines it as UNCLAIMABLE; no running relayer serves rail wire": {
			Attempts: failed, Pending: &reader.PendingRow{AttemptCount: 9, NextAction: "SEND", DueInMS: -5000},
			NotClaimed: reader.WhyNotClaimed("wire", nil)},
		"SEND is not made: its row was put back in pending over a row RETRYABLE, and a claim at 2026-11-21T09:00:00.000Z quarantines it as UNCLAIMABLE": {
			Attempts: []reader.AttemptRow{{AttemptNo: 2, State: payment.Retryable}},
			Pending:  &reader.PendingRow{AttemptCount: 1, NextAction: "SEND", DueInMS: 5000, NextAttemptAt: now}},
		"SEND is not made: its row was put back in pending over a row FAILED, and the reaper quarantines it as UNCLAIMABLE": {
			Now: now, ExpiresAt: reader.Moment{Time: now}, Attempts: failed, Pending: &reader.PendingRow{NextAction: "SEND"}},
		"SEND is not made: its row was put back in pending over a row FAILED, and the first claim after rail wire is resumed quarantines it as UNCLAIMABLE": {
			Attempts: failed, Pending: &reader.PendingRow{NextAction: "SEND", Pause: &reader.Pause{What: "rail wire"}}},
		"in flight with w for 3.0s; a reaper repairs it if it is open at the claim timeout, or earlier if its worker stops": {
			Now: now.Add(3 * time.Second), Attempts: []reader.AttemptRow{{AttemptNo: 1, State: payment.Dispatching,
				WorkerID: "w", CreatedAt: now}}},
		"no automatic step: it needs an operator since 2026-11-21T09:00:00.000Z (FAILED)": {
			Attempts: failed, DeadLetter: &reader.DeadLetter{Reason: payment.DeadFailed, Status: "pending", OpenedAt: now}},
		"waits in order behind 00000000-0000-0000-0000-000000000000 (sequence 3), which is in pending; it is not due before 2026-11-21T09:00:00.000Z": {
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 3, HeldBy: reader.HeldPending},
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: 5000, NextAttemptAt: now}},
		"waits in order behind 00000000-0000-0000-0000-000000000000 (sequence 3), which is in pending, and not due before 2026-11-21T09:00:00.000Z": {
			OutboxID: payment.NewID(), SequenceID: 4, Pending: &reader.PendingRow{NextAction: "SEND"},
			Order: &reader.OrderHead{SequenceID: 3, HeldBy: reader.HeldPending, NextAttemptAt: now}},
		"waits in order behind 00000000-0000-0000-0000-000000000000 (sequence 3), which is quarantined until an operator acts; for the acts: railhead payment show 00000000-0000-0000-0000-000000000000": {
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 3, HeldBy: reader.HeldQuarantined},
			Pending: &reader.PendingRow{NextAction: "SEND"}},
		"waits in order behind 00000000-0000-0000-0000-000000000000 (sequence 3), which is UNKNOWN; for the acts: railhead payment show 00000000-0000-0000-0000-000000000000": {
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 3, HeldBy: "UNKNOWN"},
			Pending: &reader.PendingRow{NextAction: "SEND"}},
		"waits in order behind 00000000-0000-0000-0000-000000000000 (sequence 5), which is in flight": {
			// of an earlier profile
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 5, HeldBy: "DISPATCHING"},
			Pending: &reader.PendingRow{NextAction: "SEND"}},
		"SEND, due since 7.0s; never claimed before": { // what is recorded of its line is over
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 3},
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -7000}},
		"SEND, due since 8.0s; never claimed before": { // it has returned to pending, in front of the head that is recorded
			OutboxID: payment.NewID(), SequenceID: 4, Order: &reader.OrderHead{SequenceID: 5, HeldBy: reader.HeldPending},
			Pending: &reader.PendingRow{NextAction: "SEND", DueInMS: -8000}},
		"no automatic step: it could not be claimed and is quarantined until an operator acts; what its participant has in pending behind it on the rail waits for that": {
			Order: &reader.OrderHead{HeldBy: reader.HeldQuarantined}, Pending: &reader.PendingRow{Quarantine: true}},
		"nothing: it has ended":                                           {Attempts: failed, DeadLetter: &reader.DeadLetter{Reason: payment.DeadFailed, Status: "resolved"}},
		"nothing: only its key is left":                                   {},
		"no automatic step: it is lost (railhead prove run nothing-lost)": {Lost: true},
	} {
		if got := explain.NextStep(line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
