package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// TestRescheduleToThePast: a due time that is past is refused, by the clock of the database, and changes nothing.
func TestRescheduleToThePast(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue("not_before => now() + interval '19 days'")
	for name, at := range map[string]time.Time{
		"a year that was mistyped": time.Now().AddDate(-1, 0, 19), "a moment ago": time.Now().Add(-time.Second),
	} {
		_, err := d.operator().ReschedulePayment(t.Context(), id, at, why)
		refusedWith(t, name, err, "RH002", "is past: by the clock of the database it is")
		same(t, name+", the hint", hint(t, name, err), "To send it now: payment send-now.")
	}
	same(t, "due after the refusals", d.text(`SELECT (next_attempt_at > now() + interval '18 days')::text
		FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id)), "true")

	later := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	_, err := d.operator().ReschedulePayment(t.Context(), id, later, why)
	d.must(err)
	same(t, "the moment that was asked for", d.text(`SELECT ((detail ->> 'asked')::timestamptz = $1)::text
		FROM railhead.payment_operator_log WHERE act = 'RESCHEDULE'`, later), "true")

	// A span counts from the clock of the database.
	due, err := d.operator().PostponePayment(t.Context(), id, time.Hour, why)
	d.must(err)
	if left := d.text(`SELECT ($1 - now() BETWEEN interval '59 minutes' AND interval '1 hour')::text`, due.Is); left != "true" {
		t.Errorf("due at %s, want an hour from now by the clock of the database", due.Is)
	}
}

// TestReplayAfterTheDeadline: a payment whose deadline has passed is not replayed without a word about when it has to
// end now, whatever its dead letter is for.
func TestReplayAfterTheDeadline(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	expired := plights["EXPIRED"](d)
	failed := d.enqueue("expires_at => now() + interval '1 hour'")
	d.record(told(sameKey, d.claimOne(failed), payment.ResultRefusedFinal, "ref"))
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET expires_at = now() - interval '1 minute' WHERE outbox_id = $1
		AND expires_at IS NOT NULL`, [16]byte(failed))
	d.do(`ALTER TABLE railhead.payment_outbox_attempts ENABLE TRIGGER USER`)
	for name, id := range map[string]payment.ID{"EXPIRED": expired, "FAILED": failed} {
		_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
		refusedWith(t, name, err, "RH020", "it had to be sent before")
		_, err = d.operator().ReplayPayment(t.Context(), id, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), why)
		refusedWith(t, name, err, "RH002", "before the year 10000")
	}
	_, err := d.operator().ReplayPayment(t.Context(), expired, time.Now().Add(time.Hour), why)
	d.must(err)
	_, err = d.operator().ReplayPayment(t.Context(), failed, operator.NeverExpires, why)
	d.must(err)
	same(t, "deadlines of the replayed", d.text(`SELECT string_agg(coalesce((expires_at > now())::text, 'never'), ', '
		ORDER BY expires_at) FROM railhead.payment_outbox_pending`), "true, never")

	// What was quarantined keeps its own, and loses it by the word alone.
	aside := d.enqueue("expires_at => now() + interval '1 hour'")
	d.must(d.quarantine(aside, "23514"))
	_, err = d.operator().ReplayPayment(t.Context(), aside, operator.NeverExpires, why)
	d.must(err)
	same(t, "quarantined, never", d.text(`SELECT coalesce(expires_at::text, 'never')
		FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(aside)), "never")
}

// TestResumeAnUnknownParticipant: no resumption of a participant that never enqueued is done, or logged.
func TestResumeAnUnknownParticipant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.operator().ResumeParticipant(t.Context(), "participnat", why)
	refusedWith(t, "unknown", err, "RH010", "has never enqueued anything here")
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'RESUME_PARTICIPANT'`), 0)
}

// TestEvidenceOfTheFuture: it is said that the day of the evidence is in the future, and not that it lacks something.
func TestEvidenceOfTheFuture(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	evidence := notExecuted()
	evidence.Date = time.Now().AddDate(0, 0, 7)
	_, err := d.operator().ResolvePayment(t.Context(), parked(d), evidence)
	refusedWith(t, "a week ahead", err, "RH002", "is in the future")
}

// TestReasonThatIsNotSeen: a reason of which nothing is seen is none.
func TestReasonThatIsNotSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, reason := range []string{"\u200b", "\t\n", "\u00a0\u2003", "\ufeff\u2060", "\u202e \u200d"} {
		_, err := d.operator().PauseRail(t.Context(), "bank", reason, time.Time{})
		refusedWith(t, reason, err, "RH002", "a reason of 1 to 2000 bytes is required")
	}
	for _, reason := range []string{"保守", "1", "é", "\u200bwhy"} {
		if _, err := d.operator().PauseRail(t.Context(), "bank", reason, time.Time{}); err != nil {
			t.Errorf("%q: %v", reason, err)
		}
	}
}
