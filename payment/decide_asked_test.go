package payment_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

// TestAskedOnce: whatever the rail, the answer and the age, the one inquiry that an
// operator requests ends a payment by the rail's answer, or parks it. Nothing follows.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	checkOften(t, func(t *rapid.T) {
		policy, claim, answer := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		claim.Action, claim.OutcomeUnknown, claim.Asked = payment.ActionInquire, true, true
		d := policy.Decide(claim, answer)
		if rapid.IntRange(0, 4).Draw(t, "lost in one of five") == 0 {
			answer.Result = payment.ResultUnknown
			d = policy.DecideLost(claim, answer.Elapsed, answer.Spread)
		}
		switch {
		case d.Requeue || d.NextAction != "" || d.CountsSend:
			t.Fatalf("%s goes on: %+v", answer.Result, d)
		case d.State == payment.Dispatched && answer.Result != payment.ResultExecuted,
			d.State == payment.Failed && (answer.Result != payment.ResultRefused || d.Reason != payment.DeadFailed):
			t.Fatalf("%s ended it: %+v", answer.Result, d)
		case d.State != payment.Dispatched && d.State != payment.Failed &&
			!(d.Park && d.OutcomeUnknown && d.Reason == payment.DeadOutcomeUnknown && d.ErrorCode == payment.CodeAsked):
			t.Fatalf("%s did not park it: %+v", answer.Result, d)
		}
	})
	// Where a re-send would be allowed by the machine's own rule.
	claim := payment.Claim{
		Action: payment.ActionInquire, AttemptNo: 5, ClaimedAt: noon, OutcomeUnknown: true, SendCount: 1, InquiryCount: 1,
		Asked:       true,
		FirstSentAt: noon.Add(-time.Hour), LastSentAt: noon.Add(-time.Hour),
	}
	denied := payment.Answer{Result: payment.ResultNotFound, Elapsed: time.Second}
	if d := instantRail().Decide(claim, denied); d.Requeue || !d.Park || d.State != payment.Unknown {
		t.Errorf("no such payment: %+v", d)
	}
	claim.Asked = false
	if d := instantRail().Decide(claim, denied); d.NextAction != payment.ActionSend {
		t.Errorf("the machine's own inquiry is not followed by a send here, and proves nothing of the other: %+v", d)
	}
}
