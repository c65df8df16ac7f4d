package relayer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestOnceWaitsForTheAcceptance tests that an instruction with send_once waits while a restore may
// have forgotten a send of it, also if its lane is claimed, and is not parked for that.
func TestOnceWaitsForTheAcceptance(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
	slots := &reservation{lane: &lane{}}
	slots.lane.profile.Policy = policy
	claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ParticipantID: "p", RailType: "bank",
		Payload: []byte("{}"), CreatedAt: noon, ClaimedAt: noon, SendOnce: true}
	print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
	claim.Fingerprint = print[:]
	claim = claim.Weigh([]payment.Suspension{{KnownUntil: noon.Add(-time.Minute), OpenedAt: noon.Add(-time.Second)}})
	_, stopped := (&Relayer{}).buildSend(slots, claim, clock.Now())
	if stopped == nil || stopped.Result != payment.ResultNotSent {
		t.Fatalf("stopped by %+v", stopped)
	}
	if d := policy.Decide(claim, payment.Answer{Result: stopped.Result}); !d.Requeue ||
		d.NextAction != payment.ActionSend || d.SendCount != 0 {
		t.Errorf("goes on as %+v", d)
	}
	// Each claim costs two rows: the intervals grow, up to this bound.
	for attempt, wait := range map[int]time.Duration{1: 30 * time.Second, 5: 90 * time.Second, 101: 5 * time.Minute,
		1 << 30: 5 * time.Minute} {
		claim.AttemptNo = attempt
		if d := policy.Decide(claim, payment.Answer{Result: stopped.Result}); d.Delay != wait {
			t.Errorf("waits %s after attempt %d, want %s", d.Delay, attempt, wait)
		}
	}
	claim.OutcomeUnknown = true // that it was sent is known: an operator judges
	if _, stopped := (&Relayer{}).buildSend(slots, claim, clock.Now()); stopped == nil ||
		stopped.Result != payment.ResultWindowClosed {
		t.Errorf("sent and unknown: stopped by %+v", stopped)
	}
}

// TestDoubtedWaitsWhenTheWindowCloses tests a lane that is claimed while the rail has the keys of
// sends that may be forgotten. An instruction that is claimed just before that ends, and checked
// after it, waits as if it had not been claimed.
func TestDoubtedWaitsWhenTheWindowCloses(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
	slots := &reservation{lane: &lane{}}
	slots.lane.profile.Policy = policy
	claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ParticipantID: "p", RailType: "bank",
		Payload: []byte("{}"), CreatedAt: noon, ClaimedAt: noon}
	print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
	claim.Fingerprint = print[:]
	claim = claim.Weigh([]payment.Suspension{{KnownUntil: noon.Add(-55 * time.Minute), OpenedAt: noon.Add(-time.Minute)}})
	_, stopped := (&Relayer{}).buildSend(slots, claim, clock.Now())
	if stopped == nil || stopped.Result != payment.ResultNotSent {
		t.Fatalf("stopped by %+v", stopped)
	}
	if d := policy.Decide(claim, payment.Answer{Result: stopped.Result}); !d.Requeue || d.OutcomeUnknown ||
		d.Delay < 30*time.Second {
		t.Errorf("goes on as %+v", d)
	}
	claim.OutcomeUnknown = true
	if _, stopped := (&Relayer{}).buildSend(slots, claim, clock.Now()); stopped == nil ||
		stopped.Result != payment.ResultWindowClosed {
		t.Errorf("sent and unknown: stopped by %+v", stopped)
	}
}

// TestResendThatArrivesLate tests the time between the claim and the end of the write: to connect
// and to write. A re-send whose key the rail may have forgotten when it arrives is not begun.
func TestResendThatArrivesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// 18 s to be used
		policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(20 * time.Second)}.WithDefaults()
		slots := &reservation{lane: &lane{rail: unservedRail{}}, budget: outbox.DefaultTimeBudget()}
		slots.lane.profile.Policy = policy
		slots.lane.profile.Timeouts = rails.Timeouts{Write: payment.Duration(2 * time.Second)}
		now := time.Now()
		claim := payment.Claim{
			Action: payment.ActionSend, AttemptNo: 3, ParticipantID: "p", RailType: "bank",
			Payload:   []byte(`{"amount":"1.00","currency":"EUR"}`),
			ClaimedAt: now, FirstSentAt: now.Add(-13 * time.Second), LastSentAt: now.Add(-13 * time.Second), SendCount: 1,
			OutcomeUnknown: true,
		}
		print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
		claim.Fingerprint = print[:]
		r := &Relayer{}
		r.budget.offer(outbox.DefaultTimeBudget())
		r.budget.putInForce(outbox.DefaultTimeBudget())
		r.beatAt.Store(new(clock.Now()))
		resend, stopped := r.buildSend(slots, claim, clock.Now())
		if stopped != nil {
			t.Fatalf("stopped by %+v", stopped)
		}
		first := claim
		first.FirstSentAt, first.LastSentAt, first.SendCount, first.OutcomeUnknown = time.Time{}, time.Time{}, 0, false
		firstSend, stopped := r.buildSend(slots, first, clock.Now())
		if stopped != nil {
			t.Fatalf("the first send is stopped by %+v", stopped)
		}
		time.Sleep(2900 * time.Millisecond) // 15.9 s after the first send, 17.9 when it is written
		if err := resend.BeforeFirstByte(); err != nil {
			t.Errorf("inside the window: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		if resend.BeforeFirstByte() == nil {
			t.Error("begins though the rail may know the key no more when the last byte is written")
		}
		if err := firstSend.BeforeFirstByte(); err != nil {
			t.Errorf("a first send has no window: %v", err)
		}
		// expires_at holds for the first byte.
		expires := claim
		expires.ExpiresAt = claim.ClaimedAt.Add(3500 * time.Millisecond)
		expires.FirstSentAt, expires.LastSentAt = now, now
		if err := r.preflight(slots.lane.profile, expires, clock.Now().Before(3*time.Second), slots.budget); err != nil {
			t.Errorf("half a second before it expires: %v", err)
		}
		// A re-send that is not begun, and may not be any more, waits for an operator.
		if d := policy.Decide(claim, payment.Answer{Result: payment.ResultNotSent,
			Elapsed: 3 * time.Second}); d.State != payment.Parked || d.ErrorCode != payment.CodeWindowClosed {
			t.Errorf("goes on as %+v", d)
		}
	})
}
