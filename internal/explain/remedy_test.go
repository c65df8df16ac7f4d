package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// overtaken is a quarantined payment that was never claimed, late or not, and in doubt or not.
func overtaken(late, unknown bool) reader.Timeline {
	line := letterOf(payment.DeadUnclaimable)
	line.DeadLetter.ErrorCode = "SQLSTATE_23514"
	line.Pending = &reader.PendingRow{Quarantine: true, OutcomeUnknown: unknown, NextAction: string(payment.ActionSend)}
	line.Now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	line.ExpiresAt = reader.Moment{Time: line.Now.Add(time.Hour)}
	if late {
		line.ExpiresAt.Time = line.Now
	}
	return line
}

// TestReplayCommand: the command that a page shows gives a payment a new deadline where a replay without one does not
// send it.
func TestReplayCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		late, unknown bool
		want          string
	}{
		{false, false, "railhead dead-letter replay"}, {true, false, "railhead dead-letter replay --expires-at TIME"},
		{true, true, "railhead dead-letter replay"},
	} {
		for _, act := range explain.Acts(overtaken(test.late, test.unknown)) {
			if act.Name == "replay" && (act.Command != test.want || act.Why != "") {
				t.Errorf("late %t, in doubt %t: %q, %q", test.late, test.unknown, act.Command, act.Why)
			}
		}
	}
}

// TestRemedy: what is advised while a suspension is open; and that a payment which may have been made is not advised to
// be made anew.
func TestRemedy(t *testing.T) {
	t.Parallel()
	sent := reader.AttemptRow{State: payment.Dispatching, AttemptNo: 1}
	parked := reader.AttemptRow{State: payment.Parked, AttemptNo: 2, AnswersAttemptNo: 1, Result: "UNKNOWN",
		OutcomeUnknown: true}
	refused := reader.AttemptRow{State: payment.Failed, AttemptNo: 2, AnswersAttemptNo: 1, Result: "REFUSED_FINAL",
		RailCode: "AC04"}
	told := reader.AttemptRow{State: payment.LateOutcome, AttemptNo: 3, Result: "UNKNOWN", OutcomeUnknown: true}
	with := func(line reader.Timeline, more func(*reader.Timeline)) reader.Timeline {
		more(&line)
		return line
	}
	const anew = "to try again, close it first; then the participant enqueues it as a new instruction.\nTo close it: "
	for name, test := range map[string]struct {
		line             reader.Timeline
		says, says2, not string
	}{
		"parked": {with(letterOf(payment.DeadOutcomeUnknown, sent, parked), func(l *reader.Timeline) { l.RailAsks = true }),
			"it may have been paid. Have the rail asked: railhead payment inquire", "", "suspended"},
		"parked, suspended": {with(letterOf(payment.DeadOutcomeUnknown, sent, parked), func(l *reader.Timeline) {
			l.RailAsks, l.SuspendedAt = true, time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
		}), "it may have been paid. Lanes are suspended since 2026-08-01T12:00:00.000Z. Where that of the rail goes on",
			"refused until the server is accepted", ""},
		"refused, a new id": {with(letterOf(payment.DeadFailed, sent, refused), func(l *reader.Timeline) { l.NewID = true }),
			"it was provably not paid. ", anew, ""},
		"refused, and told otherwise since": {letterOf(payment.DeadFailed, sent, refused, told),
			"Find out from the rail whether it was made. If not, close it first; then", "", anew},
		"expired": {with(letterOf(payment.DeadFailed, sent, refused), func(l *reader.Timeline) {
			l.Now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
			l.ExpiresAt = reader.Moment{Time: l.Now}
		}), "It had to be sent before 2026-08-01T12:00:00.000Z, which is past.",
			"--row 2 --expires-at TIME --reason WHY", ""},
		"a letter that its rows do not bear out": {letterOf(payment.DeadFailed, sent, parked),
			"its dead letter says FAILED, and its last row, 2, is PARKED: it is neither replayed nor closed.",
			"then: railhead dead-letter resolve", "dead-letter replay"},
		"the same, executed": {letterOf(payment.DeadExpired, sent, reader.AttemptRow{State: payment.Dispatched, AttemptNo: 2}),
			"its last row, 2, is DISPATCHED: it is neither replayed nor closed.", "escalate it", "dead-letter close"},
		"the same, without a row": {with(letterOf(payment.DeadFailed), func(l *reader.Timeline) {
			l.Pending = &reader.PendingRow{}
		}), "it is in pending and has no row: it is neither", "then: railhead dead-letter resolve", "dead-letter replay"},
		"quarantined": {overtaken(false, false), "names, then: railhead dead-letter replay",
			"--row 0 --reason WHY\nor end it: railhead payment cancel", "--expires-at"},
		"quarantined, and expired": {overtaken(true, false), "it had to be sent before 2026-08-01T12:00:00.000Z, which is past",
			"--row 0 --expires-at TIME --reason WHY\nor end it: railhead payment cancel", "--row 0 --reason WHY\nor end"},
		"quarantined and in doubt, and expired": {overtaken(true, true),
			"It had to be sent before 2026-08-01T12:00:00.000Z, which is past: it is sent again only with --expires-at TIME",
			"--row 0 --reason WHY\n", "payment cancel"},
	} {
		got := explain.Remedy(test.line)
		if !strings.Contains(got, test.says) || !strings.Contains(got, test.says2) ||
			test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
