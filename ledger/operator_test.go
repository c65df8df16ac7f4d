package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// refusedWith insists on a refusal whose sentence holds these words.
func refusedWith(t *testing.T, what string, err error, state, words string) {
	t.Helper()
	fault, ok := errors.AsType[*outbox.Fault](err)
	if !ok || fault.SQLState != state || !strings.Contains(fault.Error(), words) {
		t.Errorf("%s: %v, want %s with %q", what, err, state, words)
	}
}

// TestReplayIsRefused lists what a replay must not do, beyond what the state alone
// forbids: each of these could pay twice.
func TestReplayIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	o := d.operator()
	replay := func(id payment.ID) error { return hands[4].do(o, t, id) }

	closed := plights["FAILED"](d)
	d.must(hands[3].do(o, t, closed))
	refusedWith(t, "closed, and perhaps paid in another way", replay(closed), "RH020", "already closed (resolved)")

	// A sender that was paused comes back after the instruction was given up.
	for _, kind := range []string{"unknown", "accepted for now"} {
		first := d.claimOne(d.enqueue())
		d.record(told(asksInVain, first, payment.ResultUnknown, ""))
		d.record(told(asksInVain, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
		same(t, kind, d.late(evidence(sameKey, first, kind, "ref")), payment.VerdictLate)
		refusedWith(t, "not found, then "+kind, replay(first.OutboxID), "RH020", "may have been made")
	}
	// Or while the rail is being asked: it may have looked before the send arrived.
	late := d.claimOne(d.enqueue())
	d.record(told(asksInVain, late, payment.ResultUnknown, ""))
	asked := d.claimOne(late.OutboxID)
	same(t, "late", d.late(evidence(sameKey, late, "unknown", "")), payment.VerdictLate)
	same(t, "inquiry", d.late(told(asksInVain, asked, payment.ResultNotFound, "")), payment.VerdictIn)
	same(t, "letter", d.letter(late.OutboxID), "OUTCOME_UNKNOWN pending")
	refusedWith(t, "unknown while it was asked", replay(late.OutboxID), "RH020", "may have been made")
	first, second := thenClaimed(d)
	d.record(told(coversKey, second, payment.ResultRefusedFinal, ""))
	same(t, "late", d.late(evidence(sameKey, first, "unknown", "")), payment.VerdictLate)
	refusedWith(t, "FAILED, then unknown", replay(first.OutboxID), "RH020", "after row 4 called it FAILED")

	// After the rail's word for the whole payment it means nothing.
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb || '{"answer_covers_key": true, "id_after_refusal": "NEW"}', 'set by a test')`, inVain)
	first, second = thenClaimed(d)
	same(t, "callback", d.late(callback(second.OutboxID, payment.ResultRefused, "")), payment.VerdictIn)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'takes a refused key again')`, inVain)
	same(t, "late", d.late(evidence(sameKey, first, "unknown", "")), payment.VerdictLate)
	d.must(replay(first.OutboxID))

	tampered := plights["TAMPERED"](d)
	d.must(hands[6].do(o, t, tampered))
	refusedWith(t, "tampered, resolved", replay(tampered), "RH020", "payload is not the one that was enqueued")

	dispatched := plights["CONFLICT after DISPATCHED"](d)
	d.must(hands[7].do(o, t, dispatched))
	refusedWith(t, "DISPATCHED once", replay(dispatched), "RH020", "no second DISPATCHED row")

	_, err := o.ReplayPayment(t.Context(), plights["FAILED"](d), time.Now().Add(-time.Hour), why)
	refusedWith(t, "expired before", err, "RH006", "already past")
	for name, profile := range map[string]string{
		"too young":               strings.Replace(inVain, "1us", "1h", 1),
		"too young, who knows":    strings.Replace(inVain, ` "not_found_age": "1us",`, "", 1),
		"and perhaps aged out":    strings.Replace(inVain, "24h", "2us", 1),
		"and aged out, who knows": strings.Replace(inVain, `, "not_found_until": "24h"`, "", 1),
		"which proves nothing":    strings.Replace(inVain, "NOT_EXECUTED", "INCONCLUSIVE", 1),
	} {
		d.apply(inVain)
		asked := justNotFound(d)
		d.apply(profile)
		refusedWith(t, "not found, "+name, replay(asked), "RH020", "may have been made")
	}
	d.apply(inVain)

	refused, never := plights["FAILED"](d), plights["EXPIRED"](d)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'wants a new id')`, strings.Replace(inVain, "SAME", "NEW", 1))
	refusedWith(t, "a rail that wants a new id", replay(refused), "RH020", "requires a new id")
	_, err = o.ReplayPayment(t.Context(), never, operator.NeverExpires, why)
	d.must(err) // it was never sent
	d.gapless()
}

// TestReplayKeepsWhatCounts: number, rail key and the start of the key window.
func TestReplayKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := answered(d, payment.ResultRefusedFinal)
	expires := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	number, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, expires, why)
	d.must(err)
	same(t, "row", number, 3)
	again := d.claimOne(claim.OutboxID)
	same(t, "sequence", again.SequenceID, claim.SequenceID)
	same(t, "payload", string(again.Payload), string(claim.Payload))
	same(t, "first send", again.FirstSentAt.Equal(claim.ClaimedAt), true)
	same(t, "latest send", again.LastSentAt.Equal(claim.ClaimedAt), true)
	same(t, "rendering", again.RenderVersion, "render/1")
	same(t, "sends", again.SendCount, 0)
	same(t, "expiry", again.ExpiresAt.Equal(expires), true)

	// What was quarantined keeps its own deadline unless it gets another.
	id := d.enqueue("expires_at => now() + interval '1 hour'")
	d.must(d.quarantine(id, "23514"))
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	same(t, "deadline kept", d.Int(`SELECT count(*) FROM railhead.payment_outbox_pending WHERE outbox_id = $1
		AND expires_at IS NOT NULL AND next_attempt_at <= now()`, [16]byte(id)), 1)
}

// TestResolveIsRefused lists evidence that is none, and the one verdict that can't
// be written twice.
func TestResolveIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	whole := operator.Evidence{Executed: true, RailReference: "found", Date: time.Now(), Document: "statement 146",
		Reason: why}
	for what, spoil := range map[string]func(*operator.Evidence){
		"no reference":     func(e *operator.Evidence) { e.RailReference = " " },
		"no date":          func(e *operator.Evidence) { e.Date = time.Time{} },
		"a date to come":   func(e *operator.Evidence) { e.Date = time.Now().AddDate(0, 0, 3) },
		"no document":      func(e *operator.Evidence) { e.Document = "" },
		"no reason":        func(e *operator.Evidence) { e.Reason = " " },
		"a long reference": func(e *operator.Evidence) { e.RailReference = strings.Repeat("r", 257) },
		"a long document":  func(e *operator.Evidence) { e.Document = strings.Repeat("d", 501) },
		"a long reason":    func(e *operator.Evidence) { e.Reason = strings.Repeat("r", 2001) },
	} {
		spoilt := whole
		spoil(&spoilt)
		_, err := o.ResolvePayment(t.Context(), plights["PARKED, outcome unknown"](d), spoilt)
		refusedWith(t, what, err, "RH002", "")
	}
	wide := whole
	wide.Reason = strings.Repeat("\u20ac", 600) // 1,800 bytes: with the document more than a row's message may have
	if _, err := o.ResolvePayment(t.Context(), plights["PARKED, outcome unknown"](d), wide); err != nil {
		t.Error(err)
	}

	// Taken back and then confirmed again: one row remains DISPATCHED.
	id := plights["CONFLICT after DISPATCHED"](d)
	d.must(hands[7].do(o, t, id))
	same(t, "another reference", d.late(callback(id, payment.ResultExecuted, "another")), payment.VerdictConflict)
	refusedWith(t, "executed after all", hands[5].do(o, t, id), "RH020", "row 2 is DISPATCHED and row 4 revoked it")
	same(t, "the conflict stays open", d.letter(id), "CONFLICT pending")
	d.gapless()
}

// TestReasonsAndLogins: no act without a reason, and none by another operator's login.
func TestReasonsAndLogins(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := fmt.Sprintf("'%s'", d.enqueue())
	acts := []string{
		"pause_rail('bank', %s)", "resume_rail('bank', %s)", "pause_rail('*', %s)", "resume_rail('*', %s)",
		"pause_participant('participant', %s)", "resume_participant('participant', %s)",
		"cancel_payment(" + id + ", %s)", "triage_dead_letter(" + id + ", 'acknowledged', %s)",
		"replay_payment(" + id + ", %s)",
		"resolve_payment(" + id + ", true, 'ref', current_date, 'document', %s)",
		"inquire_payment(" + id + ", %s)", "reveal_payload(" + id + ", %s)",
		"accept_timeline(%s)", "apply_rail_profile('bank', '{}', %s)",
	}
	people := d.Conn(t, celltest.Operator)
	for _, act := range acts {
		for _, reason := range []string{"NULL", "''", "'  '", "repeat('x', 2001)"} {
			_, err := people.Exec(t.Context(), "SELECT railhead."+fmt.Sprintf(act, reason))
			same(t, act+" because "+reason, ledger.SQLState(err), "RH002")
		}
	}
	for login := range celltest.Logins() {
		if login == celltest.Operator {
			continue
		}
		conn := d.Conn(t, login)
		for _, act := range acts {
			_, err := conn.Exec(t.Context(), "SELECT railhead."+fmt.Sprintf(act, "'because'"))
			same(t, act+" as "+login, ledger.SQLState(err), "42501")
		}
	}
	same(t, "rows of the log", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act <> 'APPLY_PROFILE'`), 0)
	for n, act := range acts[:6] {
		mustExec(t, people, "SELECT railhead."+fmt.Sprintf(act, "'because'"))
		same(t, act, d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act <> 'APPLY_PROFILE' AND actor = $1
			AND reason = 'because'`, celltest.Operator), n+1)
	}
}

// TestCancelAgainstClaim lets a claim and a cancel meet, many times over: exactly
// one of them gets each instruction.
func TestCancelAgainstClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	const rounds = 200
	cancelled := 0
	for range rounds {
		id := d.enqueue()
		var gone sync.WaitGroup
		var refusal error
		start := make(chan struct{})
		gone.Go(func() {
			<-start
			_, refusal = o.CancelPayment(t.Context(), id, why)
		})
		close(start)
		claims := d.claim(lane("bank", 1, 0))
		gone.Wait()
		_, claimed := claims[id]
		switch {
		case claimed == (refusal == nil):
			t.Fatalf("claimed %t, cancel says %v: %s", claimed, refusal, d.rows(id))
		case claimed:
			refusedWith(t, "cancel after the claim", refusal, "RH020", "DISPATCHING")
			same(t, "rows", d.rows(id), "DISPATCHING")
		default:
			cancelled++
			same(t, "rows", d.rows(id), "CANCELLED")
		}
	}
	t.Logf("%d of %d were cancelled", cancelled, rounds)
	d.gapless()
}

// TestCancelWaitsForAClaim stops a claim in front of its commit: the cancel waits
// for it, and then it is too late.
func TestCancelWaitsForAClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, commits := range []bool{true, false} {
		id := d.enqueue()
		holder := d.Conn(t, "")
		tx, err := holder.Begin(t.Context())
		d.must(err)
		mustExec(t, holder, `DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id))
		done := make(chan error, 1)
		o := d.operator()
		go func() { done <- hands[0].do(o, t, id) }()
		d.awaitLock()
		if commits {
			d.must(tx.Commit(t.Context()))
			refusedWith(t, "cancel", <-done, "RH020", "gone from the archive")
		} else {
			d.must(tx.Rollback(t.Context()))
			d.must(<-done)
		}
	}
}

// awaitLock returns once a session of this database waits for a lock.
func (d *desk) awaitLock() {
	d.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for d.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock'`) == 0 {
		select {
		case <-tick.C:
		case <-d.t.Context().Done():
			d.t.Fatal("no session waits for a lock")
		}
	}
}

// TestDeadLetterList narrows a list by each of its filters.
func TestDeadLetterList(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	failed, parked := plights["FAILED"](d), plights["PARKED, outcome unknown"](d)
	closed := plights["EXPIRED"](d)
	d.must(hands[3].do(o, t, closed))
	d.must(hands[2].do(o, t, parked))
	for _, c := range []struct {
		filter reader.LetterFilter
		want   []payment.ID
	}{
		{reader.LetterFilter{}, []payment.ID{failed, parked}},
		{reader.LetterFilter{Limit: 1}, []payment.ID{failed}},
		{reader.LetterFilter{Reason: payment.DeadOutcomeUnknown}, []payment.ID{parked}},
		{reader.LetterFilter{Reason: payment.DeadTampered}, nil},
		{reader.LetterFilter{RailType: "bank"}, []payment.ID{failed, parked}},
		{reader.LetterFilter{RailType: "another"}, nil},
		{reader.LetterFilter{Status: "escalated"}, []payment.ID{parked}},
		{reader.LetterFilter{Status: "pending"}, []payment.ID{failed}},
		{reader.LetterFilter{Status: "resolved"}, []payment.ID{closed}},
		{reader.LetterFilter{Status: "resolved", Reason: payment.DeadFailed}, nil},
		{reader.LetterFilter{Status: "manual_replay"}, nil},
	} {
		letters, err := o.Reader().DeadLetters(t.Context(), c.filter)
		d.must(err)
		var got []payment.ID
		for _, letter := range letters {
			got = append(got, letter.OutboxID)
		}
		same(t, fmt.Sprintf("%+v", c.filter), fmt.Sprint(got), fmt.Sprint(c.want))
	}
	letters, err := o.Reader().DeadLetters(t.Context(), reader.LetterFilter{Status: "escalated"})
	d.must(err)
	same(t, "actor", letters[0].Actor, celltest.Operator)
	same(t, "note", letters[0].Note, why)
	same(t, "error", letters[0].ErrorCode, payment.CodeNoRecovery)
	if _, err := o.Reader().DeadLetters(t.Context(), reader.LetterFilter{Limit: reader.LettersMax + 1}); !errors.Is(err,
		outbox.ErrUnanswerable) {
		t.Errorf("too long a list: %v", err)
	}
}
