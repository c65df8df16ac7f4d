package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// held records an outcome as a relayer does: by the slow path where the fast one left it.
func (d *desk) held(o payment.Outcome) error {
	d.t.Helper()
	result, err := d.exec.Turn(d.t.Context(), payment.Turn{Outcomes: []payment.Outcome{o}, Finished: []payment.ID{o.Claim.ClaimID}})
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

// TestRefusalHeldOverAFailover: a worker has the refusal of a send, and the data goes back before it is recorded. What the old server sent
// again meanwhile is forgotten, and the refusal says nothing of it: it waits for a look, and ends the payment only where it speaks for
// every send.
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
			policy := payment.Policy{AnswerCoversKey: c.profile == covers, ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}
			answer := told(policy, d.claimOne(d.enqueue()), c.result, "")
			// The relayer beat on the start before, and has compared this one.
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, tick_before_start, vouched)
				VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', pg_postmaster_start_time(), clock_timestamp(), clock_timestamp() - interval '1 minute', true)`)
			id := answer.Claim.OutboxID
			c.doubt(d)
			if c.look != nil {
				err := d.held(answer)
				same(t, "before a look", ledger.SQLState(err), payment.StateContended)
				same(t, "rows before it", d.rows(id), "DISPATCHING")
				c.look(d)
			}
			d.must(d.held(answer))
			same(t, "rows", d.rows(id), "DISPATCHING "+c.want+"(1)")
			same(t, "letter", d.letter(id), map[string]string{"FAILED": "FAILED pending", "PARKED": "OUTCOME_UNKNOWN pending"}[c.want])
			same(t, "unknown", d.text(`SELECT outcome_unknown::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1 AND attempt_no = 2`, [16]byte(id)),
				map[string]string{"FAILED": "false", "PARKED": "true"}[c.want])
			d.gapless()
		})
	}
}
