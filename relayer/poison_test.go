package relayer_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// poison inserts rows that pending accepts and the archive rejects.
func (w *world) poison(names ...string) (ids []payment.ID) {
	w.t.Helper()
	w.refuse(`railhead.name_in_a_test(outbox_id) NOT LIKE 'bad%'`)
	for _, name := range names {
		ids = append(ids, w.enqueue(name))
	}
	return ids
}

// refuse makes the archive accept only rows that pass a check.
func (w *world) refuse(check string) {
	w.t.Helper()
	// Rows of the archive name their instruction by its outbox_id alone.
	w.do(`CREATE OR REPLACE FUNCTION railhead.name_in_a_test(uuid) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
		AS 'SELECT k.instruction_id FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1'`)
	w.do(`GRANT EXECUTE ON FUNCTION railhead.name_in_a_test(uuid) TO PUBLIC`)
	w.do(`ALTER TABLE railhead.payment_outbox_attempts ADD CONSTRAINT refused_by_the_test CHECK (` + check + `) NOT VALID`)
}

// awaitQuarantine waits until a row that can't be claimed is quarantined. It enqueues neighbours of
// another participant, for the case that the bad one was the last: if they can be claimed, the lane
// is not at fault. More than one, for the case that a loop claims them while another has locked the
// bad one, which then proves nothing.
func (w *world) awaitQuarantine(bad payment.ID) {
	w.t.Helper()
	var next time.Time
	n := 0
	w.seen.await(w.t, func() error {
		got := w.text(`SELECT coalesce((SELECT reason || ' ' || error_code FROM railhead.payment_dead_letters
			WHERE outbox_id = $1), '')`, [16]byte(bad))
		if got == "UNCLAIMABLE SQLSTATE_23514" {
			return nil
		}
		if time.Now().After(next) {
			n, next = n+1, time.Now().Add(time.Second)
			w.do(`SELECT railhead.enqueue_payment_outbox($1, 'neighbour', 'k', 'bank',
				'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}')`,
				fmt.Sprintf("neighbour-%d", n))
		}
		return fmt.Errorf("the dead letter of %s after %d neighbours: %q", bad, n, got)
	})
}

// TestPoisonRow tests that a row that can't be claimed is quarantined for an operator, and that its
// neighbours go through, whatever their order.
func TestPoisonRow(t *testing.T) {
	t.Parallel()
	for name, priority := range map[string]string{"urgent": "0", "normal": "1", "bulk": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
			bad := w.poison("bad")[0]
			w.do(`UPDATE railhead.payment_outbox_pending SET priority = ` + priority)
			// No row is at fault for its neighbourhood: one of a paused participant, one that has
			// expired, one that is not due.
			w.do(`INSERT INTO railhead.payment_paused_participants VALUES ('away', 'x', now(), 'x')`)
			w.do(`SELECT railhead.enqueue_payment_outbox('paused', 'away', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}', priority => 0)`)
			expired := w.enqueue("expired", `priority => 0`)
			w.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(expired))
			w.enqueue("later", `priority => 0`, `not_before => now() + interval '1 hour'`)
			var ids []payment.ID
			for n := range 40 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n), fmt.Sprintf("priority => %d", n%3)))
			}
			w.run(config())
			for _, id := range ids {
				w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
			}
			w.awaitQuarantine(bad)
			same(t, "quarantined", w.text(`SELECT string_agg(instruction_id, ' ') FROM railhead.v_outbox_pending
				WHERE next_attempt_at = 'infinity'`), "bad")
			same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 1)
			same(t, "rows of the bad one", w.states(bad), "")

			// An operator repairs the cause, and the row is claimed.
			w.do(`ALTER TABLE railhead.payment_outbox_attempts DROP CONSTRAINT refused_by_the_test`)
			w.do(`SELECT railhead.replay_payment($1, 'repaired')`, [16]byte(bad))
			w.awaitStates(bad, "DISPATCHING DISPATCHED")
		})
	}
}

// TestPutBackIsQuarantine tests that an executed payment whose row is back in pending is not sent
// again, and that an operator is told, also if nothing else waits in its lane.
func TestPutBackIsQuarantine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	id := w.enqueue("paid")
	w.run(oneLoop())
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	w.do(`INSERT INTO railhead.payment_outbox_pending
			(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count, send_count)
		SELECT a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload, 2, 1
		FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.attempt_no = 1`, [16]byte(id))
	w.awaitText("UNCLAIMABLE PUT_BACK pending",
		`SELECT coalesce((SELECT concat_ws(' ', reason, error_code, status) FROM railhead.payment_dead_letters WHERE outbox_id = $1), '')`, [16]byte(id))
	same(t, "rows", w.states(id), "DISPATCHING DISPATCHED")
	same(t, "executions at the bank", w.executions(id), 1)
	// The lane continues.
	w.awaitStates(w.enqueue("neighbour"), "DISPATCHING DISPATCHED")
}

// TestPutBackAsNew tests that executed payments whose rows are back in pending as they were before
// their first claim are quarantined, and do not stop the lane.
func TestPutBackAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	first := w.run(oneLoop())
	for n := range 3 {
		w.awaitStates(w.enqueue(fmt.Sprintf("paid-%d", n)), "DISPATCHING DISPATCHED")
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	w.do(`INSERT INTO railhead.payment_outbox_pending
			(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
		SELECT a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload
		FROM railhead.payment_outbox_attempts a WHERE a.attempt_no = 1`)
	last := w.enqueue("neighbour")
	w.run(oneLoop())
	w.awaitStates(last, "DISPATCHING DISPATCHED")
	w.awaitText("3", `SELECT count(*)::text FROM railhead.payment_dead_letters WHERE reason = 'UNCLAIMABLE'
		AND error_code = 'PUT_BACK'`)
	same(t, "rows of all", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`), 8)
}

// TestManyPutBack tests a restore of pending alone, which puts back all its rows. The lane is free
// of them after a few turns, and not after as many as there are rows.
func TestManyPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	const paid = 400
	for n := range paid {
		w.enqueue(fmt.Sprintf("paid-%d", n))
	}
	first := w.run(oneLoop())
	w.awaitText(strconv.Itoa(paid),
		`SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	w.do(`INSERT INTO railhead.payment_outbox_pending
			(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at)
		SELECT a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload, '2000-01-01'
		FROM railhead.payment_outbox_attempts a WHERE a.attempt_no = 1`)
	last := w.enqueue("neighbour")
	begun := time.Now()
	w.run(oneLoop())
	w.awaitStates(last, "DISPATCHING DISPATCHED")
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the neighbour waited %s", took)
	}
	same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters WHERE reason = 'UNCLAIMABLE'
		AND error_code = 'PUT_BACK'`), paid)
}

// TestPoisonDoesNotSlowALane tests that the neighbours of a bad row are claimed in few turns, not
// one by one, although the row is the longest due and part of every claim.
func TestPoisonDoesNotSlowALane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 64`))
	w.poison("bad")
	w.do(`UPDATE railhead.payment_outbox_pending SET priority = 2`)
	for n := range 60 {
		w.enqueue(fmt.Sprintf("instruction-%d", n), `priority => 0`)
	}
	w.run(oneLoop())
	w.awaitText("60", `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`)
	if claims := w.cell.Int(`SELECT count(DISTINCT claimed_at) FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHING'`); claims > 12 {
		t.Errorf("%d claim statements for 60 rows", claims)
	}
}

// TestLaneAtFault tests that no row is at fault if no row of a lane can be claimed. The lane stops,
// and the others continue.
func TestLaneAtFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	free := newHesitant()
	close(free.goOn)
	w.second("other", free)
	w.refuse(`rail_type <> 'bank'`)
	const rows = 80 // more than one turn tries
	for n := range rows {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
	}
	w.run(config())
	w.awaitTurns(3)
	there := w.enqueueOn("other", "another")
	w.seen.await(t, func() error {
		if w.states(there) == "" {
			return fmt.Errorf("the other lane stands still")
		}
		return nil
	})
	w.awaitTurns(5)
	same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 0)
	same(t, "waiting and due", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_pending WHERE rail_type = 'bank'
		AND next_attempt_at <= clock_timestamp()`), rows)
	same(t, "rows", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE rail_type = 'bank'`), 0)
}

// TestPoisonNextToALock tests a bad row whose only neighbour is locked by another session: whether
// the lane is at fault is not known. It does not stop, and both rows are handled as soon as the
// neighbour is free.
func TestPoisonNextToALock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	w.poison("bad")
	good := w.enqueue("good")
	elsewhere := w.cell.Conn(t, "")
	tx, err := elsewhere.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM railhead.payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE`,
		[16]byte(good)); err != nil {
		t.Fatal(err)
	}
	w.run(oneLoop())
	w.awaitTurns(3)
	same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 0)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitStates(good, "DISPATCHING DISPATCHED")
}

// TestRecordedThoughTheClaimFails tests that outcomes do not wait for a claim that fails.
func TestRecordedThoughTheClaimFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	slow := newHesitant()
	w.wrap = slow.around
	w.run(config())
	var ids []payment.ID
	for n := range 5 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for range ids {
		<-slow.arrived
	}
	w.refuse(`state <> 'DISPATCHING'`)
	w.enqueue("can't be claimed")
	close(slow.goOn)
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
}

// TestOutcomeThatIsRefused tests that an outcome that the archive rejects delays no other, and is
// kept until it can be recorded.
func TestOutcomeThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	w.refuse(`railhead.name_in_a_test(outbox_id) <> 'refused' OR state <> 'DISPATCHED'`)
	r := w.run(oneLoop())
	refused := w.enqueue("refused")
	w.seen.await(t, func() error { return wantOne(w.executions(refused)) })
	for n := range 10 {
		id := w.enqueue(fmt.Sprintf("instruction-%d", n))
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
	same(t, "rows", w.states(refused), "DISPATCHING")
	w.do(`ALTER TABLE railhead.payment_outbox_attempts DROP CONSTRAINT refused_by_the_test`)
	// At the end there is no later turn: it is tried at once.
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	same(t, "rows", w.states(refused), "DISPATCHING DISPATCHED")
	same(t, "sends", w.sends(refused), 1)
}

// TestIdleTransactionElsewhere holds a lock that one outcome needs: the payments of all others go
// through, and that outcome is recorded afterwards.
func TestIdleTransactionElsewhere(t *testing.T) {
	t.Parallel()
	columns := `outbox_id, instruction_id, participant_id, rail_type`
	for name, hold := range map[string]string{
		"the number": `INSERT INTO railhead.payment_outbox_attempts (attempt_id, sequence_id, idempotency_key, attempt_no, state, outcome_unknown, provisional, ` + columns + `)
			SELECT gen_random_uuid(), sequence_id, idempotency_key, 2, 'LATE_OUTCOME', false, false, ` + columns + `
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`,
		"the dead letter": `INSERT INTO railhead.payment_dead_letters (reason, ` + columns + `)
			SELECT 'FAILED', ` + columns + ` FROM railhead.v_outbox_attempts WHERE outbox_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
			slow := newHesitant()
			w.wrap = slow.around
			w.faults(railsim.Fault{Kind: railsim.Refuse, Code: "AC04", Limit: 1})
			r := w.run(oneLoop())
			held := w.enqueue("held")
			<-slow.arrived
			idle := w.cell.Conn(t, "")
			tx, err := idle.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), `SELECT FROM railhead.payment_outbox_keys FOR UPDATE`); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), hold, [16]byte(held)); err != nil {
				t.Fatal(err)
			}
			close(slow.goOn)
			w.seen.await(t, func() error { return wantOne(w.sends(held)) })
			var ids []payment.ID
			for n := range 30 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
			}
			for _, id := range ids {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			same(t, "rows of the one that waits", w.states(held), "DISPATCHING")
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			same(t, "rows of the one that waited", w.states(held), "DISPATCHING FAILED")
			same(t, "sends", w.sends(held), 1)
		})
	}
}
