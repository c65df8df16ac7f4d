package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// strictProfile is the bank's profile with order STRICT; skipProfile goes on past a bad end.
const (
	strictProfile = `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME",
		"inquiry": {"max": 3, "not_found": "NOT_EXECUTED", "not_found_age": "1m", "not_found_until": "24h"}, "order": "STRICT"}`
	skipProfile = `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME",
		"order": "STRICT", "order_on_bad_end": "SKIP"}`
)

// queue is a desk whose bank orders participants.
type queue struct {
	*desk
	order outbox.Order
}

func newQueue(t *testing.T, profile string) *queue {
	q := &queue{desk: newDesk(t), order: outbox.Order{Strict: true}}
	q.ApplyProfile("bank", profile)
	return q
}

// put enqueues an instruction of a participant; more are named arguments.
func (q *queue) put(participant string, more ...string) payment.ID {
	q.t.Helper()
	q.n++
	var sql strings.Builder
	sql.WriteString(`SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, $2, $1, 'bank',
		'{"amount": "10.50", "currency": "EUR"}'`)
	for _, one := range more {
		sql.WriteString(", " + one)
	}
	var id [16]byte
	err := q.ingest.QueryRow(q.t.Context(), sql.String()+")", fmt.Sprintf("instruction-%d", q.n), participant).Scan(&id)
	if err != nil {
		q.t.Fatal(err)
	}
	return payment.ID(id)
}

func (q *queue) lane(free, oldest int) outbox.Lane {
	lane := q.inForce(lane("bank", free, oldest))
	lane.Order = q.order
	return lane
}

// take claims what it can, and returns it by id.
func (q *queue) take(outcomes ...payment.Outcome) map[payment.ID]payment.Claim {
	q.t.Helper()
	turn := outbox.Turn{Outcomes: outcomes, Claim: request(q.lane(100, 0)), Ordered: []string{"bank"}}
	for _, o := range outcomes {
		turn.Finished = append(turn.Finished, o.Claim.ClaimID)
	}
	return q.turn(turn)
}

// only takes what it can and insists that it is one instruction.
func (q *queue) only(what string, want payment.ID, outcomes ...payment.Outcome) payment.Claim {
	q.t.Helper()
	claims := q.take(outcomes...)
	claim, ok := claims[want]
	if !ok || len(claims) != 1 {
		q.t.Fatalf("%s: claimed %d, among them the wanted: %t; %s", what, len(claims), ok, q.lines())
	}
	return claim
}

// none insists that nothing can be claimed.
func (q *queue) none(what string, outcomes ...payment.Outcome) {
	q.t.Helper()
	if claims := q.take(outcomes...); len(claims) != 0 {
		for id := range claims {
			q.t.Fatalf("%s: claimed %s with number %d; %s", what, id, claims[id].SequenceID, q.lines())
		}
	}
}

// lines shows the lines for a failure, without those of awayFromTheRotation.
func (q *queue) lines() string {
	return q.text(`SELECT coalesce(string_agg(h::text, E'\n'), 'no line') FROM railhead.payment_order_lines h
		WHERE h.participant_id !~ '^a[0-9]'`)
}

func done(claim payment.Claim) payment.Outcome {
	return told(sameKey, claim, payment.ResultAccepted, "ref-"+claim.OutboxID.String())
}

func refusedFor(claim payment.Claim) payment.Outcome {
	return told(sameKey, claim, payment.ResultRefusedFinal, "")
}

// TestOrderFollowsTheNumbers: one of a participant at a time, in sequence, whatever its
// priority and due time, while other participants go on.
func TestOrderFollowsTheNumbers(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.awayFromTheRotation()
	first := q.put("p1", "priority => 2")
	second := q.put("p1", "priority => 0")
	third := q.put("p1")
	other := q.put("p2")
	claims := q.take()
	if len(claims) != 2 || claims[first].OutboxID != first || claims[other].OutboxID != other {
		t.Fatalf("claimed %v", claims)
	}
	q.none("while the first is in flight")
	two := q.only("after the first", second, done(claims[first]))
	q.none("while the second is in flight")
	three := q.only("after the second", third, done(two))
	q.none("the end", done(three), done(claims[other]))
	later := q.put("p1")
	q.only("a line that was empty", later)
	q.gapless()
}

// TestOrderWaitsForNotBefore: a head that is not due holds back what is due behind it.
func TestOrderWaitsForNotBefore(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first := q.put("p1", "not_before => now() + interval '1 hour'")
	second := q.put("p1", "priority => 0")
	q.none("the first is not due")
	q.do(`SELECT railhead.reschedule_payment($1, NULL, 'a test')`, [16]byte(first))
	claim := q.only("the first is due", first)
	q.only("after it", second, done(claim))
}

// TestOrderWaitsForUnknown: an unknown outcome holds its participant through re-sends and inquiries.
func TestOrderWaitsForUnknown(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	claim := q.only("the first", first)
	q.none("its outcome is unknown", lost(sameKey, claim))
	q.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour' WHERE outbox_id = $1`,
		[16]byte(first))
	q.none("its re-send is not due")
	q.do(`SELECT railhead.reschedule_payment($1, NULL, 'a test')`, [16]byte(first))
	claim = q.only("its re-send", first)
	q.only("it was executed", second, done(claim))
}

// TestOrderBlocksAtABadEnd: with BLOCK a refused head holds its line until its dead letter is
// closed; acknowledging it changes nothing.
func TestOrderBlocksAtABadEnd(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	claim := q.only("the first", first)
	q.none("it was refused", refusedFor(claim))
	same(t, "letter", q.letter(first), "FAILED pending")
	same(t, "blocked by", q.text(`SELECT blocked_by FROM railhead.payment_order_lines`), "FAILED")
	// A line with a mark is not counted as blocked, and no turn consumes the mark of a paused rail.
	counted := `SELECT count(*)::text FROM railhead.v_order_heads h WHERE h.blocked_by IS NOT NULL AND NOT h.marked`
	q.do(`SELECT railhead.triage_dead_letter($1, 'acknowledged', 'a test')`, [16]byte(first))
	same(t, "counted as blocked once its letter is acknowledged", q.text(counted), "1")
	q.do(`SELECT railhead.triage_dead_letter($1, 'escalated', 'a test')`, [16]byte(first))
	same(t, "counted as blocked once its letter is escalated", q.text(counted), "1")
	q.none("its letter is acknowledged")
	q.do(`SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`, [16]byte(first))
	same(t, "counted as blocked once its letter is closed", q.text(counted), "0")
	q.only("its letter is closed", second)
}

// TestOrderGauges: a blocked head is counted, with its age, until an operator lets the line go on.
func TestOrderGauges(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first := q.put("p1")
	q.put("p1")
	q.put("p2")
	blocked := func(login string) reader.RailGauges {
		t.Helper()
		for _, rail := range gaugesAs(t, q.Cell, login).Rails {
			if rail.RailType == "bank" {
				return rail
			}
		}
		t.Fatal("there are no gauges of the bank")
		return reader.RailGauges{}
	}
	claims := q.take()
	if got := blocked(celltest.Relayer); got.OrderBlocked != 0 || got.OrderBlockedFor != 0 {
		t.Errorf("while the heads are in flight: %+v", got)
	}
	q.none("behind a refused head", refusedFor(claims[first]))
	q.do(`UPDATE railhead.payment_order_lines SET blocked_since = blocked_since - interval '1 hour'
		WHERE blocked_by IS NOT NULL`)
	for _, login := range []string{celltest.Relayer, celltest.Readonly, celltest.Operator, celltest.Auditor} {
		if got := blocked(login); got.OrderBlocked != 1 || got.OrderBlockedFor.Round(time.Hour) != time.Hour {
			t.Errorf("as %s: %+v", login, got)
		}
	}
	if _, err := q.operator().SkipInOrder(t.Context(), first, "a test"); err != nil {
		t.Fatal(err)
	}
	if got := blocked(celltest.Relayer); got.OrderBlocked != 0 || got.OrderBlockedFor != 0 {
		t.Errorf("after the skip: %+v", got)
	}
}

// TestOrderReplaysTheHead: a replay of the head goes before what waits.
func TestOrderReplaysTheHead(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1", "priority => 0")
	q.none("it was refused", refusedFor(q.only("the first", first)))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	claim := q.only("its replay", first)
	q.only("after it", second, done(claim))
}

// TestOrderSkipsABadEnd: with SKIP the next follows at once; a replay is the head again, but
// not while another of its participant is in flight.
func TestOrderSkipsABadEnd(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second, third := q.put("p1"), q.put("p1"), q.put("p1", "priority => 0")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.none("the second is in flight")
	one := q.only("the replay", first, done(two))
	q.only("the third", third, done(one))
}

// TestOrderSkipHoldsTheUnknown: with SKIP a parked head holds its line, until an operator
// lets it go on.
func TestOrderSkipHoldsTheUnknown(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	q.none("it was parked", lost(payment.Policy{}, q.only("the first", first)))
	same(t, "letter", q.letter(first), "OUTCOME_UNKNOWN pending")
	if _, err := q.operator().SkipInOrder(t.Context(), second, "a test"); err == nil {
		t.Error("the second was skipped, which is pending")
	}
	number, err := q.operator().SkipInOrder(t.Context(), first, "a test")
	q.must(err)
	same(t, "number", number, 1)
	q.only("it was skipped", second)
	same(t, "log", q.text(`SELECT act || ' ' || reason FROM railhead.payment_operator_log WHERE act = 'SKIP_IN_ORDER'`),
		"SKIP_IN_ORDER a test")
}

// TestOrderAfterACancellation: a cancelled head resolves itself.
func TestOrderAfterACancellation(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first := q.put("p1", "not_before => now() + interval '1 hour'")
	second := q.put("p1")
	q.none("the first is not due")
	q.do(`SELECT railhead.cancel_payment($1, 'a test')`, [16]byte(first))
	q.only("the first was cancelled", second)
}

// TestOrderAfterExpiry: an expired head ends badly.
func TestOrderAfterExpiry(t *testing.T) {
	t.Parallel()
	for profile, goesOn := range map[string]bool{strictProfile: false, skipProfile: true} {
		q := newQueue(t, profile)
		first, second := q.put("p1", "expires_at => now() + interval '1 hour'"), q.put("p1")
		q.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(first))
		q.none("it is expired, and not ended")
		ended, err := q.exec.Expire(t.Context(), "reaper", 10)
		q.must(err)
		same(t, "ended", len(ended), 1)
		if goesOn {
			q.only("it was ended", second)
		} else {
			q.none("it was ended")
		}
	}
}

// TestOrderQuarantine: a head that can't be claimed holds its line, with SKIP too.
func TestOrderQuarantine(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	q.must(q.quarantine(first, "XX000"))
	q.none("it is quarantined")
	same(t, "blocked by", q.text(`SELECT blocked_by FROM railhead.payment_order_lines`), "UNCLAIMABLE")
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	claim := q.only("it was replayed", first)
	q.only("after it", second, done(claim))
}

// TestOrderWhenTheRailBecomesStrict: what was claimed before runs to its end, and the rows
// that were enqueued before are ordered too.
func TestOrderWhenTheRailBecomesStrict(t *testing.T) {
	t.Parallel()
	q := &queue{desk: newDesk(t), order: outbox.Order{Strict: true}}
	open := q.Conn(t, "")
	mustExec(t, open, `BEGIN`)
	mustExec(t, open, `SELECT railhead.enqueue_payment_outbox('early', 'p2', 'early', 'bank',
		'{"amount": "1.00", "currency": "EUR"}', not_before => now() + interval '1 hour')`)
	first, second := q.put("p1"), q.put("p1")
	before := q.claim(q.inForce(lane("bank", 1, 1)))
	third := q.put("p1", "priority => 0")
	q.ApplyProfile("bank", strictProfile)
	q.none("the first is in flight by the profile before")
	mustExec(t, open, `COMMIT`)
	q.put("p2")
	q.none("a transaction that was open enqueued before it")
	claim := q.only("after the first", second, done(before[first]))
	q.only("after the second", third, done(claim))
}

// TestOrderOfSomeParticipants: those that the profile names have the other order.
func TestOrderOfSomeParticipants(t *testing.T) {
	t.Parallel()
	q := newQueue(t, `{"acceptance": "FINAL", "order": "NONE", "order_participants": {"p1": "STRICT"}}`)
	q.order = outbox.Order{Except: []string{"p1"}}
	first, second := q.put("p1"), q.put("p1", "priority => 0")
	third, fourth := q.put("p2"), q.put("p2")
	claims := q.take()
	if len(claims) != 3 || claims[second].ClaimID != (payment.ID{}) {
		t.Fatalf("claimed %d of %s %s %s", len(claims), first, third, fourth)
	}
	q.ApplyProfile("bank", `{"acceptance": "FINAL", "order": "STRICT", "order_participants": {"p2": "NONE"}}`)
	q.order = outbox.Order{Strict: true, Except: []string{"p2"}}
	fifth, sixth, seventh := q.put("p2"), q.put("p2"), q.put("p1", "priority => 0")
	claims = q.take()
	if len(claims) != 2 || claims[fifth].ClaimID == (payment.ID{}) || claims[sixth].ClaimID == (payment.ID{}) {
		t.Fatalf("claimed %v, not %s", claims, seventh)
	}
}

// TestOrderUnderTwoRelayers: many claims at once never take two of one participant, nor a later one.
func TestOrderUnderTwoRelayers(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	const participants, each = 5, 8
	for range each {
		for p := range participants {
			q.put(fmt.Sprintf("p%d", p))
		}
	}
	type got struct {
		claims []payment.Claim
		err    error
	}
	results := make(chan got)
	for range 3 {
		exec := openExecutor(t, q.Cell)
		lane := q.lane(3, 0)
		go func() {
			var all []payment.Claim
			var outcomes []payment.Outcome
			deadline := time.Now().Add(30 * time.Second)
			for idle := 0; idle < 40 && time.Now().Before(deadline); idle++ {
				turn := outbox.Turn{Outcomes: outcomes, Claim: request(lane), Ordered: []string{"bank"}}
				for _, o := range outcomes {
					turn.Finished = append(turn.Finished, o.Claim.ClaimID)
				}
				result, err := exec.Turn(t.Context(), turn)
				if err != nil {
					results <- got{err: err}
					return
				}
				outcomes = nil
				for _, claim := range result.Claims {
					idle = 0
					all, outcomes = append(all, claim), append(outcomes, done(claim))
				}
			}
			results <- got{claims: all}
		}()
	}
	claimed := 0
	for range 3 {
		one := <-results
		q.must(one.err)
		claimed += len(one.claims)
	}
	same(t, "claimed", claimed, participants*each)
	same(t, "overtaken", q.text(overtakenSQL), "0")
}

// overtakenSQL counts first sends of a participant that began before the one with the number
// before it was answered.
const overtakenSQL = `
	SELECT count(*)::text
	FROM railhead.payment_outbox_attempts a
	JOIN railhead.payment_outbox_keys k USING (outbox_id)
	JOIN railhead.payment_outbox_keys b ON b.participant_id = k.participant_id AND b.sequence_id = k.sequence_id - 1
	WHERE a.attempt_no = 1 AND NOT EXISTS (
		SELECT FROM railhead.payment_outbox_attempts o
		WHERE o.outbox_id = b.outbox_id AND o.state = 'DISPATCHED' AND o.completed_at <= a.claimed_at)`

// TestNumbersAppearInSequence: a number is not visible before every lower one of its
// participant, because the enqueue holds the participant's row up to its commit.
func TestNumbersAppearInSequence(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.put("p1")
	open := q.Conn(t, "")
	mustExec(t, open, `BEGIN`)
	mustExec(t, open, `SELECT railhead.enqueue_payment_outbox('second', 'p1', 'second', 'bank',
		'{"amount": "1.00", "currency": "EUR"}')`)
	late := make(chan error, 1)
	go func() {
		_, err := q.ingest.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('third', 'p1', 'third', 'bank',
			'{"amount": "1.00", "currency": "EUR"}')`)
		late <- err
	}()
	q.eventually("the third waits for the second", func() bool {
		return q.text(`SELECT count(*)::text FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) != "0"
	})
	same(t, "visible", q.text(`SELECT max(sequence_id)::text FROM railhead.payment_outbox_keys`), "1")
	mustExec(t, open, `COMMIT`)
	q.must(<-late)
	same(t, "visible", q.text(`SELECT max(sequence_id)::text FROM railhead.payment_outbox_keys`), "3")
}
