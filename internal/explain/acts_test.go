package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// hostile is text of a bank that names every act.
const hostile = "railhead dead-letter replay x railhead dead-letter close x railhead payment cancel x " +
	"railhead payment inquire x railhead dead-letter resolve x"

// offered are the names of the acts that are possible, and for resolve the evidence that it takes.
func offered(line reader.Timeline) string {
	var names []string
	for _, act := range explain.Acts(line) {
		if act.Why != "" {
			continue
		}
		var name strings.Builder
		name.WriteString(act.Name)
		for _, verdict := range act.Verdicts {
			if verdict.Why == "" {
				name.WriteString(":" + verdict.Value)
			}
		}
		names = append(names, name.String())
	}
	return strings.Join(names, " ")
}

// letterOf is an open dead letter of a payment with these rows.
func letterOf(reason payment.DeadReason, rows ...reader.AttemptRow) reader.Timeline {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for n := range rows {
		rows[n].AttemptNo = n + 1
	}
	return reader.Timeline{
		OutboxID: payment.NewID(), RailKey: "rh1", RailType: "bank", Now: now, Attempts: rows,
		DeadLetter: &reader.DeadLetter{Reason: reason, Status: string(payment.LetterPending), ErrorCode: hostile,
			OpenedAt: now.Add(-time.Hour)},
	}
}

// TestActsAreNotReadFromText: a text from outside that reads as a command offers no act, and puts nothing
// before the remedy.
func TestActsAreNotReadFromText(t *testing.T) {
	t.Parallel()
	sent := reader.AttemptRow{State: payment.Dispatching}
	ended := reader.AttemptRow{State: payment.Dispatched, AnswersAttemptNo: 1, Result: "ACCEPTED", RailReference: hostile}
	other := reader.AttemptRow{State: payment.LateOutcome, Result: "EXECUTED", RailReference: "another"}
	conflict := letterOf(payment.DeadConflict, sent, ended, other)
	if said := explain.Remedy(conflict); !strings.Contains(said, hostile) {
		t.Fatalf("the remedy does not have the rail's reference: %s", said)
	}
	if got, want := offered(conflict), "acknowledge escalate resolve:executed:not_executed"; got != want {
		t.Errorf("offered are %s, want %s", got, want)
	}
	conflict.SuspendedAt = conflict.Now.Add(-time.Minute)
	if said := explain.Remedy(conflict); strings.HasPrefix(said, "lanes are suspended") {
		t.Errorf("the suspension comes before a resolution: %s", said)
	}
	conflict.SuspendedAt = time.Time{}

	inquiring := letterOf(payment.DeadOutcomeUnknown, sent, reader.AttemptRow{State: payment.Inquiring})
	inquiring.RailKey, inquiring.Unconfirmed = hostile, true
	if said := explain.Remedy(inquiring); strings.HasPrefix(said, "no relayer") {
		t.Errorf("no act is named, and it waits for a relayer: %s", said)
	}

	paused := letterOf(payment.DeadOutcomeUnknown, sent,
		reader.AttemptRow{State: payment.Parked, AnswersAttemptNo: 1, Result: "UNKNOWN", OutcomeUnknown: true})
	paused.RailAsks, paused.Pause = true, &reader.Pause{What: "participant " + hostile}
	if got, want := offered(paused), "acknowledge escalate resolve:executed:not_executed"; got != want {
		t.Errorf("while its participant is paused, offered are %s, want %s", got, want)
	}
}

// TestActs: which acts are offered in the situations in which a wrong one would lose or repeat a payment.
func TestActs(t *testing.T) {
	t.Parallel()
	sent := reader.AttemptRow{State: payment.Dispatching}
	parked := reader.AttemptRow{State: payment.Parked, AnswersAttemptNo: 1, Result: "UNKNOWN", OutcomeUnknown: true}
	refused := reader.AttemptRow{State: payment.Failed, AnswersAttemptNo: 1, Result: "REFUSED_FINAL", RailCode: "AC04"}
	taken := reader.AttemptRow{State: payment.Dispatched, AnswersAttemptNo: 1, Result: "ACCEPTED"}
	asked := reader.AttemptRow{State: payment.Unknown, ErrorCode: payment.CodeAsked, OutcomeUnknown: true}
	inquired := reader.AttemptRow{State: payment.Inquiring}
	open := func(line reader.Timeline, more func(*reader.Timeline)) reader.Timeline {
		more(&line)
		return line
	}
	answer := func(line reader.Timeline, result payment.Result, ago time.Duration) reader.AttemptRow {
		return reader.AttemptRow{State: payment.Parked, AnswersAttemptNo: 3, Result: string(result), OutcomeUnknown: true,
			CompletedAt: line.Now.Add(-ago)}
	}
	now := letterOf(payment.DeadOutcomeUnknown)
	asks := func(line *reader.Timeline) { line.RailAsks = true }
	waits := func(line *reader.Timeline) {
		line.DeadLetter, line.Pending = nil, &reader.PendingRow{NextAction: "SEND", DueInMS: 1000, AttemptCount: 1}
	}
	for name, test := range map[string]struct {
		line reader.Timeline
		want string
	}{
		"refused": {letterOf(payment.DeadFailed, sent, refused),
			"acknowledge escalate resolve:executed replay close"},
		"refused, a new id": {open(letterOf(payment.DeadFailed, sent, refused), func(l *reader.Timeline) { l.NewID = true }),
			"acknowledge escalate resolve:executed close"},
		"refused, suspended": {open(letterOf(payment.DeadFailed, sent, refused),
			func(l *reader.Timeline) { l.SuspendedAt = l.Now }), "acknowledge escalate resolve:executed"},
		"parked, the rail can't be asked": {letterOf(payment.DeadOutcomeUnknown, sent, parked),
			"acknowledge escalate resolve:executed:not_executed"},
		"parked, no relayer has confirmed": {open(letterOf(payment.DeadOutcomeUnknown, sent, parked),
			func(l *reader.Timeline) { l.Unconfirmed = true }), "acknowledge escalate resolve:executed"},
		"parked, not asked": {open(letterOf(payment.DeadOutcomeUnknown, sent, parked), asks),
			"acknowledge escalate inquire resolve:executed"},
		"parked, asked of late": {open(letterOf(payment.DeadOutcomeUnknown, sent, asked, inquired,
			answer(now, payment.ResultUnavailable, time.Minute)), asks),
			"acknowledge escalate inquire resolve:executed:not_executed"},
		"parked, asked an hour ago": {open(letterOf(payment.DeadOutcomeUnknown, sent, asked, inquired,
			answer(now, payment.ResultUnavailable, time.Hour)), asks), "acknowledge escalate inquire resolve:executed"},
		"parked, executed by the rail": {open(letterOf(payment.DeadOutcomeUnknown, sent, asked, inquired,
			answer(now, payment.ResultExecuted, time.Minute)), asks), "acknowledge escalate inquire resolve:executed"},
		"its inquiry is pending": {open(letterOf(payment.DeadOutcomeUnknown, sent, parked, asked),
			func(l *reader.Timeline) {
				l.RailAsks = true
				l.Pending = &reader.PendingRow{NextAction: "INQUIRE", AttemptCount: 3, OutcomeUnknown: true}
			}), "acknowledge escalate resolve:executed"},
		"its inquiry is in flight": {open(letterOf(payment.DeadOutcomeUnknown, sent, parked, asked, inquired), asks),
			"acknowledge escalate"},
		"taken back": {letterOf(payment.DeadConflict, sent, taken,
			reader.AttemptRow{State: payment.Failed, Result: "REFUSED", ErrorCode: payment.CodeResolved},
			reader.AttemptRow{State: payment.LateOutcome, Result: "EXECUTED"}),
			"acknowledge escalate resolve:not_executed"},
		"waits": {open(letterOf("", reader.AttemptRow{State: payment.Retryable}), waits),
			"resolve:executed send-now cancel"},
		"waits, and is over": {open(letterOf("", reader.AttemptRow{State: payment.Retryable}), func(l *reader.Timeline) {
			waits(l)
			l.ExpiresAt = reader.Moment{Time: l.Now.Add(-time.Second)}
		}), "resolve:executed cancel"},
		"never enqueued": {open(letterOf("", reader.AttemptRow{State: payment.Retryable}), func(l *reader.Timeline) {
			waits(l)
			l.NeverEnqueued = true
		}), ""},
		"in flight": {open(letterOf("", sent), func(l *reader.Timeline) { l.DeadLetter = nil }), ""},
		"refused, and others wait behind it": {open(letterOf(payment.DeadFailed, sent, refused), func(l *reader.Timeline) {
			l.Order = &reader.OrderHead{OutboxID: l.OutboxID, SequenceID: 1, HeldBy: "FAILED"}
		}), "acknowledge escalate resolve:executed replay close skip"},
		"refused, behind another": {open(letterOf(payment.DeadFailed, sent, refused), func(l *reader.Timeline) {
			l.Order = &reader.OrderHead{OutboxID: payment.ID{1}, SequenceID: 1, HeldBy: "FAILED"}
		}), "acknowledge escalate resolve:executed replay close"},
		"in flight, and others wait behind it": {open(letterOf("", sent), func(l *reader.Timeline) {
			l.DeadLetter = nil
			l.Order = &reader.OrderHead{OutboxID: l.OutboxID, SequenceID: 1, HeldBy: "DISPATCHING"}
		}), ""},
	} {
		if got := offered(test.line); got != test.want {
			t.Errorf("%s: offered are %q, want %q", name, got, test.want)
		}
	}
}
