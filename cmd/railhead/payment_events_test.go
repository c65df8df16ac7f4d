package main

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestWhoAnswered: a line of payment show marks a report of the rail as its callback, also
// where it answers a claim, and the answer that a worker received not, whatever the rail's
// own words are.
func TestWhoAnswered(t *testing.T) {
	t.Parallel()
	sent := reader.AttemptRow{AttemptNo: 1, State: payment.Dispatching, WorkerID: "relayer-1", ProfileVersion: 1}
	row := func(no int, state payment.State, answers int, result payment.Result, version int,
		message string) reader.AttemptRow {
		return reader.AttemptRow{AttemptNo: no, State: state, AnswersAttemptNo: answers, Result: string(result),
			ProfileVersion: version, ErrorMessage: message}
	}
	for name, test := range map[string]struct {
		rows []reader.AttemptRow
		want []string
	}{
		"reported while it is out": {[]reader.AttemptRow{sent, row(2, payment.Dispatched, 1, payment.ResultExecuted, 0, "by callback 7")},
			[]string{"claimed to be sent", "callback of the rail"}},
		"reported while it waits": {[]reader.AttemptRow{row(1, payment.LateOutcome, 0, payment.ResultRefused, 0, "by callback 7"), row(2, payment.Failed, 0, payment.ResultRefused, 0, "by callback 7")},
			[]string{"callback of the rail", "it ended"}},
		"a late answer in such words": {[]reader.AttemptRow{sent, row(2, payment.ZombieRequeue, 1, "", 1, ""), row(3, payment.LateOutcome, 1, payment.ResultAccepted, 1, "by callback 7")},
			[]string{"claimed to be sent", "the reaper repaired row 1", "a late outcome"}},
		"ended by an earlier report": {[]reader.AttemptRow{sent, row(2, payment.LateOutcome, 1, payment.ResultUnknown, 1, ""), row(3, payment.Dispatched, 1, payment.ResultExecuted, 1, "")},
			[]string{"claimed to be sent", "a late outcome", "it ended"}},
		"answered": {[]reader.AttemptRow{sent, row(2, payment.Dispatched, 1, payment.ResultAccepted, 1, "")},
			[]string{"claimed to be sent", "the send's outcome"}},
	} {
		events := explain.EventsOf(reader.Timeline{Attempts: test.rows, NeverEnqueued: true})
		for n, want := range test.want {
			if events[n].What != want {
				t.Errorf("%s: row %d is said to be %q, want %q", name, n+1, events[n].What, want)
			}
		}
	}
}
