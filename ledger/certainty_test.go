package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// row makes a row of a timeline: what matters for the money, and nothing else.
func row(state payment.State, result payment.Result, unknown bool) ledger.AttemptRow {
	return ledger.AttemptRow{State: state, Result: string(result), OutcomeUnknown: unknown}
}

func TestCertainty(t *testing.T) {
	t.Parallel()
	waits := &ledger.PendingRow{}
	conflict := &ledger.DeadLetter{Reason: payment.DeadConflict, Status: "pending"}
	claim := row(payment.Dispatching, "", false)
	for name, test := range map[string]struct {
		rows    []ledger.AttemptRow
		pending *ledger.PendingRow
		letter  *ledger.DeadLetter
		want    ledger.Certainty
	}{
		"never claimed":       {nil, waits, nil, ledger.NotSent},
		"only a key is left":  {nil, nil, nil, ledger.OutcomeUnknown},
		"in flight":           {[]ledger.AttemptRow{claim}, nil, nil, ledger.OutcomeUnknown},
		"late word in flight": {[]ledger.AttemptRow{claim, row(payment.LateOutcome, payment.ResultExecuted, false)}, nil, nil, ledger.OutcomeUnknown},
		"executed":            {[]ledger.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, nil, ledger.RailAccepted},
		"executed, then late": {[]ledger.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false), row(payment.LateOutcome, payment.ResultRefusedFinal, false)}, nil, nil, ledger.RailAccepted},
		"contradiction":       {[]ledger.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, conflict, ledger.Contradicted},
		"contradiction ended": {[]ledger.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, &ledger.DeadLetter{Reason: payment.DeadConflict, Status: "resolved"}, ledger.RailAccepted},
		"nothing left":        {[]ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, false)}, waits, nil, ledger.NotSent},
		"credentials refused": {[]ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedRail, false)}, waits, nil, ledger.NotSent},
		"check failed":        {[]ledger.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)}, nil, nil, ledger.NotSent},
		"expired":             {[]ledger.AttemptRow{row(payment.Failed, "", false)}, nil, nil, ledger.NotSent},
		"cancelled":           {[]ledger.AttemptRow{row(payment.Cancelled, "", false)}, nil, nil, ledger.NotSent},
		"route refused":       {[]ledger.AttemptRow{claim, {State: payment.Retryable, Result: "REFUSED_RAIL", RailCode: "404"}}, waits, nil, ledger.RailRefused},
		"busy":                {[]ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedLater, false)}, waits, nil, ledger.RailRefused},
		"refused for now":     {[]ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedTransient, false)}, waits, nil, ledger.RailRefused},
		"refused":             {[]ledger.AttemptRow{claim, row(payment.Failed, payment.ResultRefusedFinal, false)}, nil, nil, ledger.RailRefused},
		"silence":             {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true)}, &ledger.PendingRow{OutcomeUnknown: true}, nil, ledger.OutcomeUnknown},
		"worker died":         {[]ledger.AttemptRow{claim, row(payment.ZombieRequeue, "", true)}, nil, nil, ledger.OutcomeUnknown},
		"refused after silence": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), claim,
			row(payment.Parked, payment.ResultRefusedFinal, true)}, nil, nil, ledger.OutcomeUnknown},
		"not sent after silence": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Dispatching, "", true),
			row(payment.Retryable, payment.ResultNotSent, true)}, waits, nil, ledger.OutcomeUnknown},
		"not found, too young": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Inquiring, "", true),
			row(payment.Unknown, payment.ResultNotFound, true)}, waits, nil, ledger.OutcomeUnknown},
		"not found, proven": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Inquiring, "", true),
			row(payment.Retryable, payment.ResultNotFound, false)}, waits, nil, ledger.RailRefused},
		"a person's evidence": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Parked, "", true),
			{State: payment.Failed, ErrorCode: payment.CodeResolved, Evidence: "NOT_EXECUTED"}}, nil, nil, ledger.NotExecutedByEvidence},
		"a person's proof": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Parked, "", true),
			{State: payment.Dispatched, ErrorCode: payment.CodeResolved, Evidence: "EXECUTED"}}, nil, nil, ledger.ExecutedByEvidence},
		"an older copy cancelled": {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Cancelled, "", false)}, nil, nil, ledger.OutcomeUnknown},
		"an older copy expired":   {[]ledger.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Failed, "", false)}, nil, nil, ledger.OutcomeUnknown},
		"a copy in flight":        {[]ledger.AttemptRow{claim}, waits, nil, ledger.OutcomeUnknown},
		"taken for now": {[]ledger.AttemptRow{claim, {State: payment.Accepted, Result: "ACCEPTED", OutcomeUnknown: true, Provisional: true}},
			&ledger.PendingRow{OutcomeUnknown: true, Provisional: true}, nil, ledger.OutcomeUnknown},
	} {
		line := ledger.Timeline{Attempts: test.rows, Pending: test.pending, DeadLetter: test.letter}
		for n := range line.Attempts {
			line.Attempts[n].AttemptNo = n + 1
		}
		if got, why := line.Certainty(); got != test.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", name, got, why, test.want)
		}
	}
	long := ledger.Timeline{Earlier: true, Attempts: []ledger.AttemptRow{row(payment.Retryable, payment.ResultNotSent, false)}}
	if got, _ := long.Certainty(); got != ledger.OutcomeUnknown {
		t.Errorf("a timeline without its first rows: %s", got)
	}
}

// TestNothingSentIsSaidAsItWas: what was never claimed had no claim that could end, and
// what the rail answered was not ended before the first byte.
func TestNothingSentIsSaidAsItWas(t *testing.T) {
	t.Parallel()
	claim := row(payment.Dispatching, "", false)
	for name, test := range map[string]struct {
		rows []ledger.AttemptRow
		want string
	}{
		"cancelled":    {[]ledger.AttemptRow{row(payment.Cancelled, "", false)}, "NOT_SENT: it was never claimed"},
		"expired":      {[]ledger.AttemptRow{{State: payment.Failed, ErrorCode: payment.CodeExpired}}, "NOT_SENT: it was never claimed"},
		"check failed": {[]ledger.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)}, "NOT_SENT: every claim ended before the first byte"},
		"401": {[]ledger.AttemptRow{claim, {State: payment.Failed, Result: "REFUSED_RAIL", RailCode: "401", ErrorCode: "RAIL_REFUSED_ONE"}},
			"REFUSED: by the rail's own word it was not executed (row 2, code 401)"},
	} {
		for n := range test.rows {
			test.rows[n].AttemptNo = n + 1
		}
		word, why := ledger.Timeline{Attempts: test.rows}.Certainty()
		if got := string(word) + ": " + why; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestCertaintySaysWhy: what histories seldom come to, or can't.
func TestCertaintySaysWhy(t *testing.T) {
	t.Parallel()
	claim, unknown := row(payment.Dispatching, "", false), row(payment.Unknown, payment.ResultUnknown, true)
	for want, line := range map[string]ledger.Timeline{
		"pending says that a send has no trustworthy answer, and no row of it is in the archive": {Pending: &ledger.PendingRow{OutcomeUnknown: true}},
		"by row 1 a send may have been executed, and no row after it settles that": {
			Pending:  &ledger.PendingRow{OutcomeUnknown: true},
			Attempts: []ledger.AttemptRow{{AttemptNo: 1, State: payment.LateOutcome, Result: string(payment.ResultUnavailable), OutcomeUnknown: true}},
		},
		"a send has no trustworthy answer, as of row 2": {Attempts: []ledger.AttemptRow{claim, unknown}, Pending: &ledger.PendingRow{OutcomeUnknown: true}},
		"by row 3 a send may have been executed, and no row after it settles that": {
			Attempts: []ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, false), row(payment.LateOutcome, payment.ResultUnknown, true)},
			Pending:  &ledger.PendingRow{OutcomeUnknown: true}},
		"by row 2 a send may have been executed, and no row after it settles that": {Attempts: []ledger.AttemptRow{claim, unknown, row(payment.Cancelled, "", false)}},
		"it is kept unknown as of row 2, although every send that the rows show has an answer: compare with the rail": {
			Attempts: []ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, true)}, Pending: &ledger.PendingRow{OutcomeUnknown: true}},
		"an operator resolved that it was not executed, against row 3": {
			Attempts: []ledger.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false), row(payment.LateOutcome, payment.ResultExecuted, false)}},
		"by row 2 the rail did not look at it, and it may repeat a call that was forgotten before lanes were suspended at 2026-11-21T09:00:00Z: compare with the rail": {
			RepeatsSince: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), Attempts: []ledger.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedLater, false)}},
		"only its key is left: its rows have left the archive": {},
		"its oldest rows are not in this look":                 {Earlier: true, Attempts: []ledger.AttemptRow{row(payment.Retryable, payment.ResultNotSent, false)}},
		"what is known of the payment is not what is recorded: FAILED; a person compares with the rail's statement": {
			Attempts:   []ledger.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)},
			DeadLetter: &ledger.DeadLetter{Reason: payment.DeadConflict, Status: "pending"}},
	} {
		for n := range line.Attempts {
			line.Attempts[n].AttemptNo = n + 1
			if line.Attempts[n].State != payment.Dispatching && n == 1 {
				line.Attempts[n].AnswersAttemptNo = 1
			}
		}
		if _, why := line.Certainty(); why != want {
			t.Errorf("%q, want %q", why, want)
		}
	}
}
