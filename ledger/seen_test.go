package ledger_test

import (
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// seen is how a payment is now, for an act on it.
func (d *desk) seen(id payment.ID) operator.Seen {
	d.t.Helper()
	seen := operator.Seen{OutboxID: id}
	d.must(d.super.QueryRow(d.t.Context(), `SELECT l.reason, l.opened_at, l.updated_at,
			(SELECT max(a.attempt_no) FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id)
		FROM railhead.payment_dead_letters l WHERE l.outbox_id = $1`, [16]byte(id)).
		Scan(&seen.Reason, &seen.OpenedAt, &seen.UpdatedAt, &seen.LastAttempt))
	return seen
}

// TestUnchanged: an act that names what was seen is done only if each part of it still is so.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := plights["FAILED"](d)
	o, now := d.operator(), d.seen(id)
	do := func(to operator.Triage, change func(*operator.Seen)) error {
		seen := now
		change(&seen)
		_, err := o.TriageDeadLetter(operator.IfUnchanged(t.Context(), seen), id, to, why)
		return err
	}
	for name, change := range map[string]func(*operator.Seen){
		"the last row":        func(s *operator.Seen) { s.LastAttempt++ },
		"no row":              func(s *operator.Seen) { s.LastAttempt = 0 },
		"the reason":          func(s *operator.Seen) { s.Reason = payment.DeadExpired },
		"when it was opened":  func(s *operator.Seen) { s.OpenedAt = s.OpenedAt.Add(1000) },
		"when it was changed": func(s *operator.Seen) { s.UpdatedAt = s.UpdatedAt.Add(-1000) },
		"no letter":           func(s *operator.Seen) { *s = operator.Seen{OutboxID: id, LastAttempt: s.LastAttempt} },
	} {
		if err := do(operator.Acknowledge, change); !errors.Is(err, operator.ErrChanged) {
			t.Errorf("another value of %s: %v", name, err)
		}
	}
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'TRIAGE'`), 0)
	d.must(do(operator.Acknowledge, func(s *operator.Seen) { s.LastAttempt = operator.AnyAttempt }))
	if err := do(operator.Escalate, func(*operator.Seen) {}); !errors.Is(err, operator.ErrChanged) {
		t.Errorf("an act by what was seen before another one: %v", err)
	}
	now = d.seen(id)
	d.must(do(operator.Escalate, func(*operator.Seen) {}))
}

// TestLastRowBelowZero: a number that is no row's is refused; it is not every row, which AnyAttempt is.
func TestLastRowBelowZero(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := plights["FAILED"](d)
	o := d.operator()
	for _, row := range []int{operator.AnyAttempt, -2} {
		_, err := o.TriageDeadLetter(operator.IfLastRow(t.Context(), id, row), id, operator.Acknowledge, why)
		if !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("row %d: %v", row, err)
		}
	}
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'TRIAGE'`), 0)
}

// TestSentDuringTheWait: a payment that was sent and parked while an act waited for its lock has changed.
func TestSentDuringTheWait(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := plights["FAILED"](d)
	seen := d.seen(id)
	holder := d.Conn(t, "")
	mustExec(t, holder, `BEGIN`)
	_, err := holder.Exec(t.Context(), `SELECT FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1 FOR UPDATE`,
		[16]byte(id))
	d.must(err)
	o, ended := d.operator(), make(chan error, 1)
	go func() {
		_, err := o.TriageDeadLetter(operator.IfUnchanged(t.Context(), seen), id, operator.Acknowledge, why)
		ended <- err
	}()
	d.eventually("the act to wait", func() bool {
		return d.Int(`SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'`,
			celltest.Operator) > 0
	})
	_, err = holder.Exec(t.Context(), `INSERT INTO railhead.payment_outbox_attempts
			(attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, outcome_unknown, provisional)
		SELECT gen_random_uuid(), $1, 'bank', $2::integer + n, 'UNKNOWN', now(), true, false
		FROM generate_series(1, 2) n`, [16]byte(id), seen.LastAttempt)
	d.must(err)
	mustExec(t, holder, `COMMIT`)
	if err := <-ended; !errors.Is(err, operator.ErrChanged) {
		t.Errorf("got %v", err)
	}
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'TRIAGE'`), 0)
}
