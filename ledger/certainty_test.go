package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// row makes a row of a timeline: what matters for the money, and nothing else.
func row(state payment.State, result payment.Result, unknown bool) reader.AttemptRow {
	return reader.AttemptRow{State: state, Result: string(result), OutcomeUnknown: unknown}
}

func TestCertainty(t *testing.T) {
	t.Parallel()
	waits := &reader.PendingRow{}
	conflict := &reader.DeadLetter{Reason: payment.DeadConflict, Status: "pending"}
	claim := row(payment.Dispatching, "", false)
	for name, test := range map[string]struct {
		rows    []reader.AttemptRow
		pending *reader.PendingRow
		letter  *reader.DeadLetter
		want    reader.Certainty
	}{
		"never claimed":       {nil, waits, nil, reader.NotSent},
		"only a key is left":  {nil, nil, nil, reader.OutcomeUnknown},
		"in flight":           {[]reader.AttemptRow{claim}, nil, nil, reader.OutcomeUnknown},
		"late word in flight": {[]reader.AttemptRow{claim, row(payment.LateOutcome, payment.ResultExecuted, false)}, nil, nil, reader.OutcomeUnknown},
		"executed":            {[]reader.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, nil, reader.RailAccepted},
		"executed, then late": {[]reader.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false), row(payment.LateOutcome, payment.ResultRefusedFinal, false)}, nil, nil, reader.RailAccepted},
		"contradiction":       {[]reader.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, conflict, reader.Contradicted},
		"contradiction ended": {[]reader.AttemptRow{claim, row(payment.Dispatched, payment.ResultAccepted, false)}, nil, &reader.DeadLetter{Reason: payment.DeadConflict, Status: "resolved"}, reader.RailAccepted},
		"nothing left":        {[]reader.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, false)}, waits, nil, reader.NotSent},
		"credentials refused": {[]reader.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedRail, false)}, waits, nil, reader.NotSent},
		"check failed":        {[]reader.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)}, nil, nil, reader.NotSent},
		"expired":             {[]reader.AttemptRow{row(payment.Failed, "", false)}, nil, nil, reader.NotSent},
		"cancelled":           {[]reader.AttemptRow{row(payment.Cancelled, "", false)}, nil, nil, reader.NotSent},
		"route refused":       {[]reader.AttemptRow{claim, {State: payment.Retryable, Result: "REFUSED_RAIL", RailCode: "404"}}, waits, nil, reader.RailRefused},
		"busy":                {[]reader.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedLater, false)}, waits, nil, reader.RailRefused},
		"refused for now":     {[]reader.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedTransient, false)}, waits, nil, reader.RailRefused},
		"refused":             {[]reader.AttemptRow{claim, row(payment.Failed, payment.ResultRefusedFinal, false)}, nil, nil, reader.RailRefused},
		"silence":             {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true)}, &reader.PendingRow{OutcomeUnknown: true}, nil, reader.OutcomeUnknown},
		"worker died":         {[]reader.AttemptRow{claim, row(payment.ZombieRequeue, "", true)}, nil, nil, reader.OutcomeUnknown},
		"refused after silence": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), claim,
			row(payment.Parked, payment.ResultRefusedFinal, true)}, nil, nil, reader.OutcomeUnknown},
		"not sent after silence": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Dispatching, "", true),
			row(payment.Retryable, payment.ResultNotSent, true)}, waits, nil, reader.OutcomeUnknown},
		"not found, too young": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Inquiring, "", true),
			row(payment.Unknown, payment.ResultNotFound, true)}, waits, nil, reader.OutcomeUnknown},
		"not found, proven": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Inquiring, "", true),
			row(payment.Retryable, payment.ResultNotFound, false)}, waits, nil, reader.RailRefused},
		"a person's evidence": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Parked, "", true),
			{State: payment.Failed, ErrorCode: payment.CodeResolved, Evidence: "NOT_EXECUTED"}}, nil, nil, reader.NotExecutedByEvidence},
		"a person's proof": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Parked, "", true),
			{State: payment.Dispatched, ErrorCode: payment.CodeResolved, Evidence: "EXECUTED"}}, nil, nil, reader.ExecutedByEvidence},
		"an older copy cancelled": {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Cancelled, "", false)}, nil, nil, reader.OutcomeUnknown},
		"an older copy expired":   {[]reader.AttemptRow{claim, row(payment.Unknown, payment.ResultUnknown, true), row(payment.Failed, "", false)}, nil, nil, reader.OutcomeUnknown},
		"a copy in flight":        {[]reader.AttemptRow{claim}, waits, nil, reader.OutcomeUnknown},
		"taken for now": {[]reader.AttemptRow{claim, {State: payment.Accepted, Result: "ACCEPTED", OutcomeUnknown: true, Provisional: true}},
			&reader.PendingRow{OutcomeUnknown: true, Provisional: true}, nil, reader.OutcomeUnknown},
	} {
		line := reader.Timeline{Attempts: test.rows, Pending: test.pending, DeadLetter: test.letter}
		for n := range line.Attempts {
			line.Attempts[n].AttemptNo = n + 1
		}
		if got, why := line.Certainty(); got != test.want || why == "" {
			t.Errorf("%s: %s (%s), want %s", name, got, why, test.want)
		}
	}
	long := reader.Timeline{Earlier: true, Attempts: []reader.AttemptRow{row(payment.Retryable, payment.ResultNotSent,
		false)}}
	if got, _ := long.Certainty(); got != reader.OutcomeUnknown {
		t.Errorf("a timeline without its first rows: %s", got)
	}
}

// TestNothingSentIsSaidAsItWas: what was never claimed had no claim that could end, and
// what the rail answered was not ended before the first byte.
func TestNothingSentIsSaidAsItWas(t *testing.T) {
	t.Parallel()
	claim := row(payment.Dispatching, "", false)
	for name, test := range map[string]struct {
		rows []reader.AttemptRow
		want string
	}{
		"cancelled":    {[]reader.AttemptRow{row(payment.Cancelled, "", false)}, "NOT_SENT: it was never claimed"},
		"expired":      {[]reader.AttemptRow{{State: payment.Failed, ErrorCode: payment.CodeExpired}}, "NOT_SENT: it was never claimed"},
		"check failed": {[]reader.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)}, "NOT_SENT: every claim ended before the first byte"},
		"401": {[]reader.AttemptRow{claim, {State: payment.Failed, Result: "REFUSED_RAIL", RailCode: "401", ErrorCode: "RAIL_REFUSED_ONE"}},
			"REFUSED: by the rail's own word it was not executed (row 2, code 401)"},
	} {
		for n := range test.rows {
			test.rows[n].AttemptNo = n + 1
		}
		word, why := reader.Timeline{Attempts: test.rows}.Certainty()
		if got := string(word) + ": " + why; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestCertaintySaysWhy: what histories seldom come to, or can't.
func TestCertaintySaysWhy(t *testing.T) {
	t.Parallel()
	claim, unknown := row(payment.Dispatching, "", false), row(payment.Unknown, payment.ResultUnknown, true)
	otherID, err := payment.ParseID("0198c1f2-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	for want, line := range map[string]reader.Timeline{
		"pending says that a send has no trustworthy answer, and no row of it is in the archive": {Pending: &reader.PendingRow{OutcomeUnknown: true}},
		"by row 1 a send may have been executed, and no row after it settles that": {
			Pending: &reader.PendingRow{OutcomeUnknown: true},
			Attempts: []reader.AttemptRow{{AttemptNo: 1, State: payment.LateOutcome, Result: string(payment.ResultUnavailable),
				OutcomeUnknown: true}},
		},
		"a send has no trustworthy answer, as of row 2": {Attempts: []reader.AttemptRow{claim, unknown}, Pending: &reader.PendingRow{OutcomeUnknown: true}},
		"by row 3 a send may have been executed, and no row after it settles that": {
			Attempts: []reader.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, false),
				row(payment.LateOutcome, payment.ResultUnknown, true)},
			Pending: &reader.PendingRow{OutcomeUnknown: true}},
		"by row 2 a send may have been executed, and no row after it settles that": {Attempts: []reader.AttemptRow{claim, unknown, row(payment.Cancelled, "", false)}},
		"it is kept unknown as of row 2, although every send that the rows show has an answer: compare with the rail": {
			Attempts: []reader.AttemptRow{claim, row(payment.Retryable, payment.ResultNotSent, true)},
			Pending:  &reader.PendingRow{OutcomeUnknown: true}},
		"it is kept unknown as of row 1, and the rows show no send of it: compare with the rail": {
			Attempts: []reader.AttemptRow{row(payment.Parked, "", true)}},
		"an operator resolved that it was not executed, against row 3": {
			Attempts: []reader.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false),
				row(payment.LateOutcome, payment.ResultExecuted, false)}},
		"by row 2 the rail did not look at it, and it may repeat a call that was forgotten before lanes were suspended at 2026-11-21T09:00:00Z: compare with the rail": {
			RepeatsSince: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
			Attempts:     []reader.AttemptRow{claim, row(payment.Retryable, payment.ResultRefusedLater, false)}},
		"another cell has its key, too, as 0198c1f2-0000-7000-8000-000000000001: see what became of it there": {
			OtherCell: &reader.OtherKey{OutboxID: otherID}, Attempts: []reader.AttemptRow{row(payment.Cancelled, "", false)}},
		"cell west was settled to take its participant, and may have its key, too: see whether it has, and what became of it there": {
			OtherCell: &reader.OtherKey{Cell: "west"},
			Attempts:  []reader.AttemptRow{claim, row(payment.Failed, payment.ResultRefused, false)}},
		"only its key is left: its rows have left the archive":                                                                {},
		"it is lost: no row of it is in pending or the archive, and its month has not left (railhead prove run nothing-lost)": {Lost: true},
		"its oldest rows are not in this look":                                                                                {Earlier: true, Attempts: []reader.AttemptRow{row(payment.Retryable, payment.ResultNotSent, false)}},
		"what is known of the payment is not what is recorded: FAILED; a person compares with the rail's statement": {
			Attempts:   []reader.AttemptRow{claim, row(payment.Failed, payment.ResultCheckFailed, false)},
			DeadLetter: &reader.DeadLetter{Reason: payment.DeadConflict, Status: "pending"}},
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
