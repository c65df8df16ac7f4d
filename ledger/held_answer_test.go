package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// held records an outcome as a relayer does: by the slow path where the fast one left it.
func (d *desk) held(o payment.Outcome) error {
	d.t.Helper()
	result, err := d.exec.Turn(d.t.Context(),
		outbox.Turn{Outcomes: []payment.Outcome{o}, Finished: []payment.ID{o.Claim.ClaimID}})
	d.must(err)
	if len(result.Late) == 0 {
		return nil
	}
	_, err = d.exec.RecordLate(d.t.Context(), o)
	return err
}

// startedAgain makes this start of the server one that no component has compared.
func (d *desk) startedAgain() {
	d.t.Helper()
	d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = '2025-12-01'`)
}

// TestRefusalHeldOverAFailover: a worker has the refusal of a send, and the data goes back before
// it is recorded. What the old server sent again meanwhile is forgotten, and the refusal says
// nothing of it: it waits for a look, and ends the payment only where it covers every send.
func TestRefusalHeldOverAFailover(t *testing.T) {
	t.Parallel()
	const covers = `{"answer_covers_key": true, "resend_on_unknown": "SAME_KEY", "key_window": "1h", "id_after_refusal": "NEW"}`
	for _, c := range []struct {
		name    string
		profile string
		result  payment.Result
		doubt   func(*desk)
		look    func(*desk)
		want    string
	}{
		{"no failover", `{}`, payment.ResultRefusedFinal, func(*desk) {}, nil, "FAILED"},
		{"a failover", `{}`, payment.ResultRefusedFinal, (*desk).unaccepted, (*desk).suspend, "PARKED"},
		{"a start that misses nothing", `{}`, payment.ResultRefusedFinal, (*desk).startedAgain, func(d *desk) {
			d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = pg_postmaster_start_time()`)
		}, "FAILED"},
		{"a snapshot", `{}`, payment.ResultRefusedFinal, (*desk).startedAgain, (*desk).suspend, "PARKED"},
		{"held until it was accepted", `{}`, payment.ResultRefusedFinal, func(d *desk) { d.suspend(); d.accept() }, nil, "PARKED"},
		{"one outcome a key", covers, payment.ResultRefusedFinal, func(d *desk) { d.suspend(); d.accept() }, nil, "FAILED"},
		{"one outcome a key, suspended", covers, payment.ResultRefusedFinal, (*desk).suspend, nil, "FAILED"},
		{"one outcome a key, refused for now", covers, payment.ResultRefusedTransient, (*desk).suspend, nil, "PARKED"},
		{"suspended on an earlier start", covers, payment.ResultRefusedFinal, func(d *desk) {
			d.suspend()
			d.do(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = server_started_at - interval '1 day'`)
		}, (*desk).suspend, "FAILED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, c.profile)
			d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '1 day'`) // in force when it was sent
			policy := payment.Policy{AnswerCoversKey: c.profile == covers, ResendOnUnknown: payment.ResendSameKey,
				KeyWindow: payment.Duration(time.Hour)}
			answer := told(policy, d.claimOne(d.enqueue()), c.result, "")
			// The relayer beat on the start before, and has compared this one.
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, tick_before_start, vouched)
				VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', pg_postmaster_start_time(), clock_timestamp(), clock_timestamp() - interval '1 minute', true)`)
			id := answer.Claim.OutboxID
			c.doubt(d)
			if c.look != nil {
				err := d.held(answer)
				same(t, "before a look", ledger.SQLState(err), outbox.StateContended)
				same(t, "rows before it", d.rows(id), "DISPATCHING")
				c.look(d)
			}
			d.must(d.held(answer))
			same(t, "rows", d.rows(id), "DISPATCHING "+c.want+"(1)")
			same(t, "letter", d.letter(id), map[string]string{"FAILED": "FAILED pending",
				"PARKED": "OUTCOME_UNKNOWN pending"}[c.want])
			same(t, "unknown", d.text(`SELECT outcome_unknown::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
				AND attempt_no = 2`, [16]byte(id)),
				map[string]string{"FAILED": "false", "PARKED": "true"}[c.want])
			d.gapless()
		})
	}
}

// TestAnswerHeldOverAFailover: a worker has an answer by which the payment is sent again as if for
// the first time, and the data goes back before it is recorded. The old server may have recorded it
// too and sent the payment again, which is forgotten: what is sent now is no first send.
func TestAnswerHeldOverAFailover(t *testing.T) {
	t.Parallel()
	const keeps = `{"resend_on_unknown": "SAME_KEY", "key_window": "1h", "id_after_refusal": "SAME"}`
	policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour),
		IDAfterRefusal: payment.IDSame}
	failover := func(d *desk) { d.suspend(); d.accept() }
	for _, c := range []struct {
		name          string
		before, since func(*desk) // of the claim
		result        payment.Result
		unknown       bool
	}{
		{"refused for now", nil, nil, payment.ResultRefusedTransient, false},
		{"refused for now, over a failover", nil, failover, payment.ResultRefusedTransient, true},
		{"refused for now, suspended", nil, (*desk).suspend, payment.ResultRefusedTransient, true},
		{"refused for now, of what may repeat a forgotten call", failover, nil, payment.ResultRefusedTransient, true},
		{"not sent", nil, nil, payment.ResultNotSent, false},
		{"not sent, over a failover", nil, failover, payment.ResultNotSent, true},
		{"not sent, suspended", nil, (*desk).suspend, payment.ResultNotSent, true},
		{"not sent, of what may repeat a forgotten call", failover, nil, payment.ResultNotSent, false},
		{"busy, over a failover", nil, failover, payment.ResultRefusedLater, true},
		{"refused by the rail, over a failover", nil, failover, payment.ResultRefusedRail, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, keeps)
			if c.before != nil {
				c.before(d)
			}
			answer := told(policy, d.claimOne(d.enqueue()), c.result, "")
			if c.since != nil {
				c.since(d)
			}
			d.must(d.held(answer))
			id := answer.Claim.OutboxID
			same(t, "rows", d.rows(id), "DISPATCHING RETRYABLE(1)")
			got := d.text(`SELECT format('%s %s %s', next_action, outcome_unknown::text, (coalesce(first_sent_at <= coalesce((
					SELECT min(greatest(known_until, 'epoch')) FROM railhead.payment_outbox_suspensions), '-infinity'), false))::text)
				FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id))
			want := "SEND false false"
			if c.unknown {
				want = fmt.Sprintf("SEND true %t", c.since != nil)
			}
			same(t, "pending", got, want)
			rendered := d.text(`SELECT coalesce(render_version, '') FROM railhead.payment_outbox_pending
				WHERE outbox_id = $1`, [16]byte(id))
			same(t, "has the bytes of its claim", rendered != "", c.result == payment.ResultRefusedTransient || c.unknown)
			d.gapless()
		})
	}
}

// TestRefusalOfALostSendWaits: a worker has the refusal of a send that the reaper has called lost
// meanwhile, and the server was started again. Stored before a component has compared this start,
// it would never be weighed: it waits, and ends the payment after the look.
func TestRefusalOfALostSendWaits(t *testing.T) {
	t.Parallel()
	for _, found := range []string{"misses nothing", "goes on from a snapshot", "misses nothing, parked"} {
		d := newDesk(t)
		policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}
		before := "DISPATCHING ZOMBIE_REQUEUE(1)"
		found, _, parked := strings.Cut(found, ", ")
		if parked {
			policy = never
			before += " PARKED"
		}
		claim := d.claimOne(d.enqueue())
		d.record(lost(policy, claim))
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
			VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', '2025-12-01', clock_timestamp(), true)`)
		answer := told(policy, claim, payment.ResultRefusedFinal, "")
		same(t, "before a look", ledger.SQLState(d.held(answer)), outbox.StateContended)
		same(t, "rows before it", d.rows(claim.OutboxID), before)
		want := before + " LATE_OUTCOME(1)"
		if found == "misses nothing" {
			want += " FAILED(1)"
			d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = pg_postmaster_start_time()`)
		} else {
			d.suspend()
		}
		d.must(d.held(answer))
		same(t, found, d.rows(claim.OutboxID), want)
		d.gapless()
	}
}

// TestReplayHeldOverAFailover: an operator's replay is sent to a rail that knows no keys, and a
// worker has the answer that nothing left when the data goes back. The old server may have sent the
// replay again, which is forgotten: it is no word for another send.
func TestReplayHeldOverAFailover(t *testing.T) {
	t.Parallel()
	for _, parked := range []bool{false, true} {
		for _, failover := range []bool{false, true} {
			d := newDesk(t)
			var id payment.ID
			if policy := asksInVain; parked {
				d.apply(inVain)
				policy.Retry.MaxSends = 1
				id = d.enqueue()
				d.record(told(policy, d.claimOne(id), payment.ResultUnknown, ""))
				d.record(told(policy, d.claimOne(id), payment.ResultNotFound, ""))
				d.replay(id)
			} else {
				id = d.replayed().OutboxID
			}
			claim := d.claimOne(id)
			held := told(never, claim, payment.ResultNotSent, "")
			if parked { // as decided where the replay is the operator's word
				held.Decision = payment.Decision{State: payment.Retryable, Requeue: true, NextAction: payment.ActionSend,
					OutcomeUnknown: true, SendCount: claim.SendCount}
			}
			if failover {
				d.suspend()
				d.accept()
			}
			d.must(d.held(held))
			again := d.claimOne(id)
			what := fmt.Sprintf("parked before %t, failover %t", parked, failover)
			same(t, what+": outcome unknown", again.OutcomeUnknown, parked || failover)
			same(t, what+": sent again", never.WithDefaults().MaySend(again, time.Second), !failover)
		}
	}
}
