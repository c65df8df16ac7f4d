package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs/twin"
)

// sameKeyProfile is inVain of a rail that keeps keys.
var sameKeyProfile = strings.NewReplacer(`"NEVER"`, `"SAME_KEY", "key_window": "24h"`, `"max": 2`, `"max": 5`).Replace(inVain)

// TestRefusedBehindAFilter: a send that was answered by a refusal of our credentials or route
// (403 of what filters the answers) was at the bank behind it, which refused it; the next one
// was executed. What is refused may be the first.
func TestRefusedBehindAFilter(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	for _, by := range []string{"report", "inquiry"} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, sameKeyProfile)
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		proven := policy.WithDefaults().Proven(payment.ActionSend, payment.ResultRefusedRail, true)
		same(t, "what it proves", proven, payment.ResultRefusedRail)
		d.record(told(policy, first, proven, ""))
		second := d.claimOne(id)
		same(t, "it is sent again", second.Action, payment.ActionSend)
		d.record(told(policy, second, payment.ResultUnknown, "")) // which the rail executes
		got := payment.Verdict("")
		if by == "report" {
			got = d.late(callback(id, payment.ResultRefused, "ref-1")) // of the first
		} else {
			got = d.tell(told(policy, d.claimOne(id), payment.ResultRefused, "ref-1"))
			same(t, "it is weighed", got, payment.VerdictIn)
		}
		if word := d.certainty(id); word != ledger.OutcomeUnknown {
			t.Errorf("%s: %s, certainty %s, letter %s: %s", by, got, word, d.letter(id), d.rows(id))
		}
	}
}

// TestTwoRefusedBehindAFilter: of two sends that were answered so a refusal of the payment may
// be of either, and ends nothing.
func TestTwoRefusedBehindAFilter(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, sameKeyProfile)
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(told(policy, first, payment.ResultRefusedRail, ""))
	d.record(told(policy, d.claimOne(id), payment.ResultRefusedRail, "")) // executed behind it
	whole := d.text(`SELECT railhead.refusal_is_whole($1, true)::text`, [16]byte(id))
	got := d.late(callback(id, payment.ResultRefused, "ref-1")) // of the first
	if l := d.letter(id); got != payment.VerdictLate || l != "" {
		t.Errorf("whole %s: %s, letter %s: %s", whole, got, l, d.rows(id))
	}
}

// TestFilteredUnderAnEarlierProfile: what an answer may hide is judged by the profile under which
// the send was made, too.
func TestFilteredUnderAnEarlierProfile(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, sameKeyProfile)
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(told(policy, first, payment.ResultRefusedRail, ""))
	d.record(told(policy, d.claimOne(id), payment.ResultUnknown, "")) // which the rail executes
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
	rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
	got, err := rec.RecordLate(t.Context(), callback(id, payment.ResultRefused, "ref-1")) // of the first
	d.must(err)
	if word := d.certainty(id); got != payment.VerdictLate || word != ledger.OutcomeUnknown {
		t.Errorf("%s, certainty %s, letter %s: %s", got, word, d.letter(id), d.rows(id))
	}
}

// TestForgottenBehindAFilter: a send that a restore forgot, and that was answered so, counts too.
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
	a := d.late(told(policy, f, payment.ResultRefusedRail, ""))
	d.tell(told(policy, only, payment.ResultUnknown, ""))
	got := d.late(callback(id, payment.ResultRefused, "ref-1"))
	if word := d.certainty(id); word == ledger.RailRefused {
		t.Errorf("%s %s, certainty %s, letter %s: %s", a, got, word, d.letter(id), d.rows(id))
	}
}

// TestRefusesBeforeProcessing: a refusal of the payment is believed where the profile says that
// nothing filters the answers.
func TestRefusesBeforeProcessing(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max, policy.RefusesBeforeProcessing = payment.IDSame, 5, true
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(sameKeyProfile, `{"resend`, `{"refuses_before_processing": true, "resend`, 1))
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(told(policy, first, payment.ResultRefusedRail, ""))
	d.record(told(policy, d.claimOne(id), payment.ResultUnknown, ""))
	got := d.tell(told(policy, d.claimOne(id), payment.ResultRefused, ""))
	if l := d.letter(id); l != "FAILED pending" {
		t.Errorf("%s letter %q %s waiting %q", got, l, d.rows(id), d.waiting(id))
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
		FROM railhead.payment_outbox_attempts a, generate_series(3, 2880) n WHERE outbox_id = $1 AND attempt_no = 2 - n % 2`, [16]byte(id))
	d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 2880 WHERE outbox_id = $1`, [16]byte(id))
	out := d.claimOne(id)
	forgot := forgotten(id)
	forgot.AttemptNo, forgot.ClaimedAt = 9999, time.Now().Add(-time.Hour)
	d.late(told(policy, forgot, payment.ResultUnknown, ""))
	for _, o := range []payment.Outcome{
		callback(id, payment.ResultRefused, "ref-1"), callback(id, payment.ResultRefused, "ref-2"), told(policy, out, payment.ResultUnknown, ""),
	} {
		begun := time.Now()
		verdict := d.late(o)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s was called %s after %s", o.Result, verdict, took)
		}
	}
}
