package relayer

import (
	"context"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// askedRail records the inquiry that it gets.
type askedRail struct {
	unservedRail
	inquiry *rails.Inquiry
}

func (a askedRail) Inquire(_ context.Context, q rails.Inquiry) rails.Result {
	*a.inquiry = q
	return rails.Result{Result: payment.ResultUnavailable}
}

// TestForgottenSendIsAsOldAsItMayBe tests what an adapter is told about the first send when a restore
// may have forgotten one, after an operator has accepted the server: the earliest moment at which that
// may have been. A store of the rail that is younger does not know it.
func TestForgottenSendIsAsOldAsItMayBe(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	accepted := payment.Suspension{
		KnownUntil: noon.Add(-10 * time.Minute), OpenedAt: noon.Add(-9 * time.Minute), AcceptedAt: noon.Add(-8 * time.Minute),
		DoubtedUntil: noon.Add(time.Hour),
	}
	policy := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
	for name, test := range map[string]struct{ first, want time.Time }{
		"no send is known":               {time.Time{}, accepted.KnownUntil},
		"one after the acceptance":       {noon.Add(-time.Minute), accepted.KnownUntil},
		"one before the forgotten sends": {noon.Add(-20 * time.Minute), noon.Add(-20 * time.Minute)},
	} {
		asked := askedRail{inquiry: &rails.Inquiry{}}
		slots := &reservation{lane: &lane{rail: asked}}
		slots.lane.profile.Policy = policy
		claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ParticipantID: "p", RailType: "bank",
			Payload:   []byte(`{"amount":"1.00","currency":"EUR"}`),
			CreatedAt: noon.Add(-20 * time.Minute), ClaimedAt: noon, FirstSentAt: test.first, LastSentAt: test.first}
		print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
		claim.Fingerprint = print[:]
		claim = claim.Weigh([]payment.Suspension{accepted})
		r := &Relayer{}
		send, stopped := r.buildSend(slots, claim, clock.Now())
		if stopped != nil || send.SendNo < 2 || !send.FirstSentAt.Equal(test.want) {
			t.Errorf("%s: send %d, first sent %s, stopped by %+v, want %s", name, send.SendNo, send.FirstSentAt, stopped,
				test.want)
		}
		r.inquire(t.Context(), slots.lane, claim)
		if got := asked.inquiry.FirstSentAt; !got.Equal(test.want) {
			t.Errorf("%s: the inquiry says first sent %s, want %s", name, got, test.want)
		}
	}
}
