package relayer

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/payment"
)

// TestOnceWaitsForTheAcceptance: what its caller wants sent once waits while a restore may have forgotten a send of it, also where
// the lane goes on, and is not parked for that.
func TestOnceWaitsForTheAcceptance(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
	held := &reservation{lane: &lane{}}
	held.lane.profile.Policy = policy
	claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ParticipantID: "p", RailType: "bank", Payload: []byte("{}"), CreatedAt: noon, ClaimedAt: noon, SendOnce: true}
	print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
	claim.Fingerprint = print[:]
	claim = claim.Weigh([]payment.Suspension{{KnownUntil: noon.Add(-time.Minute), OpenedAt: noon.Add(-time.Second)}})
	_, stopped := (&Relayer{}).sendOf(held, claim, clock.Now())
	if stopped == nil || stopped.Result != payment.ResultNotSent {
		t.Fatalf("stopped by %+v", stopped)
	}
	if d := policy.Decide(claim, payment.Answer{Result: stopped.Result}); !d.Requeue || d.NextAction != payment.ActionSend || d.SendCount != 0 {
		t.Errorf("goes on as %+v", d)
	}
	claim.OutcomeUnknown = true // that it was sent is known: an operator judges
	if _, stopped := (&Relayer{}).sendOf(held, claim, clock.Now()); stopped == nil || stopped.Result != payment.ResultWindowClosed {
		t.Errorf("sent and unknown: stopped by %+v", stopped)
	}
}
