package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// sameKeyProfile is inVain of a rail that keeps keys.
var sameKeyProfile = strings.NewReplacer(`"NEVER"`, `"SAME_KEY", "key_window": "24h"`, `"max": 2`, `"max": 5`).Replace(inVain)

// TestOneExecutedTheOtherNever: a send was executed, and the one that was out meanwhile was not: no second payment.
func TestOneExecutedTheOtherNever(t *testing.T) {
	t.Parallel()
	for _, second := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater, payment.ResultRefusedTransient, payment.ResultCheckFailed} {
		d := newDesk(t)
		first := d.replayed()
		two := d.claimOne(first.OutboxID)
		a := d.late(told(never, first, payment.ResultAccepted, ""))
		b := d.late(told(never, two, second, ""))
		if l := d.letter(first.OutboxID); strings.HasPrefix(l, "CONFLICT") {
			t.Errorf("%s: %s %s letter %q %s", second, a, b, l, d.rows(first.OutboxID))
		}
	}
}

// TestExecutedTwiceUnderOneReference: what the report and the worker call executed by one name is one payment.
func TestExecutedTwiceUnderOneReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.replayed()
	two := d.claimOne(first.OutboxID)
	a := d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1"))
	b := d.late(told(never, first, payment.ResultAccepted, "ref-1"))
	c := d.late(told(never, two, payment.ResultNotSent, ""))
	if l := d.letter(first.OutboxID); strings.HasPrefix(l, "CONFLICT") {
		t.Errorf("report: %s %s %s letter %q %s", a, b, c, l, d.rows(first.OutboxID))
	}
}

// TestTwoRefusedBehindAFilter: a refusal of the payment may be of either, and ends nothing.
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

// TestReportedAfterAReplay: a refusal that was reported before the only send, also after a replay, is of another.
func TestReportedAfterAReplay(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{true, false} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		claim := d.claimOne(d.enqueue())
		id := claim.OutboxID
		d.record(told(asksInVain, claim, payment.ResultNotSent, ""))
		expire(d, id)
		d.replay(id)
		got := d.late(callback(id, payment.ResultRefused, ""))
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // executed
		asked := d.claimOne(id)
		if slow {
			d.record(lost(asksInVain, asked))
			d.late(told(asksInVain, asked, payment.ResultRefused, ""))
		} else {
			d.tell(told(asksInVain, asked, payment.ResultRefused, ""))
		}
		if word := d.certainty(id); word != ledger.OutcomeUnknown {
			t.Errorf("slow %v: %s; one send: %v, certainty %s, letter %s: %s", slow, got, asked.OneSend(), word, d.letter(id), d.rows(id))
		}
	}
}

// TestForgottenSendExecutedToo: a send that a restore forgot was executed beside the one that is known, on a rail that keeps no keys.
func TestForgottenSendExecutedToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	only := d.claimOne(d.enqueue())
	id := only.OutboxID
	f := forgotten(id)
	f.AttemptNo, f.ClaimedAt = 9, time.Now().Add(-time.Minute)
	d.record(told(never, only, payment.ResultAccepted, ""))
	got := d.late(told(never, f, payment.ResultAccepted, ""))
	if l := d.letter(id); l != "CONFLICT pending" {
		t.Errorf("%s letter %q %s", got, l, d.rows(id))
	}
}

// TestRefusesBeforeProcessing: a rail whose profile says so refuses nothing behind what filters its answers.
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

// TestForgottenBehindAFilter: nor is the refusal of a forgotten send, that was answered by the filter, one of the next.
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
