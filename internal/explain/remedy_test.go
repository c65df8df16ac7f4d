package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

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
	} {
		got := explain.Remedy(test.line)
		if !strings.Contains(got, test.says) || !strings.Contains(got, test.says2) ||
			test.not != "" && strings.Contains(got, test.not) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
