package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestShowBeforeItWasSeen: after a failover, and before any service has checked the server, what looks
// as if it had never been sent may have been: it can't be cancelled, and does not expire.
func TestShowBeforeItWasSeen(t *testing.T) {
	t.Parallel()
	for what, doubt := range doubts() {
		d := newDesk(t)
		id := d.enqueue() // and sent, which the failover forgot
		doubt(d)
		_, err := d.operator().CancelPayment(t.Context(), id, why)
		if err == nil {
			t.Errorf("%s: it was cancelled", what)
		}
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		word, says := line.Certainty()
		same(t, what+": payment show says \""+says+"\"", word, reader.OutcomeUnknown)
		same(t, what+": callers are told", d.text(`SELECT certainty FROM railhead.status_of_payments(ARRAY[$1::uuid])`, [16]byte(id)), string(reader.OutcomeUnknown))
	}
}

// TestCancelBeforeItWasSeen: the server was started again, and no component has compared this start with what it
// remembers: it may go on from a snapshot of the same timeline.
func TestCancelBeforeItWasSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
		VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', '2025-12-01', clock_timestamp() - interval '1 hour', true)`)
	id := d.enqueue() // and sent, which the snapshot has not
	_, err := d.operator().CancelPayment(t.Context(), id, why)
	same(t, "refused", ledger.SQLState(err), "RH020")
	if !strings.Contains(err.Error(), "no relayer has confirmed that nothing is missing") {
		t.Error(err)
	}
	line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
	d.must(err)
	word, _ := line.Certainty()
	same(t, "payment show", word, reader.OutcomeUnknown)
	same(t, "no suspension is open", line.Unconfirmed, true)
	same(t, "callers are told", d.text(`SELECT certainty FROM railhead.status_of_payments(ARRAY[$1::uuid])`, [16]byte(id)), string(reader.OutcomeUnknown))
	expired := d.enqueue()
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(expired))
	_, err = d.exec.Expire(t.Context(), "reaper", 10)
	d.must(err)
	same(t, "rows of what is over", d.rows(expired), "")

	// Some worker compares this start, which a callback endpoint does not.
	for _, kind := range []string{"callback", "reaper"} {
		_, err := d.exec.Heartbeat(t.Context(), outbox.Heartbeat{Name: kind + ":1", Kind: kind, Host: "h", Version: "v",
			Status: "running", Vouched: true})
		d.must(err)
		same(t, "settled by a "+kind, d.text(`SELECT railhead.server_is_settled()::text`), map[string]string{"callback": "false", "reaper": "true"}[kind])
	}
	_, err = d.operator().CancelPayment(t.Context(), id, why)
	d.must(err)
}

// TestEvidenceBeforeItWasSeen: the server goes on from a snapshot, and no component has compared
// this start with what it remembers: a statement of before the snapshot says nothing of what was
// sent since. Proof of execution is taken.
func TestEvidenceBeforeItWasSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim, executed := d.claimOne(d.enqueue()), d.claimOne(d.enqueue())
	d.record(lost(never, claim))
	d.record(lost(never, executed))
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
		VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', '2025-12-01', clock_timestamp() - interval '1 hour', true)`)
	o := d.operator()
	_, err := o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	refusedWith(t, "not executed", err, "RH020", "no relayer has confirmed that nothing is missing")
	_, err = o.ResolvePayment(t.Context(), executed.OutboxID, stated("ref-1"))
	d.must(err)
	// it has compared, and misses nothing
	d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = pg_postmaster_start_time()`)
	_, err = o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
}

// TestAcceptedBeforeItWasSeen: an operator has compared what a first restore forgot. A second one, that no component
// has looked at yet, is not accepted with it.
func TestAcceptedBeforeItWasSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.suspend()
	d.do(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = server_started_at - interval '1 day'
		WHERE accepted_at IS NULL`)
	_, err := d.operator().AcceptTimeline(t.Context(), d.suspendedAt(), why)
	same(t, "refused", ledger.SQLState(err), "RH020")
	d.suspend() // a guard has looked
	_, err = d.operator().AcceptTimeline(t.Context(), d.suspendedAt(), why)
	d.must(err)
}

// TestAcceptedThoughNothingIsSuspended: before a component has checked a start of the server
// nothing is suspended, and nothing is accepted: no row would say that sends may be forgotten.
func TestAcceptedThoughNothingIsSuspended(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"same timeline", "another timeline"} {
		d := newDesk(t)
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
			VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', '2025-12-01', clock_timestamp() - interval '1 hour', true)`)
		if what == "another timeline" {
			d.unaccepted()
		}
		_, err := d.operator().AcceptTimeline(t.Context(), d.suspendedAt(), why)
		same(t, what+": refused", ledger.SQLState(err), "RH020")
		// it has compared, and misses nothing
		d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = pg_postmaster_start_time()`)
		if what == "another timeline" {
			d.suspend()
		}
		_, err = d.operator().AcceptTimeline(t.Context(), d.suspendedAt(), why)
		d.must(err)
	}
}

// TestRefusedForNowAfterTheAcceptance: a caller repeats a call that a restore forgot, and that was executed. The rail
// refuses its send for now, for load, before it looks the key up. The payment does not end as not paid.
func TestRefusedForNowAfterTheAcceptance(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"cancelled", "expired"} {
		d := newDesk(t)
		d.apply(keepsKeys)
		d.suspend()
		d.accept()
		id := d.enqueue() // again, and executed before
		server, err := d.exec.CheckServer(t.Context())
		d.must(err)
		claim := server.Weigh(d.claimOne(id))
		same(t, "may have been sent", claim.MaybeSent, true)
		d.record(told(sameKey, claim, payment.ResultRefusedTransient, ""))
		if end == "cancelled" {
			_, err = d.operator().CancelPayment(t.Context(), id, why)
			t.Log(err)
		} else {
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'
				WHERE outbox_id = $1`, [16]byte(id))
			_, err = d.exec.Expire(t.Context(), "reaper", 10)
			d.must(err)
		}
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		word, says := line.Certainty()
		same(t, end+": payment show says \""+says+"\" of "+d.rows(id), word, reader.OutcomeUnknown)
	}
}

// TestSuspendedByAClockThatWasAhead: an acceptance on this start of the server is dated in time to come, and the clock
// was put right. What goes missing after it is suspended all the same.
func TestSuspendedByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.suspend()
	d.accept()
	d.do(`UPDATE railhead.payment_outbox_suspensions SET accepted_at = clock_timestamp() + interval '1 hour'`)
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseRowsMissing, "in a test", server.Now))
	same(t, "open", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL`), "1")
}

// TestEvidenceUnderASuspensionOfBefore: an open suspension that a backup brought along is of
// another start: nothing has been compared on this one, and what was sent since the backup may be
// forgotten.
func TestEvidenceUnderASuspensionOfBefore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, again := plights["PARKED, outcome unknown"](d), plights["PARKED, outcome unknown"](d)
	d.suspend()
	_, err := d.operator().ResolvePayment(t.Context(), id, notExecuted())
	d.must(err) // by what is compared under a suspension of this start
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = '2025-12-01'`)
	_, err = d.operator().ResolvePayment(t.Context(), again, notExecuted())
	refusedWith(t, "not executed", err, "RH020", "no relayer has confirmed that nothing is missing")
}
