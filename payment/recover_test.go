package payment_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// The rails that the tests of recovery and the golden table are about.

// cardRail neither de-duplicates nor can be asked.
func cardRail() payment.Policy { return payment.Policy{}.WithDefaults() }

// keyedRail de-duplicates by key for a day and can't be asked; its answer speaks
// for the key.
func keyedRail() payment.Policy {
	return payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: span(24 * time.Hour), AnswerCoversKey: true,
		Retry: payment.RetryPolicy{Jitter: new(0.0)},
	}.WithDefaults()
}

// againRail de-duplicates by key for a day, can't be asked, and takes a key that it
// has refused.
func againRail() payment.Policy {
	p := keyedRail()
	p.AnswerCoversKey, p.IDAfterRefusal = false, payment.IDSame
	return p
}

// instantRail is asked first, and sent again only after an aged "not found".
func instantRail() payment.Policy {
	return payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: span(24 * time.Hour),
		Inquiry: payment.InquiryPolicy{
			NotBefore: span(25 * time.Second), Intervals: []payment.Duration{span(time.Minute), span(5 * time.Minute)}, Max: 4,
			NotFound: payment.NotFoundNotExecuted, NotFoundAge: span(2 * time.Minute), NotFoundUntil: span(26 * time.Hour),
		},
		Retry: payment.RetryPolicy{Jitter: new(0.0)},
	}.WithDefaults()
}

// wireRail can be asked, does not de-duplicate, and takes what it has refused for now.
func wireRail() payment.Policy {
	p := instantRail()
	p.ResendOnUnknown, p.KeyWindow, p.IDAfterRefusal = payment.ResendNever, 0, payment.IDSame
	return p
}

// batchRail accepts now, and reports the outcome only when asked.
func batchRail() payment.Policy {
	p := wireRail()
	p.Acceptance, p.IDAfterRefusal = payment.AcceptanceProvisional, payment.IDNew
	p.Inquiry.NotFound, p.Inquiry.NotFoundAge = payment.NotFoundInconclusive, 0
	return p
}

// eitherRail executes now, or accepts now and reports the outcome later: each answer is one of the two.
func eitherRail() payment.Policy {
	p := batchRail()
	p.Acceptance = payment.AcceptanceByAnswer
	return p
}

// callbackRail takes now and calls back within the hour.
func callbackRail() payment.Policy {
	p := cardRail()
	p.Acceptance, p.CallbackDeadline = payment.AcceptanceProvisional, span(time.Hour)
	return p
}

func TestRecover(t *testing.T) {
	const none = time.Duration(0)
	for _, test := range []struct {
		name   string
		policy payment.Policy
		doubt  payment.UnknownOutcome
		want   payment.Recovery
	}{
		{"neither key nor inquiry: a person, at once", cardRail(),
			payment.UnknownOutcome{Sends: 1},
			payment.Recovery{Action: payment.RecoveryPark, Code: "NO_SAFE_RECOVERY"}},

		{"keyed: again, by the schedule", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Second, Sends: 1},
			payment.Recovery{Action: payment.RecoveryResend, Delay: time.Second}},
		{"keyed, second silence: a longer wait", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Second, Sends: 2},
			payment.Recovery{Action: payment.RecoveryResend, Delay: 2 * time.Second}},
		{"keyed, ceiling", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Second, Sends: 3},
			payment.Recovery{Action: payment.RecoveryPark, Code: "RETRIES_EXHAUSTED"}},
		{"keyed, the wait ends just inside the window", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 24*time.Hour - 5*time.Minute - time.Second - 1, Sends: 1},
			payment.Recovery{Action: payment.RecoveryResend, Delay: time.Second}},
		{"keyed, the wait ends just outside", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 24*time.Hour - 5*time.Minute - time.Second, Sends: 1},
			payment.Recovery{Action: payment.RecoveryPark, Code: "KEY_WINDOW_CLOSED"}},
		{"keyed, the rail's wish, up to five minutes", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 23 * time.Hour, Sends: 1, RetryAfter: 55*time.Minute - 1},
			payment.Recovery{Action: payment.RecoveryResend, Delay: 5 * time.Minute, AsAsked: true}},
		{"keyed, the rail's wish ends outside", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 24*time.Hour - 5*time.Minute - 5*time.Second, Sends: 1,
				RetryAfter: 55 * time.Minute},
			payment.Recovery{Action: payment.RecoveryResend, Delay: 2 * time.Second, AsAsked: true}},
		{"keyed, age unknown", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 1<<63 - 1, Sends: 1},
			payment.Recovery{Action: payment.RecoveryPark, Code: "KEY_WINDOW_CLOSED"}},
		{"keyed, \"not found\" proves nothing to a rail that can't be asked", keyedRail(),
			payment.UnknownOutcome{SinceFirstSend: 23*time.Hour + 59*time.Minute, SinceLastSend: time.Hour, Sends: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "KEY_WINDOW_CLOSED"}},

		{"asked: first inquiry at not_before", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 10 * time.Second, SinceLastSend: 10 * time.Second, Sends: 1},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 15 * time.Second}},
		{"asked: not_before has passed", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Minute, SinceLastSend: time.Minute, Sends: 1},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: none}},
		{"asked: second inquiry after the first interval", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Minute, SinceLastSend: time.Minute, Sends: 1, Inquiries: 1},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},
		{"asked: the last interval repeats", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 3},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 5 * time.Minute}},
		{"asked: after a new send not before not_before again", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: 0, Sends: 2, Inquiries: 0},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 25 * time.Second}},
		{"asked: ceiling", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"asked: at the ceiling of sends it is still asked", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 3},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: none}},

		{"not found, young: asked again when it is old enough", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 30 * time.Second, SinceLastSend: 30 * time.Second, Sends: 1, Inquiries: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 90 * time.Second}},
		{"not found, a moment too young when asked", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 2 * time.Minute, SinceLastSend: 2 * time.Minute, AskedAgo: 1, Sends: 1,
				Inquiries: 1, NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},
		{"not found, old enough", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 2 * time.Minute, SinceLastSend: 2 * time.Minute, Sends: 1, Inquiries: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryResend, Delay: time.Second, NotExecuted: true}},
		{"not found, the first send a moment before the rail forgets it", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 26*time.Hour - 1, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "KEY_WINDOW_CLOSED"}},
		{"not found, the first send as old as the rail's look-up", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 26 * time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},
		{"not found, the first send as old as the rail's look-up, for the last time", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 26 * time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"not found, the first send of unknown age", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 1<<63 - 1, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1, NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},
		{"not found, first send old but the latest young", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: 30 * time.Second, Sends: 2, Inquiries: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 90 * time.Second}},
		{"not found, old enough, by the last inquiry", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4, NotFound: true},
			payment.Recovery{Action: payment.RecoveryResend, Delay: time.Second, NotExecuted: true}},
		{"not found, young, by the last inquiry", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Minute, SinceLastSend: time.Minute, Sends: 1, Inquiries: 4,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"not found, old enough, ceiling of sends", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 3, Inquiries: 1, NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "RETRIES_EXHAUSTED"}},
		{"not found, old enough, window closed", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: 25 * time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1,
				NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "KEY_WINDOW_CLOSED"}},
		{"not found, old enough, rail without keys: a paused sender may still come", wireRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1, NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "NO_SAFE_RECOVERY"}},
		{"not found, old enough, by a rail that knew the key", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1, NotFound: true,
				SeenBefore: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},
		{"not found, old enough, by a rail that knew the key, for the last time", instantRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4, NotFound: true,
				SeenBefore: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"not found, inconclusive", batchRail(),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1, NotFound: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: time.Minute}},

		{"taken: asked", batchRail(),
			payment.UnknownOutcome{SinceLastSend: time.Second, Sends: 1, Provisional: true},
			payment.Recovery{Action: payment.RecoveryInquire, Delay: 24 * time.Second}},
		{"taken: asked to the ceiling", batchRail(),
			payment.UnknownOutcome{SinceLastSend: time.Hour, Sends: 1, Inquiries: 4, Provisional: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"taken, then aged not found: never sent again", takes(instantRail()),
			payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 4,
				Provisional: true, NotFound: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
		{"taken on a keyed rail that calls back: never sent again", calledBack(keyedRail()),
			payment.UnknownOutcome{SinceFirstSend: time.Second, SinceLastSend: time.Second, Sends: 1, Provisional: true},
			payment.Recovery{Action: payment.RecoveryWait, Delay: time.Hour - time.Second}},
		{"taken: the callback is not overdue", callbackRail(),
			payment.UnknownOutcome{SinceLastSend: time.Hour - 1, Sends: 1, Provisional: true},
			payment.Recovery{Action: payment.RecoveryWait, Delay: 1}},
		{"taken: the callback is overdue", callbackRail(),
			payment.UnknownOutcome{SinceLastSend: time.Hour, Sends: 1, Provisional: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "CALLBACK_OVERDUE"}},
		{"taken by a rail whose profile knows no end: a person", cardRail(),
			payment.UnknownOutcome{SinceLastSend: time.Second, Sends: 1, Provisional: true},
			payment.Recovery{Action: payment.RecoveryPark, Code: "INQUIRIES_EXHAUSTED"}},
	} {
		if got := test.policy.Recover(test.doubt); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, test.want)
		}
	}
}

func takes(p payment.Policy) payment.Policy {
	p.Acceptance = payment.AcceptanceProvisional
	return p
}

func calledBack(p payment.Policy) payment.Policy {
	p = takes(p)
	p.CallbackDeadline = span(time.Hour)
	return p
}

// The zero policy is what a rail without a profile would get.
func TestZeroPolicyParksEveryDoubt(t *testing.T) {
	for _, d := range []payment.UnknownOutcome{{}, {Sends: 1, NotFound: true, SinceLastSend: time.Hour},
		{Provisional: true}, {SinceFirstSend: -time.Hour}} {
		if got := (payment.Policy{}).Recover(d); got.Action != payment.RecoveryPark || got.NotExecuted {
			t.Errorf("%+v: %+v", d, got)
		}
	}
}

// Validate refuses such a profile; the rule does not lean on it.
func TestNotFoundWithoutAnAgeProvesNothing(t *testing.T) {
	p := instantRail()
	p.Inquiry.NotFoundAge = 0
	d := payment.UnknownOutcome{SinceFirstSend: time.Hour, SinceLastSend: time.Hour, Sends: 1, Inquiries: 1,
		NotFound: true}
	if got := p.Recover(d); got.Action != payment.RecoveryInquire || got.NotExecuted {
		t.Errorf("%+v", got)
	}
}

func TestTheRailsOfTheTestsAreSound(t *testing.T) {
	for _, p := range []payment.Policy{cardRail(), keyedRail(), againRail(), instantRail(), wireRail(), batchRail(),
		eitherRail(), callbackRail()} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}
