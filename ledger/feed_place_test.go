package ledger_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// byCallback records that a rail has executed a payment, as a callback does: the row's id is a digest of the report,
// and has no time in it. It begins with the latest time that there is.
func (d *doorDesk) byCallback(id payment.ID) {
	d.t.Helper()
	sum := sha256.Sum256(id[:])
	report := callback(id, payment.ResultExecuted, "ref")
	report.AttemptID = payment.ID(sum[:16])
	copy(report.AttemptID[:6], "\xff\xff\xff\xff\xff\xff")
	report.AttemptID[6] = report.AttemptID[6]&0x0f | 0x80
	report.AttemptID[8] = report.AttemptID[8]&0x3f | 0x80
	same(d.t, "a callback", d.late(report), payment.VerdictIn)
}

// forgets removes the last row of a payment, as a failover does that lost it.
func (d *doorDesk) forgets(id payment.ID) {
	d.t.Helper()
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(`DELETE FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.attempt_no = (
		SELECT max(b.attempt_no) FROM railhead.payment_outbox_attempts b WHERE b.outbox_id = $1)`, [16]byte(id))
	d.do(`ALTER TABLE railhead.payment_outbox_attempts ENABLE TRIGGER USER`)
}

// TestFeedGoesBackFromACallback: a reader whose place is the row of a callback goes back like any other one, whatever
// the digest in the place of its time would say.
func TestFeedGoesBackFromACallback(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	id, other := d.order(who, "p1", "one"), d.order(who, "p1", "other")
	d.claim(lane("bank", 9, 0))
	d.byCallback(id)
	s := d.subscribe(who)
	s.hears("before", "one dispatched 2")
	d.forgets(id)
	d.do(appended, [16]byte(other), 2, "FAILED", "", false) // by the new primary, before the reader asks again
	told, last := s.hear()
	same(t, "after it was forgotten", len(told), 1)
	same(t, "the first", told[0], "other failed 2")
	same(t, "whether it says so", last.WentBack, true)
}

// TestDeliveriesGoBackFromACallback: so does an endpoint, on a server that counts its transactions anew.
func TestDeliveriesGoBackFromACallback(t *testing.T) {
	t.Parallel()
	c := newCourierDesk(t, true)
	who := c.token(nil, "p1")
	id, other := c.order(who, "p1", "one"), c.order(who, "p1", "other")
	c.claim(lane("bank", 9, 0))
	c.byCallback(id)
	due := c.isDue("before", "new one dispatched 2")
	c.note(outbox.DeliveryNote{Place: due.Place, Taken: true})
	c.do(appended, [16]byte(other), 2, "FAILED", "", false) // not delivered yet
	c.do(`UPDATE railhead.payment_event_endpoints SET place_system = '1'`)
	c.isDue("on another server", "new one dispatched 2, new other failed 2")
}

// TestFeedGoesFarBackFromACallback: so does one that comes back after hours to another server, which counts its
// transactions anew.
func TestFeedGoesFarBackFromACallback(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	var one, other [16]byte
	d.must(d.super.QueryRow(t.Context(), `SELECT railhead.uuidv7_from(floor(extract(epoch FROM now() - interval '5 hours')
		* 1000000)::bigint), railhead.uuidv7_from(floor(extract(epoch FROM now() - interval '4 hours') * 1000000)::bigint)
		`).Scan(&one, &other))
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(appended, one, 1, "DISPATCHED", "", false)
	d.do(`UPDATE railhead.payment_outbox_attempts SET created_at = now() - interval '4 hours',
		attempt_id = overlay(attempt_id::text PLACING '8' FROM 15)::uuid`)
	s := d.subscribe(who)
	if told, _ := s.hear(); len(told) != 1 {
		t.Fatalf("told %v", told)
	}
	d.do(`DELETE FROM railhead.payment_outbox_attempts`)
	s.at.System = 1
	d.do(appended, other, 1, "FAILED", "", false)
	d.do(`UPDATE railhead.payment_outbox_attempts SET created_at = now() - interval '3 hours'`)
	if told, _ := s.hear(); len(told) != 1 || !strings.HasSuffix(told[0], "failed 1") {
		t.Errorf("after it was forgotten: told %v", told)
	}
}

// TestFeedOfACancelledRepeat: of a cancelled call that may repeat one that a restore lost, the event says that the
// outcome is unknown, as the status does.
func TestFeedOfACancelledRepeat(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	known := d.order(who, "p1", "known")
	d.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_keys SET created_at = '2020-01-01' WHERE outbox_id = $1`,
		[16]byte(known))
	d.suspend()
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at - interval '1 minute'`)
	d.accept()
	s := d.subscribe(who)
	for _, id := range []payment.ID{known, d.order(who, "p1", "one")} {
		_, err := d.operator().CancelPayment(t.Context(), id, why)
		d.must(err)
	}
	d.settled()
	heard, err := d.door.Events(t.Context(), []outbox.Subscription{s.who}, outbox.Place{}, time.Time{}, 100)
	d.must(err)
	for _, e := range heard.Events {
		unknown := d.text(`SELECT railhead.payment_certainty($1, true)`, [16]byte(e.OutboxID)) == "OUTCOME_UNKNOWN"
		if e.Type != payment.EventCancelled || e.OutcomeUnknown != unknown || unknown == (e.OutboxID == known) {
			t.Errorf("%s: %s, outcome unknown %t, in its status %t", e.InstructionID, e.Type, e.OutcomeUnknown, unknown)
		}
	}
	same(t, "events", len(heard.Events), 2)
}

// TestFeedOfARefusalForNow: where a refusal for now is the first row by which the outcome is unknown, it is told.
func TestFeedOfARefusalForNow(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	id := d.order(who, "p1", "one")
	s := d.subscribe(who)
	d.do(appended, [16]byte(id), 1, "DISPATCHING", "", false)
	d.do(appended, [16]byte(id), 2, "RETRYABLE", "", false)
	d.do(appended, [16]byte(id), 3, "DISPATCHING", "", true)
	d.do(appended, [16]byte(id), 4, "RETRYABLE", "", true)
	d.do(appended, [16]byte(id), 5, "DISPATCHING", "", true)
	d.do(appended, [16]byte(id), 6, "UNKNOWN", "", true)
	d.do(appended, [16]byte(id), 7, "RETRYABLE", "", true)
	s.hears("the first alone", "one outcome_unknown 4")
	d.do(appended, [16]byte(id), 8, "DISPATCHED", "", false)
	s.hears("the end", "one dispatched 8")
}
