package proofs_test

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// everything brings instructions to every state that there is, and past it.
func (l *life) everything() {
	executed := payment.Decision{State: payment.Dispatched}
	refused := payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}

	for range 3 { // waiting, never tried
		l.enqueue()
	}
	for range 12 { // the ordinary end
		l.sent(l.enqueue(), sameKey, payment.ResultAccepted)
	}
	l.sent(l.enqueue(), sameKey, payment.ResultRefusedTransient)
	l.sent(l.enqueue(), sameKey, payment.ResultNotSent)

	again := l.enqueue() // silence, a re-send, an answer
	l.sent(again, sameKey, payment.ResultUnknown)
	l.sent(again, sameKey, payment.ResultAccepted)

	l.sent(l.enqueue(), sameKey, payment.ResultUnknown) // silence, waiting for its re-send

	asked := l.enqueue()
	l.sent(asked, asks, payment.ResultUnknown)
	l.sent(asked, asks, payment.ResultExecuted)

	notFound := l.enqueue()
	l.sent(notFound, asks, payment.ResultUnknown)
	l.sent(notFound, asks, payment.ResultNotFound)

	asking := l.enqueue() // an inquiry in flight
	l.sent(asking, asks, payment.ResultUnknown)
	l.claim(asking)

	l.sent(l.enqueue(), provisional, payment.ResultAccepted) // taken, final word to come
	taken := l.enqueue()
	claim := l.sent(taken, provisional, payment.ResultAccepted)
	l.callback(payment.VerdictSettled, claim, executed, payment.ResultExecuted, "ref-callback")

	l.sent(l.enqueue(), never, payment.ResultUnknown) // parked
	found := l.enqueue()
	l.sent(found, never, payment.ResultUnknown)
	l.resolve(found, true)
	absent := l.enqueue()
	l.sent(absent, never, payment.ResultUnknown)
	l.resolve(absent, false)
	l.replay(absent)

	l.sent(l.enqueue(), sameKey, payment.ResultRefusedFinal) // a dead letter
	replayed := l.enqueue()
	l.sent(replayed, sameKey, payment.ResultRefusedFinal)
	l.replay(replayed)
	l.sent(replayed, sameKey, payment.ResultAccepted)
	closed := l.enqueue()
	l.sent(closed, sameKey, payment.ResultRefusedFinal)
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'resolved', 'paid by cheque')`, [16]byte(closed))

	noticed := l.enqueue() // its dead letter is acknowledged, and open
	l.sent(noticed, sameKey, payment.ResultRefusedFinal)
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'acknowledged', 'asked the participant')`, [16]byte(noticed))
	twice := l.enqueue() // refused, replayed, refused, looked at, and closed
	l.sent(twice, sameKey, payment.ResultRefusedFinal)
	l.replay(twice)
	l.sent(twice, sameKey, payment.ResultRefusedFinal)
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'escalated', 'again')`, [16]byte(twice))
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'resolved', 'paid by cheque')`, [16]byte(twice))

	cancelled := l.enqueue()
	l.exec(l.operator, `SELECT railhead.cancel_payment($1, 'the participant asked')`, [16]byte(cancelled))

	expired := l.enqueue()
	l.exec(l.super, `UPDATE railhead.payment_outbox_pending SET expires_at = '2000-01-01'
		WHERE outbox_id = $1`, [16]byte(expired))
	if l.err == nil {
		_, l.err = l.executor.Expire(l.ctx, "reaper", 10)
	}

	l.sent(l.enqueueWith("expires_at => clock_timestamp() + interval '1 day', not_before => clock_timestamp()"), sameKey,
		payment.ResultAccepted)
	again = l.enqueueWith("expires_at => clock_timestamp() + interval '300 ms'") // expired, and sent after a replay
	l.exec(l.super, `SELECT pg_sleep(0.4)`)
	if l.err == nil {
		_, l.err = l.executor.Expire(l.ctx, "reaper", 10)
	}
	l.exec(l.operator, `SELECT railhead.replay_payment($1, 'it is late', clock_timestamp() + interval '1 day')`, [16]byte(again))
	l.sent(again, sameKey, payment.ResultAccepted)
	early := l.enqueueWith("not_before => clock_timestamp() + interval '1 day'") // sent at once by an operator
	l.exec(l.operator, `SELECT railhead.reschedule_payment($1, NULL, 'it is urgent')`, [16]byte(early))
	l.sent(early, sameKey, payment.ResultAccepted)
	once := l.enqueueWith("send_once => true") // sent again by an operator alone
	l.sent(once, never, payment.ResultUnknown)
	l.resolve(once, false)
	l.replay(once)
	l.sent(once, sameKey, payment.ResultAccepted)

	l.lost(l.enqueue()) // a dead worker's, back in pending
	stalled := l.enqueue()
	slow := l.lost(stalled)
	l.late(payment.VerdictSettled, told(sameKey, slow, payment.ResultAccepted))

	contradicted := l.enqueue() // refused, and executed after all
	claim = l.sent(contradicted, sameKey, payment.ResultRefusedFinal)
	l.callback(payment.VerdictConflict, claim, executed, payment.ResultExecuted, "ref-other")
	settled := l.enqueue()
	claim = l.sent(settled, sameKey, payment.ResultRefusedFinal)
	l.callback(payment.VerdictConflict, claim, executed, payment.ResultExecuted, "ref-other")
	l.resolve(settled, true)
	returned := l.enqueue() // executed, and refused after all
	claim = l.sent(returned, sameKey, payment.ResultAccepted)
	l.callback(payment.VerdictConflict, claim, refused, payment.ResultRefused, "ref-returned")
	l.resolve(returned, false)
	reversed := l.enqueue() // the same, and not settled yet
	claim = l.sent(reversed, sameKey, payment.ResultAccepted)
	l.callback(payment.VerdictConflict, claim, refused, payment.ResultRefused, "ref-reversed")

	aside := l.enqueue()
	freed := l.enqueue()
	if l.err == nil {
		_, l.err = l.executor.Quarantine(l.ctx, []payment.ID{aside}, "22P02")
	}
	if l.err == nil {
		_, l.err = l.executor.Quarantine(l.ctx, []payment.ID{freed}, "22P02")
	}
	l.replay(freed)

	tampered := l.enqueue()
	l.record(told(sameKey, l.claim(tampered), payment.ResultTampered))

	proven := l.enqueue()
	claim = l.claim(proven)
	l.record(told(sameKey, claim, payment.ResultTampered))
	l.callback(payment.VerdictSettled, claim, executed, payment.ResultExecuted, "ref-proven")
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'resolved', 'the forger was found')`, [16]byte(proven))

	// Ended while it waited and was never claimed here, as after a failover.
	unclaimed := func() payment.Claim { return payment.Claim{OutboxID: l.enqueue(), RailType: celltest.Bank} }
	l.callback(payment.VerdictSettled, unclaimed(), executed, payment.ResultExecuted, "ref-unclaimed")
	l.callback(payment.VerdictSettled, unclaimed(), refused, payment.ResultRefused, "")
	l.resolve(l.enqueue(), true)

	gone := l.enqueue() // cancelled, and reported as executed, wrongly
	l.exec(l.operator, `SELECT railhead.cancel_payment($1, 'the participant asked')`, [16]byte(gone))
	l.callback(payment.VerdictConflict, payment.Claim{OutboxID: gone, RailType: celltest.Bank}, executed,
		payment.ResultExecuted, "ref-gone")
	l.resolve(gone, false)

	// Parked, and put out for an inquiry that an operator asked for: answered, in vain,
	// and not made yet.
	l.exec(l.operator, `SELECT railhead.apply_rail_profile('bank', p.profile || '{"inquiry": {"intervals": ["1s"], "max": 2, "not_found": "INCONCLUSIVE"}}', 'can be asked')
		FROM railhead.payment_rail_profiles p WHERE p.rail_type = 'bank' AND p.version = 1`)
	putOut := func() payment.ID {
		id := l.enqueue()
		l.sent(id, never, payment.ResultUnknown)
		l.exec(l.operator, `SELECT railhead.inquire_payment($1, 'asked by the participant')`, [16]byte(id))
		return id
	}
	l.sent(putOut(), asks, payment.ResultExecuted)
	l.sent(putOut(), asks, payment.ResultUnavailable)
	putOut()

	l.overHTTP("over-http-1", "key 1")
	l.overHTTP("over-http-2", "key 2")
	l.exec(l.operator, `SELECT railhead.revoke_api_token(left(encode(sha256('a token'), 'hex'), 16), 'its caller has gone')`)
	l.claim(l.enqueue()) // in flight
	l.inOrder()
}

// inOrder has a participant whose instructions are sent one after another: past an
// execution, a refusal that an operator dealt with, one that was parked and skipped, and a
// cancellation. The last one waits.
func (l *life) inOrder() {
	l.exec(l.operator, `SELECT railhead.apply_rail_profile('bank', p.profile || '{"order": "NONE", "order_participants": {"in-order": "STRICT"}}', 'in order')
		FROM railhead.payment_rail_profiles p WHERE p.rail_type = 'bank' AND p.version = 1`)
	l.order, l.ordered = outbox.Order{Except: []string{"in-order"}}, []string{celltest.Bank}
	var ids [6]payment.ID
	for n := range ids {
		ids[n] = l.enqueueFor("in-order")
	}
	l.sent(ids[0], sameKey, payment.ResultAccepted)
	l.sent(ids[1], sameKey, payment.ResultRefusedFinal)
	l.exec(l.operator, `SELECT railhead.triage_dead_letter($1, 'resolved', 'paid by cheque')`, [16]byte(ids[1]))
	l.sent(ids[2], never, payment.ResultUnknown)
	l.exec(l.operator, `SELECT railhead.skip_in_order($1, 'the rail will tell')`, [16]byte(ids[2]))
	l.exec(l.operator, `SELECT railhead.cancel_payment($1, 'the participant asked')`, [16]byte(ids[3]))
	l.sent(ids[4], sameKey, payment.ResultAccepted)
}

// overHTTP enqueues as a caller of the HTTP API.
func (l *life) overHTTP(instruction, key string) {
	l.exec(l.super, `INSERT INTO railhead.payment_api_tokens (token_digest, token_id, name, participants, verbs, created_at, expires_at)
		SELECT sha256('a token'), left(encode(sha256('a token'), 'hex'), 16), 'a token', ARRAY['over-http'], ARRAY['ENQUEUE'], now(),
			now() + interval '1 day'
		ON CONFLICT DO NOTHING`)
	l.do(l.super, func(conn *pgx.Conn) error {
		var id *string
		err := conn.QueryRow(l.ctx, `SELECT outbox_id FROM railhead.api_enqueue(ARRAY['a token'::bytea], ARRAY[NULL::bytea], ARRAY[$1],
			ARRAY['over-http'], ARRAY[$2], ARRAY['bank'], ARRAY['{"amount": "1.50", "currency": "EUR"}'::jsonb],
			ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz], ARRAY[1], ARRAY['{}'::jsonb], ARRAY[false], ARRAY[NULL])`,
			instruction, key).Scan(&id)
		if err == nil && id == nil {
			err = errors.New("it was refused")
		}
		return err
	})
}

// lost is a claim whose worker died.
func (l *life) lost(id payment.ID) payment.Claim {
	claim := l.claim(id)
	l.record(outcome(claim, sameKey.WithDefaults().DecideLost(claim, time.Second, 0), "", ""))
	return claim
}
