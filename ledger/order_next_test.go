package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// recording is a turn that records outcomes of the bank, and claims nothing.
func recording(outcomes ...payment.Outcome) outbox.Turn {
	turn := outbox.Turn{Outcomes: outcomes, Ordered: []string{"bank"}}
	for _, o := range outcomes {
		turn.Finished = append(turn.Finished, o.Claim.ClaimID)
	}
	return turn
}

// leftTo shows the claim that the head of a participant's line was left to; empty: none.
func (q *queue) leftTo(participant string) string {
	q.t.Helper()
	return q.text(`SELECT coalesce((SELECT claim_id::text FROM railhead.payment_order_lines WHERE participant_id = $1), '')`,
		participant)
}

// awayFromTheRotation gives the queue so much else that no step of the rotation, which any turn may have, reaches the
// lines and rows of a test and repairs what the turn itself has to do.
func (q *queue) awayFromTheRotation() {
	q.t.Helper()
	q.do(`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id)
		SELECT 'a' || n, 1 FROM generate_series(1, 20000) AS n`)
	q.do(`INSERT INTO railhead.payment_outbox_pending (outbox_id, participant_id, rail_type, payload, next_attempt_at)
		SELECT railhead.uuidv7(), 'a' || n, 'another', '{}', 'infinity' FROM generate_series(1, 5000) AS n`)
}

// TestOrderLeavesTheNextToTheClaim: behind what was dispatched the turn claims the next with one update of the line, of
// no indexed column: it is never ready, nor is a line behind which there is nothing.
func TestOrderLeavesTheNextToTheClaim(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	same(t, "left to", q.leftTo("p1"), "")
	line := `SELECT xmin::text || ' ' || priority::text FROM railhead.payment_order_lines`
	two := q.only("the second", second, done(one))
	same(t, "left to", q.leftTo("p1"), two.ClaimID.String())
	same(t, "head", q.head("p1"), "2")
	same(t, "writer of the line", q.text(line), q.text(`SELECT xmin::text || ' 1' FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND state = 'DISPATCHING'`, [16]byte(second)))
	q.none("there is no third", done(two))
	same(t, "head", q.head("p1"), "none")
	same(t, "its floor and priority", q.text(`SELECT floor::text || ' ' || priority FROM railhead.payment_order_lines`), "3 1")
	third := q.put("p1", "priority => 2")
	three := q.only("a line that was empty", third)
	same(t, "left to", q.leftTo("p1"), "")
	q.none("the end", done(three))
	q.gapless()
}

// TestOrderNextWaitsForASlot: what a claim has no slot for is ready from then on, behind the heads that have waited.
func TestOrderNextWaitsForASlot(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	firsts := []payment.ID{q.put("p1"), q.put("p2")}
	nexts := map[payment.ID]bool{q.put("p1"): true, q.put("p2"): true}
	claims := q.take()
	same(t, "claims", len(claims), 2)
	waiting := q.put("p3")
	q.do(advance + `'{-infinity}', '{NULL}', 500, NULL, 500)`)
	same(t, "a head that waits", q.head("p3"), "1 ready")

	turn := recording(done(claims[firsts[0]]), done(claims[firsts[1]]))
	turn.Claim = request(q.lane(2, 0))
	claims = q.turn(turn)
	if _, ok := claims[waiting]; !ok || len(claims) != 2 {
		t.Fatalf("claimed %v, and not what waits; %s", claims, q.lines())
	}
	claimed := "p1"
	for id := range claims {
		if id == waiting {
			continue
		}
		if !nexts[id] {
			t.Fatalf("claimed %s", id)
		}
		delete(nexts, id)
		claimed = claims[id].ParticipantID
	}
	other := map[string]string{"p1": "p2", "p2": "p1"}[claimed]
	same(t, "the line of what was claimed", q.head(claimed), "2")
	same(t, "the line of what was not", q.head(other), "2 ready")
	for id := range nexts {
		q.only("there is a slot", id)
	}
}

// TestOrderNextWithoutAClaim: a turn that claims nothing has the next wait among the heads that are ready, and one that
// is not due until it is.
func TestOrderNextWithoutAClaim(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	third := q.put("p1", "not_before => now() + interval '1 hour'")
	one := q.only("the first", first)
	q.turn(recording(done(one)))
	same(t, "head", q.head("p1"), "2 ready")
	two := q.only("the second", second)
	q.none("the third is not due", done(two))
	same(t, "ready when it is due", q.text(`SELECT (h.ready_at = p.next_attempt_at)::text
		FROM railhead.payment_order_lines h JOIN railhead.payment_outbox_pending p ON p.outbox_id = h.head`), "true")
	q.do(`SELECT railhead.reschedule_payment($1, NULL, 'a test')`, [16]byte(third))
	q.only("it is due", third)
}

// TestOrderNextAfterALateOutcome: the answer to a claim that was given up moves no line whose head was claimed again
// and is in flight.
func TestOrderNextAfterALateOutcome(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	first, second := q.put("p1"), q.put("p1")
	old := q.only("the first", first)
	q.none("it was given up", lost(sameKey, old))
	q.do(`SELECT railhead.reschedule_payment($1, NULL, 'a test')`, [16]byte(first))
	again := q.only("its second send", first)
	turn := recording(done(old))
	turn.Claim = request(q.lane(10, 0))
	result, err := q.exec.Turn(t.Context(), turn)
	q.must(err)
	same(t, "late outcomes", len(result.Late), 1)
	if len(result.Claims) > 0 {
		t.Fatalf("claimed %v while the first is in flight; %s", result.Claims, q.lines())
	}
	q.only("the first is done", second, done(again))
}

// TestOrderNextHasBeenPutBack: the row of a head that is back in pending holds the line, although the answer to its
// claim has come.
func TestOrderNextHasBeenPutBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	first, second := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	q.do(`INSERT INTO railhead.payment_outbox_pending (outbox_id, participant_id, rail_type, attempt_count, next_attempt_at)
		VALUES ($1, 'p1', 'bank', 1, now() + interval '1 hour')`, [16]byte(first))
	q.none("it is pending", done(one))
	q.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(first))
	q.do(advance + `'{infinity}', '{b}', 500, NULL, 500)`)
	q.only("it has gone", second)
}

// TestOrderNextBehindALetter: a payment that was made, and has an open dead letter all the same, holds its line until
// the letter is closed.
func TestOrderNextBehindALetter(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	first, second := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	q.do(`SELECT railhead.open_conflict($1, 'a test')`, [16]byte(first))
	q.none("it has a letter", done(one))
	same(t, "head", q.head("p1"), "1 CONFLICT")
	q.do(`SELECT railhead.resolve_payment($1, true, 'ref-' || $1::uuid, current_date, 'a statement', 'a test')`,
		[16]byte(first))
	q.only("its letter is closed", second)
}

// TestOrderNextAfterALowerOne: what has returned to pending below a head in flight goes before what is behind the head.
func TestOrderNextAfterALowerOne(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	q.awayFromTheRotation()
	first, second, third := q.put("p1"), q.put("p1"), q.put("p1")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.do(advanceMarked)
	same(t, "marks", q.marks(), "0")
	one := q.only("the replay", first, done(two))
	q.only("after it", third, done(one))
}

// TestOrderNextOfAMarkedLine: the next of a line with a mark that the turn does not reach is not claimed behind an
// outcome: what the mark is about goes before it.
func TestOrderNextOfAMarkedLine(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second, third := q.put("p1"), q.put("p1"), q.put("p1")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.do(`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id)
		SELECT 'a' || n, 1 FROM generate_series(1, 600) AS n`)
	q.do(`INSERT INTO railhead.payment_order_marks (rail_type, participant_id)
		SELECT 'bank', 'a' || n FROM generate_series(1, 600) AS n`)
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.none("its line is marked", done(two))
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderNextBehindAGap: where numbers are missing, the next one that there is follows.
func TestOrderNextBehindAGap(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first := q.put("p1")
	q.do(`UPDATE railhead.participant_outbox_sequences SET next_sequence_id = 40 WHERE participant_id = 'p1'`)
	second, third := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	q.turn(recording(done(one)))
	same(t, "head", q.head("p1"), "40 ready")
	two := q.only("behind the gap", second)
	three := q.only("the third", third, done(two))
	q.none("the end", done(three))
	same(t, "head", q.head("p1"), "none")
}

// TestOrderNextOfAnotherRail: numbers of other rails, and one that is quarantined, are left to the walk.
func TestOrderNextOfAnotherRail(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	q.ApplyProfile("other", strings.Replace(strictProfile, "STRICT", "NONE", 1))
	first := q.put("p1")
	q.do(`SELECT railhead.enqueue_payment_outbox('elsewhere', 'p1', 'elsewhere', 'other',
		'{"amount": "1.00", "currency": "EUR"}')`)
	third, fourth := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	three := q.only("the third, past a number of another rail", third, done(one))
	q.must(q.quarantine(fourth, "XX000"))
	q.do(advanceMarked)
	q.turn(recording(done(three)))
	same(t, "head", q.head("p1"), "4 UNCLAIMABLE")
	q.none("the fourth is quarantined")
}

// TestOrderAfterAnOlderRelayer: a relayer that was built before there were lines records what moves one, and moves
// none. The rotation finds it, and leaves a line alone whose head is in flight.
func TestOrderAfterAnOlderRelayer(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	one := q.only("the first", first)
	const locks = `SELECT xmax::text FROM railhead.payment_order_lines`
	before := q.text(locks)
	q.do(advanceSwept)
	same(t, "the last lock of a line whose head is in flight", q.text(locks), before)
	turn := recording(done(one))
	turn.Ordered = nil
	q.turn(turn)
	same(t, "head", q.head("p1"), "1")
	q.do(advanceSwept)
	same(t, "head after the rotation", q.head("p1"), "2 ready")
	q.only("the second", second)
}

// TestOrderUpdatesALineOnce: the server updates a line once for each payment, and writes no entry of an index for it.
func TestOrderUpdatesALineOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	const payments = 40
	for range payments {
		q.put("p1")
	}
	exec := openExecutor(t, q.Cell)
	var outcomes []payment.Outcome
	for range payments + 1 {
		turn := recording(outcomes...)
		turn.Claim = request(q.lane(10, 0))
		result, err := exec.Turn(t.Context(), turn)
		q.must(err)
		outcomes = nil
		for _, claim := range result.Claims {
			outcomes = append(outcomes, done(claim))
		}
	}
	same(t, "what is left", len(outcomes), 0)
	exec.Close() // a session reports its counts at its end at the latest
	await(t, "the counts of the updates", func() bool {
		return q.text(`SELECT (n_tup_upd >= $1)::text FROM pg_stat_user_tables WHERE relname = 'payment_order_lines'`,
			payments) == "true"
	})
	counts := q.text(`SELECT n_tup_upd || ' updates, of which ' || n_tup_hot_upd || ' write no entry'
		FROM pg_stat_user_tables WHERE relname = 'payment_order_lines'`)
	// The first head is found and claimed by two more.
	if q.text(`SELECT (n_tup_upd < $1 AND n_tup_hot_upd >= $2)::text FROM pg_stat_user_tables
		WHERE relname = 'payment_order_lines'`, payments*3/2, payments*9/10) != "true" {
		t.Errorf("%d payments: %s", payments, counts)
	}
}
