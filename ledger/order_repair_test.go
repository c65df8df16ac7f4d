package ledger_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// skipAndAsk goes on past a bad end, and inquires.
const skipAndAsk = `{"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h",
	"id_after_refusal": "SAME", "inquiry": {"max": 3, "not_found": "NOT_EXECUTED", "not_found_age": "1m", "not_found_until": "24h"},
	"order": "STRICT", "order_on_bad_end": "SKIP"}`

// The parts of advance_order_lines that a test asks for by themselves.
const (
	advanceMarked = advance + `'{infinity}', '{NULL}', 500, NULL, 500)`
	advanceSwept  = advance + `'{infinity}', '{""}', 500, NULL, 500)`
	advanceRows   = advance + `'{infinity}', '{NULL}', 500, '00000000-0000-0000-0000-000000000000', 500)`

	advance = `SELECT count(*) FROM railhead.advance_order_lines('{}', '{}', '{bank}', `
)

// head shows the number of the head of a participant's line, and what holds it.
func (q *queue) head(participant string) string {
	q.t.Helper()
	return q.text(`SELECT coalesce((SELECT coalesce(head_no::text, 'none') || coalesce(' ' || blocked_by, '') ||
		CASE WHEN ready_at IS NOT NULL THEN ' ready' ELSE '' END
		FROM railhead.payment_order_lines WHERE participant_id = $1), 'no line')`, participant)
}

func (q *queue) marks() string {
	q.t.Helper()
	return q.text(`SELECT count(*)::text FROM railhead.payment_order_marks`)
}

// TestOrderMarksOfOthersHideNone: marks of participants that the profile does not order, which only a
// transaction that was open when it was applied leaves, hide no mark of one that it orders.
func TestOrderMarksOfOthersHideNone(t *testing.T) {
	t.Parallel()
	q := newQueue(t, `{"acceptance": "FINAL", "order": "NONE", "order_participants": {"p1": "STRICT"}}`)
	q.order = outbox.Order{Except: []string{"p1"}}
	first, second := q.put("p1"), q.put("p1")
	q.none("it was refused", refusedFor(q.only("the first", first)))
	q.do(`INSERT INTO railhead.payment_order_marks (rail_type, participant_id)
		SELECT 'bank', 'a' || n FROM generate_series(1, 1200) AS n`)
	q.do(`SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`, [16]byte(first))
	q.do(advanceMarked)
	same(t, "head", q.head("p1"), "2 ready")
	q.only("its letter is closed", second)
}

// TestOrderForgetsWhoIsNoLongerOrdered: nothing is kept of the line of a participant that a profile no longer
// orders, so that it begins at the lowest unresolved number when a later profile orders it again.
func TestOrderForgetsWhoIsNoLongerOrdered(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	q.put("p2")
	claims := q.take()
	two := q.only("the second", second, refusedFor(claims[first]))
	q.none("the end", done(two))
	q.ApplyProfile("bank", strings.Replace(skipProfile, `"SKIP"}`, `"SKIP", "order_participants": {"p1": "NONE"}}`, 1))
	same(t, "lines", q.text(`SELECT string_agg(participant_id, ' ') FROM railhead.payment_order_lines`), "p2")
	same(t, "marks", q.text(`SELECT string_agg(DISTINCT participant_id, ' ') FROM railhead.payment_order_marks`), "p2")
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	same(t, "marks", q.text(`SELECT string_agg(DISTINCT participant_id, ' ') FROM railhead.payment_order_marks`), "p2")
	q.ApplyProfile("bank", skipProfile)
	third := q.put("p1", "priority => 0")
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderOfAReplayWhileAProfileIsApplied: a replay that is not yet committed is ahead of the line that the
// profile begins, whichever of the two is first.
func TestOrderOfAReplayWhileAProfileIsApplied(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strings.Replace(skipProfile, `"order": "STRICT", "order_on_bad_end": "SKIP"`, `"order": "NONE"`, 1))
	q.order = outbox.Order{}
	first, second := q.put("p1"), q.put("p1")
	claims := q.take()
	q.record(refusedFor(claims[first]), done(claims[second]))
	open := q.Conn(t, "")
	mustExec(t, open, `BEGIN`)
	mustExec(t, open, `SELECT railhead.replay_payment('`+first.String()+`', 'a test')`)
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		q.ApplyProfile("bank", skipProfile)
	}()
	q.eventually("the profile waits for the replay", func() bool {
		return q.text(`SELECT count(*)::text FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) != "0"
	})
	mustExec(t, open, `COMMIT`)
	<-applied
	q.order = outbox.Order{Strict: true}
	third := q.put("p1", "priority => 0")
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderOfAReplayInAnOlderSnapshot: a replay that can't see the profile which made the rail strict is ahead of
// its line all the same.
func TestOrderOfAReplayInAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strings.Replace(skipProfile, `"order": "STRICT", "order_on_bad_end": "SKIP"`, `"order": "NONE"`, 1))
	q.order = outbox.Order{}
	first, second := q.put("p1"), q.put("p1")
	claims := q.take()
	q.record(refusedFor(claims[first]), done(claims[second]))
	open := q.Conn(t, "")
	mustExec(t, open, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	mustExec(t, open, `SELECT FROM railhead.payment_rails`)
	q.ApplyProfile("bank", skipProfile)
	mustExec(t, open, `SELECT railhead.replay_payment('`+first.String()+`', 'a test')`)
	mustExec(t, open, `COMMIT`)
	q.order = outbox.Order{Strict: true}
	third := q.put("p1", "priority => 0")
	same(t, "number of the mark", q.text(`SELECT min(sequence_id)::text FROM railhead.payment_order_marks`), "1")
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderSkipPassesNoReplay: a line does not go on past its head while a lower number has returned to
// pending, whether a turn has seen that or not.
func TestOrderSkipPassesNoReplay(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second, third := q.put("p1"), q.put("p1"), q.put("p1", "priority => 0")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.none("it was parked", lost(payment.Policy{}, two))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	if _, err := q.operator().SkipInOrder(t.Context(), second, "a test"); err == nil {
		t.Error("the second was skipped while the first is pending again")
	}
	one := q.only("the replay", first)
	if _, err := q.operator().SkipInOrder(t.Context(), second, "a test"); err == nil {
		t.Error("the second was skipped while the first is in flight")
	}
	q.none("behind the parked one", done(one))
	_, err := q.operator().SkipInOrder(t.Context(), second, "a test")
	q.must(err)
	q.only("it was skipped", third)
}

// TestOrderRemembersASkip: what was skipped stays skipped when a lower number is replayed, and holds the line
// again once it has a row of its own, which an operator may skip again.
func TestOrderRemembersASkip(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipAndAsk)
	first, second, third := q.put("p1"), q.put("p1"), q.put("p1")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.none("it was parked", lost(payment.Policy{}, two))
	_, err := q.operator().SkipInOrder(t.Context(), second, "a test")
	q.must(err)
	q.none("the end", done(q.only("it was skipped", third)))

	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	fourth := q.put("p1", "priority => 0")
	four := q.only("past what was skipped", fourth, done(q.only("the replay", first)))
	q.none("the end", done(four))

	fifth := q.put("p1")
	q.do(`SELECT railhead.inquire_payment($1, 'a test')`, [16]byte(second))
	asked := q.only("the inquiry", second)
	q.none("it was parked again", told(payment.Policy{}, asked, payment.ResultUnknown, ""))
	same(t, "head", q.head("p1"), "2 OUTCOME_UNKNOWN")
	_, err = q.operator().SkipInOrder(t.Context(), second, "a test")
	q.must(err)
	if _, err := q.operator().SkipInOrder(t.Context(), second, "a test"); err == nil {
		t.Error("it was skipped twice as it stands")
	}
	q.only("it was skipped again", fifth)
}

// TestOrderKeepsAMarkThatComesMeanwhile: a mark that is written while a turn consumes the ones before is kept, and
// writing it waits for no turn.
func TestOrderKeepsAMarkThatComesMeanwhile(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.none("the end", done(two))
	q.do(`INSERT INTO railhead.payment_order_marks (rail_type, participant_id) VALUES ('bank', 'p1')`)
	turn := q.Conn(t, "")
	mustExec(t, turn, `BEGIN`)
	mustExec(t, turn, advanceMarked)
	q.do(`SET lock_timeout = '2s'`)
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	third := q.put("p1", "priority => 0")
	mustExec(t, turn, `COMMIT`)
	same(t, "number of the mark", q.text(`SELECT min(sequence_id)::text FROM railhead.payment_order_marks`), "1")
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderTouchedWhileLocked: a line that another session has locked when the outcome of its head is recorded
// is marked, so that the next turn of any relayer advances it.
func TestOrderTouchedWhileLocked(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	claim := q.only("the first", first)
	turn := q.Conn(t, "")
	mustExec(t, turn, `BEGIN`)
	mustExec(t, turn, `SELECT FROM railhead.payment_order_lines FOR UPDATE`)
	q.none("the line is locked", done(claim))
	mustExec(t, turn, `COMMIT`)
	same(t, "marks", q.marks(), "1")
	q.do(advanceMarked)
	same(t, "head", q.head("p1"), "2 ready")
	q.only("it is not locked any more", second)
}

// TestOrderAfterAnOlderReaper: a reaper that was built before there were lines ends an expired head and marks
// nothing. The rotation finds that the head has gone from pending.
func TestOrderAfterAnOlderReaper(t *testing.T) {
	t.Parallel()
	statements, err := store.LoadStatements("railhead")
	if err != nil {
		t.Fatal(err)
	}
	marks := regexp.MustCompile(`(?s),\s*lines AS \(.*?\n\)`)
	older := marks.ReplaceAllString(statements["expire"], "")
	older = strings.Replace(older, "WHERE (SELECT n.n FROM lines n) >= 0", "", 1)
	if strings.Contains(older, "note_order_change") || strings.Contains(older, "lines n") {
		t.Fatalf("this statement is not the older one:\n%s", older)
	}
	for profile, head := range map[string]string{strictProfile: "1 EXPIRED", skipProfile: "2 ready"} {
		q := newQueue(t, profile)
		first := q.put("p1", "expires_at => now() + interval '1 hour'")
		q.put("p1")
		q.do(advanceSwept)
		same(t, "head", q.head("p1"), "1 ready")
		q.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(first))
		named := strings.NewReplacer("$1", "'reaper'::text", "$2", "10", "$3", "NULL")
		mustExec(t, q.Conn(t, celltest.Reaper), named.Replace(older))
		same(t, "marks", q.marks(), "0")
		same(t, "head", q.head("p1"), "1 ready")
		q.do(advanceSwept)
		same(t, "head after the rotation", q.head("p1"), head)
	}
}

// TestOrderFindsWhatIsBelowTheFloor: a pending row below the floor of its line, of which no mark is left, is found
// by the rotation over rows, and goes first.
func TestOrderFindsWhatIsBelowTheFloor(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	two := q.only("the second", second, refusedFor(q.only("the first", first)))
	q.none("the end", done(two))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.do(`DELETE FROM railhead.payment_order_marks`)
	third := q.put("p1", "priority => 0")
	q.do(advanceRows)
	same(t, "head", q.head("p1"), "1 ready")
	one := q.only("the replay", first)
	q.only("after it", third, done(one))
}

// TestOrderRotationReadsSomePages: a step of the rotation over pending reads some pages of it, however many rows an
// open snapshot keeps, and some rows; the next one goes on there, and the steps find what is at the end.
func TestOrderRotationReadsSomePages(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	q.do(`ALTER TABLE railhead.payment_outbox_pending SET (autovacuum_enabled = false)`)
	first := q.put("p1")
	one := q.only("the first", first)
	q.none("it was refused", refusedFor(one))
	holder := q.Conn(t, "")
	mustExec(t, holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	mustExec(t, holder, `SELECT FROM railhead.payment_outbox_pending LIMIT 1`)
	const fill = `INSERT INTO railhead.payment_outbox_pending (outbox_id, participant_id, rail_type, payload, next_attempt_at)
		SELECT railhead.uuidv7(), 'a' || n, 'bank', jsonb_build_object('filler', repeat('x', 200)), 'infinity'
		FROM generate_series(1, $1) AS n`
	q.do(fill, 10000)
	q.do(`DELETE FROM railhead.payment_outbox_pending`)
	q.do(fill, 700)
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.do(`DELETE FROM railhead.payment_order_marks`)
	if pages := q.text(`SELECT (pg_relation_size('railhead.payment_outbox_pending') / 8192)::text`); len(pages) != 3 {
		t.Fatalf("%s pages are not some hundreds", pages)
	}
	const step = `SELECT coalesce(swept_row::text, '') FROM railhead.advance_order_lines('{}', '{}', '{bank}',
		'{infinity}', '{""}', 500, $1, 500)`
	steps := 0
	for place := "00000000-0000-0000-0000-000000000000"; place != ""; steps++ {
		same(t, "head before it was found", q.head("p1"), "none")
		place = q.text(step, place)
	}
	// Some hundred pages without a row, a hundred in each, then 500 rows, and the others.
	if steps < 4 || steps > 9 {
		t.Errorf("%d steps", steps)
	}
	same(t, "head", q.head("p1"), "1 ready")
	q.only("it was found", first)
}

// TestOrderMarksOnce: a row below the floor of a line on a rail that no process claims, such as a paused one, is marked
// once, however often the rotation passes it for another rail.
func TestOrderMarksOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	q.none("the end", done(q.only("the second", second, refusedFor(q.only("the first", first)))))
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	for range 5 {
		q.do(strings.Replace(advanceRows, "{bank}", "{another}", 1))
	}
	same(t, "marks", q.text(`SELECT string_agg(coalesce(sequence_id::text, 'none'), ' ' ORDER BY sequence_id)
		FROM railhead.payment_order_marks`), "1 none") // of the row, and of its letter
	q.only("the replay", first)
}

// TestOrderFindsLateEnqueues: the first instruction of a line whose row was due long before it was committed is
// found by the rotation.
func TestOrderFindsLateEnqueues(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.none("the end", done(q.only("the first", q.put("p1"))))
	late := q.put("p1")
	q.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '1 hour'`)
	q.do(advance + `'{now}', '{NULL}', 500, NULL, 500)`)
	same(t, "head, as its due time is long past", q.head("p1"), "none")
	q.do(advanceSwept)
	same(t, "head", q.head("p1"), "2 ready")
	q.only("the rotation has found it", late)
}

// TestOrderBacklogHidesNoArrival: the first instruction of a participant is found by the turn that follows its
// enqueue, however many due rows of another participant wait behind a blocked head, and whether these came before
// or after it; and the turn reads a bounded number of them.
func TestOrderBacklogHidesNoArrival(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strings.Replace(strictProfile, `"STRICT"`, `"STRICT", "order_participants": {"free": "NONE"}`, 1))
	batch := func(participant string, n int) {
		q.do(`SELECT railhead.enqueue_payment_outbox($1 || '-' || n, $1, $1 || '-' || n, 'bank',
			'{"amount": "10.50", "currency": "EUR"}')
			FROM generate_series(1, $2::integer) AS n`, participant, n)
	}
	q.put("blocked", "not_before => now() + interval '1 hour'")
	q.put("before")
	batch("blocked", 2000)
	q.put("between")
	batch("free", 400)
	q.put("since")
	entries := q.reading(advance + `'{-infinity}', '{NULL}', 500, NULL, 500)`)
	same(t, "head before the backlog", q.head("before"), "1 ready")
	same(t, "head behind it", q.head("between"), "1 ready")
	same(t, "head behind another", q.head("since"), "1 ready")
	same(t, "head of the backlog, which is not due", q.head("blocked"), "1 ready")
	same(t, "line of one that is not ordered", q.head("free"), "no line")
	if entries > 1000 {
		t.Errorf("%d entries of the due index were read", entries)
	}
}

// reading runs a statement and returns how many entries of the index of due rows it has read.
func (q *queue) reading(statement string) (entries int) {
	q.t.Helper()
	const read = `SELECT pg_stat_get_xact_tuples_returned('railhead.payment_outbox_pending_due'::regclass)`
	conn := q.Conn(q.t, "")
	mustExec(q.t, conn, `BEGIN`)
	mustExec(q.t, conn, statement)
	q.must(conn.QueryRow(q.t.Context(), read).Scan(&entries))
	mustExec(q.t, conn, `COMMIT`)
	return entries
}

// TestOrderWalksInSteps: a walk reads a bounded number of rows in one turn, and the line is advanced again
// until it has a head.
func TestOrderWalksInSteps(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.do(`INSERT INTO railhead.payment_outbox_keys
			(outbox_id, rail_key, sequence_id, instruction_id, idempotency_key, participant_id, fingerprint)
		SELECT gen_random_uuid(), gen_random_uuid(), n, 'other-' || n, 'other-' || n, 'p1', sha256('other')
		FROM generate_series(1, 2500) AS n`)
	q.do(`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id) VALUES ('p1', 2501)`)
	id := q.put("p1")
	for _, floor := range []string{"1001 none", "2001 none"} {
		q.none("the walk goes on")
		same(t, "floor", q.text(`SELECT floor::text || ' ' || coalesce(head_no::text, 'none')
			FROM railhead.payment_order_lines`), floor)
		same(t, "marks", q.marks(), "1")
	}
	q.only("the walk has ended", id)
	same(t, "marks", q.marks(), "0")
}

// TestOrderTakesTurns: the heads of participants are claimed in the order in which they became due and heads, so
// that the backlog of one does not hold back the first instruction of another.
func TestOrderTakesTurns(t *testing.T) {
	t.Parallel()
	// The next number is found without a walk behind what was dispatched, and with one behind a bad end.
	answers := map[string]func(payment.Claim) payment.Outcome{strictProfile: done, skipProfile: refusedFor}
	for profile, answer := range answers {
		q := newQueue(t, profile)
		first, second := q.put("p1"), q.put("p1")
		other := q.put("p2")
		q.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = next_attempt_at - interval '1 hour'
			WHERE participant_id = 'p1'`)
		one := q.turn(outbox.Turn{Claim: request(q.lane(1, 0))})
		if _, ok := one[first]; !ok || len(one) != 1 {
			t.Fatalf("claimed %v", one)
		}
		turn := recording(answer(one[first]))
		turn.Claim = request(q.lane(1, 0))
		two := q.turn(turn)
		if _, ok := two[other]; !ok || len(two) != 1 {
			t.Fatalf("claimed %v, not %s; %s", two, other, q.lines())
		}
		q.only("the next", second, done(two[other]))
	}
}

// TestOrderIgnoresEntriesOfOldHeads: the rotation returns since when the oldest head of each priority is ready,
// where the next claims begin, so that entries of heads that were claimed, which an open snapshot keeps, cost them
// nothing.
func TestOrderIgnoresEntriesOfOldHeads(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	q.put("p1")
	q.put("p2", "priority => 2")
	q.do(advance + `'{-infinity}', '{""}', 500, NULL, 500)`)
	same(t, "ready", q.text(`SELECT ready::text
		FROM railhead.advance_order_lines('{}', '{}', '{bank}', '{infinity}', '{""}', 500, NULL, 500)`),
		q.text(`SELECT ARRAY[NULL, min(ready_at) FILTER (WHERE participant_id = 'p1'),
				min(ready_at) FILTER (WHERE participant_id = 'p2')]::text
			FROM railhead.payment_order_lines`))
}

// TestOrderClaimsNoMarkedLine: the head of a line that is marked, and that the turn has not advanced because so
// many are, is not claimed: what the mark is about may go before it.
func TestOrderClaimsNoMarkedLine(t *testing.T) {
	t.Parallel()
	q := newQueue(t, skipProfile)
	first, second := q.put("p1"), q.put("p1")
	claim := q.only("the first", first)
	q.turn(outbox.Turn{Outcomes: []payment.Outcome{refusedFor(claim)}, Finished: []payment.ID{claim.ClaimID},
		Ordered: []string{"bank"}})
	same(t, "head", q.head("p1"), "2 ready")
	// So many others that neither the marks nor the rotation reach it in one turn.
	q.do(`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id)
		SELECT 'a' || n, 1 FROM generate_series(1, 600) AS n`)
	q.do(`INSERT INTO railhead.payment_order_marks (rail_type, participant_id)
		SELECT 'bank', 'a' || n FROM generate_series(1, 600) AS n`)
	q.do(`SELECT railhead.replay_payment($1, 'a test')`, [16]byte(first))
	q.none("its line is marked")
	one := q.only("the replay", first)
	q.only("after it", second, done(one))
}

// TestOrderClaimsNoLockedLine: the head of a line that another session advances is not claimed.
func TestOrderClaimsNoLockedLine(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first := q.put("p1")
	q.do(advanceSwept)
	same(t, "head", q.head("p1"), "1 ready")
	turn := q.Conn(t, "")
	mustExec(t, turn, `SET idle_in_transaction_session_timeout = '5s'`)
	mustExec(t, turn, `BEGIN`)
	mustExec(t, turn, `SELECT FROM railhead.payment_order_lines FOR UPDATE`)
	q.none("the line is locked")
	mustExec(t, turn, `COMMIT`)
	q.only("it is not locked any more", first)
}
