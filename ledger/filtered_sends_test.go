package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

// sameKeyProfile is inVain of a rail that keeps keys.
var sameKeyProfile = strings.NewReplacer(`"NEVER"`, `"SAME_KEY", "key_window": "24h"`, `"max": 2`, `"max": 5`).Replace(inVain)

// keepsKeys is a rail that keeps keys and one outcome a send, takes a refused key again, and
// can't be asked.
const keepsKeys = `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"}`

// filtered is the answer to a send that what filters the answers has refused (403): the bank
// behind it may have done anything.
func filtered(policy payment.Policy, c payment.Claim) payment.Outcome {
	return told(policy, c, policy.WithDefaults().Proven(c, payment.ResultRefusedRail, true), "")
}

// afterFilter is an instruction that was sent to a rail of a profile, and answered so.
func afterFilter(t *testing.T, profile string, policy payment.Policy) (*desk, payment.Claim) {
	t.Helper()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, profile)
	first := d.claimOne(d.enqueue())
	d.record(filtered(policy, first))
	return d, first
}

// doubted fails where what may have been executed is called anything else.
func doubted(t *testing.T, d *desk, id payment.ID, what string) {
	t.Helper()
	if word := d.certainty(id); word != reader.OutcomeUnknown {
		t.Errorf("%s: certainty %s, letter %q: %s", what, word, d.letter(id), d.rows(id))
	}
}

// TestRefusedBehindAFilter: a send that was answered by a refusal of our credentials or route
// was at the bank behind what filters the answers, which refused it; the next one was
// executed. What is refused may be the first.
func TestRefusedBehindAFilter(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.ResendOnUnknown, policy.KeyWindow = payment.ResendSameKey, payment.Duration(24*time.Hour)
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	for _, by := range []string{"report", "inquiry"} {
		d, first := afterFilter(t, sameKeyProfile, policy)
		id := first.OutboxID
		d.do(`UPDATE railhead.payment_outbox_pending SET next_action = 'SEND' WHERE outbox_id = $1`, [16]byte(id))
		second := d.claimOne(id)
		same(t, "it is sent again", second.Action, payment.ActionSend)
		d.record(told(policy, second, payment.ResultUnknown, "")) // which the rail executes
		if by == "report" {
			d.late(callback(id, payment.ResultRefused, "ref-1")) // of the first
		} else {
			d.tell(told(policy, d.claimOne(id), payment.ResultRefused, "ref-1"))
		}
		doubted(t, d, id, by)
	}
}

// TestWhatFollowsAFilter: what was executed behind a filter is not ended as unpaid by what is
// said of the next send, by its expiry or by an operator.
func TestWhatFollowsAFilter(t *testing.T) {
	t.Parallel()
	policy := sameKey
	again := func(d *desk, id payment.ID, p payment.Policy, result payment.Result) {
		d.tell(told(p, d.claimOne(id), result, ""))
	}
	newID := sameKey
	newID.IDAfterRefusal = payment.IDNew
	for what, c := range map[string]struct {
		policy payment.Policy
		then   func(d *desk, id payment.ID)
	}{
		"the repetition is refused": {policy, func(d *desk, id payment.ID) {
			second := d.claimOne(id)
			d.tell(told(policy, second, codes.FirstOnly.Result(codes.Context{SendNo: second.SendNo()}), ""))
		}},
		"the re-send is refused for good": {policy, func(d *desk, id payment.ID) { again(d, id, policy, payment.ResultRefusedFinal) }},
		"the re-send is refused for now":  {newID, func(d *desk, id payment.ID) { again(d, id, newID, payment.ResultRefusedTransient) }},
		"the re-send is refused as this one": {policy, func(d *desk, id payment.ID) {
			p := policy
			p.RailRefused.PerInstruction = 1
			second := d.claimOne(id)
			d.tell(outcome(second, p.WithDefaults().Decide(second,
				payment.Answer{Result: payment.ResultRefusedRail, OthersPass: true}), payment.ResultRefusedRail, ""))
		}},
		"it expires": {policy, func(d *desk, id payment.ID) {
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
			ended, err := d.exec.Expire(t.Context(), "reaper", 10)
			d.must(err)
			same(t, "expired", len(ended), 0)
		}},
		"it is to be cancelled": {policy, func(d *desk, id payment.ID) {
			if _, err := d.operator().CancelPayment(t.Context(), id, why); err == nil {
				t.Error("it was cancelled")
			}
		}},
	} {
		profile := keepsKeys
		if c.policy.IDAfterRefusal == payment.IDNew {
			profile = strings.Replace(keepsKeys, `"SAME"}`, `"NEW"}`, 1)
		}
		d, first := afterFilter(t, profile, c.policy)
		c.then(d, first.OutboxID)
		doubted(t, d, first.OutboxID, what)
	}
}

// TestSentAgainAfterAFilter: not past the key window, and not to another system.
func TestSentAgainAfterAFilter(t *testing.T) {
	t.Parallel()
	d, first := afterFilter(t, keepsKeys, sameKey)
	id := first.OutboxID
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01' WHERE outbox_id = $1`, [16]byte(id))
	elsewhere := lane("bank", 1, 1)
	elsewhere.RenderVersion = "render/2"
	second := d.claim(d.inForce(elsewhere))[id]
	same(t, "its form", second.RenderVersion, first.RenderVersion)
	same(t, "first sent", second.FirstSentAt.Equal(first.ClaimedAt), true)
	same(t, "in the window", sameKey.WithDefaults().MaySend(second, 0), true)
	same(t, "a day later", sameKey.WithDefaults().MaySend(second, 24*time.Hour), false)
}

// TestRefusalsBehindAFilterAreCounted: a relayer that hears the next one knows since when
// the rail has refused the instruction, and does not take it for the first of many.
func TestRefusalsBehindAFilterAreCounted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, keepsKeys)
	first := d.claimOne(d.enqueue())
	d.record(outcome(first, sameKey.WithDefaults().Decide(first,
		payment.Answer{Result: payment.ResultUnknown, RailRefused: true}), payment.ResultUnknown, ""))
	same(t, "rows", d.rows(first.OutboxID), "DISPATCHING UNKNOWN(1)")
	second := d.claimOne(first.OutboxID)
	same(t, "refusals", second.RailRefusals, 1)
	same(t, "since the claim", second.RailRefusedAt[0].After(first.ClaimedAt), true)
	d.record(told(sameKey, second, payment.ResultUnknown, ""))
	same(t, "refusals after silence", d.claimOne(first.OutboxID).RailRefusals, 1)
}

// TestOperatorAndAFilter: an operator's evidence is not contradicted by what a filter said.
func TestOperatorAndAFilter(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, strings.Replace(keepsKeys, `{`, `{"answer_covers_key": true, `, 1))
	only := d.claimOne(d.enqueue())
	d.record(lost(coversKey, only))
	_, err := d.operator().ResolvePayment(t.Context(), only.OutboxID, stated("ref-1"))
	d.must(err)
	if got := d.late(filtered(coversKey, only)); got == payment.VerdictConflict {
		t.Errorf("%s letter %q: %s", got, d.letter(only.OutboxID), d.rows(only.OutboxID))
	}
}

// TestExecutedBehindAFilter: a send that was refused, a replay, and one that was executed
// behind a filter contradict each other in nothing.
func TestExecutedBehindAFilter(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, keepsKeys)
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(told(sameKey, first, payment.ResultRefusedFinal, "ref-1"))
	d.replay(id)
	d.record(filtered(sameKey, d.claimOne(id)))
	if got := d.late(callback(id, payment.ResultExecuted, "ref-2")); got != payment.VerdictSettled {
		t.Errorf("%s letter %q: %s", got, d.letter(id), d.rows(id))
	}
}

// TestForgottenBehindAFilter: a send that a restore forgot, and that was answered so, counts.
func TestForgottenBehindAFilter(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, sameKeyProfile)
	only := d.claimOne(d.enqueue())
	id := only.OutboxID
	f := forgotten(id)
	f.AttemptNo, f.ClaimedAt = 9, time.Now().Add(-time.Minute)
	d.late(filtered(policy, f))
	d.tell(told(policy, only, payment.ResultUnknown, ""))
	d.late(callback(id, payment.ResultRefused, "ref-1"))
	doubted(t, d, id, "a forgotten send")
}

// TestRefusesBeforeProcessing: a refusal of our credentials counts as no send where the profile
// says that nothing filters the answers.
func TestRefusesBeforeProcessing(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max, policy.RefusesBeforeProcessing = payment.IDSame, 5, true
	d, first := afterFilter(t, strings.Replace(sameKeyProfile, `{"resend`, `{"refuses_before_processing": true, "resend`, 1), policy)
	id := first.OutboxID
	second := d.claimOne(id)
	same(t, "sends before", second.SendNo(), 1)
	d.record(told(policy, second, payment.ResultUnknown, ""))
	got := d.tell(told(policy, d.claimOne(id), payment.ResultRefused, ""))
	if l := d.letter(id); l != "FAILED pending" {
		t.Errorf("%s letter %q %s waiting %q", got, l, d.rows(id), d.waiting(id))
	}
}

// TestOneOutcomeAKeySince: two sends under a profile by which the rail keeps an outcome of each;
// that it keeps one a key, as the next profile says, holds for the sends that follow.
func TestOneOutcomeAKeySince(t *testing.T) {
	t.Parallel()
	const inquiry = `"inquiry": {"max": 5, "intervals": ["1s"], "not_found": "INCONCLUSIVE"}`
	const before = `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME", ` + inquiry + `}`
	const after = `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "NEW", "answer_covers_key": true, ` + inquiry + `}`
	earlier := asks
	earlier.Inquiry.Max, earlier.IDAfterRefusal = 5, payment.IDSame
	later := earlier
	later.IDAfterRefusal, later.AnswerCoversKey = payment.IDNew, true
	for _, by := range []string{"inquiry", "late inquiry", "report"} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, before)
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		d.record(told(earlier, first, payment.ResultRefusedTransient, "ref-1"))
		d.record(told(earlier, d.claimOne(id), payment.ResultUnknown, "")) // executed
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, after)
		switch by {
		case "inquiry":
			d.tell(told(later, d.claimOne(id), payment.ResultRefused, "ref-1"))
		case "late inquiry":
			asked := d.claimOne(id)
			d.record(lost(later, asked))
			d.late(told(later, asked, payment.ResultRefused, "ref-1"))
		default:
			d.late(callback(id, payment.ResultRefused, "ref-1"))
		}
		doubted(t, d, id, by)
	}
}

// TestKeysKeptSince: that the rail keeps keys, or keeps them longer, as the next profile says,
// holds for the sends that follow. What it was sent before is not sent again by that.
func TestKeysKeptSince(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		before string
		policy payment.Policy
		again  bool
	}{
		"kept before":         {keepsKeys, sameKey, true},
		"not kept before":     {sameSend, asks, false},
		"kept shorter before": {strings.Replace(keepsKeys, "24h", "1m", 1), sameKey, false},
	} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, c.before)
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		d.record(told(c.policy, first, payment.ResultUnknown, ""))
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, strings.Replace(keepsKeys, `{`, `{"retry": {"max_sends": 4}, `, 1))
		d.do(`UPDATE railhead.payment_outbox_pending SET next_action = 'SEND', next_attempt_at = '2000-01-01'
			WHERE outbox_id = $1`, [16]byte(id))
		second := d.claim(d.inForce(lane("bank", 2, 1)))[id]
		same(t, what+": the rules it was sent under", len(second.SentUnder), 1)
		same(t, what+": sent again after five minutes", sameKey.WithDefaults().MaySend(second, 5*time.Minute), c.again)
		found, err := d.exec.FindClaim(t.Context(), second.ClaimID)
		d.must(err)
		same(t, what+": sent again as it is found", sameKey.WithDefaults().MaySend(found[0], 5*time.Minute), c.again)
	}
}

// TestReplayedUnderAnotherWindow: a replay of what may have been executed keeps to the shortest
// key window that it was sent under.
func TestReplayedUnderAnotherWindow(t *testing.T) {
	t.Parallel()
	profile := func(window string) string {
		return strings.Replace(inVain, `"NEVER"`, `"SAME_KEY"`+window, 1)
	}
	const hour, moment, unsaid = `, "key_window": "1h"`, `, "key_window": "1ms"`, ""
	for _, c := range []struct {
		before, after string
		again         bool
	}{{hour, hour, true}, {moment, hour, false}, {hour, unsaid, false}, {unsaid, hour, false}} {
		d := newDesk(t)
		d.apply(profile(c.before))
		id := justNotFound(d)
		d.apply(profile(c.after))
		_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
		if c.again {
			d.must(err)
		} else {
			refusedWith(t, fmt.Sprintf("sent under %q, then %q", c.before, c.after), err, "RH020", "its key window is over")
		}
	}
}

// TestTwoSendsWithoutKeys: both were accepted by a rail that kept no keys then, whatever its
// profile says by the time that the last is told.
func TestTwoSendsWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, out := range []bool{true, false} {
		d := newDesk(t)
		first := d.replayed()
		second := d.claimOne(first.OutboxID)
		if !out {
			d.record(told(never, second, payment.ResultAccepted, ""))
		}
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, keepsKeys)
		d.late(told(never, first, payment.ResultAccepted, ""))
		if out {
			d.late(told(never, second, payment.ResultAccepted, ""))
		}
		same(t, fmt.Sprintf("letter, the second out: %v", out), d.letter(first.OutboxID), "CONFLICT pending")
	}
}

// TestLateEvidenceOfManyClaims: evidence about a payment that could not be sent for half a day,
// every 30 s, is weighed in well under a second: its rows are locked meanwhile.
func TestLateEvidenceOfManyClaims(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, sameKeyProfile)
	policy := asks
	policy.IDAfterRefusal = payment.IDSame
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(told(policy, first, payment.ResultNotSent, ""))
	d.do(`INSERT INTO railhead.payment_outbox_attempts
		SELECT (jsonb_populate_record(a, jsonb_build_object('attempt_id', gen_random_uuid(), 'attempt_no', n,
			'answers_attempt_no', CASE WHEN a.attempt_no = 2 THEN n - 1 END))).*
		FROM railhead.payment_outbox_attempts a, generate_series(3, 2880) n WHERE outbox_id = $1
		AND attempt_no = 2 - n % 2`, [16]byte(id))
	d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 2880 WHERE outbox_id = $1`, [16]byte(id))
	out := d.claimOne(id)
	forgot := forgotten(id)
	forgot.AttemptNo, forgot.ClaimedAt = 9999, time.Now().Add(-time.Hour)
	d.late(told(policy, forgot, payment.ResultUnknown, ""))
	for _, o := range []payment.Outcome{
		callback(id, payment.ResultRefused, "ref-1"), callback(id, payment.ResultRefused, "ref-2"),
		told(policy, out, payment.ResultUnknown, ""),
	} {
		begun := time.Now()
		verdict := d.late(o)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s was called %s after %s", o.Result, verdict, took)
		}
	}
}
