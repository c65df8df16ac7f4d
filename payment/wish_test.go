package payment_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

// wishCap is the longest wait that an answer may ask for.
const wishCap = 5 * time.Minute

// An answer that asks for a wait changes the wait alone: nothing is parked for it, nothing is sent that would not have
// been, and no wait is longer than five minutes because of it.
func TestWishChangesTheWaitAlone(t *testing.T) {
	heeded := 0
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		if rapid.Bool().Draw(t, "it expires") {
			c.ExpiresAt = noon.Add(anySpan().Draw(t, "expires"))
		}
		got := p.Decide(c, a)
		a.RetryAfter = 0
		own := p.Decide(c, a)
		if own.AsAsked || got.AsAsked != (got.Delay > own.Delay) || got.Delay < own.Delay {
			t.Fatalf("waits %s, by itself %s, as asked: %v", got.Delay, own.Delay, got.AsAsked)
		}
		if got.AsAsked {
			heeded++
		}
		most := wishCap
		if a.Result == payment.ResultNotSent || a.Result == payment.ResultRefusedRail {
			most = 30 * time.Second
		}
		if got.AsAsked && got.Delay > most {
			t.Fatalf("waits %s, by itself %s", got.Delay, own.Delay)
		}
		got.Delay, got.AsAsked = own.Delay, false
		if got != own {
			t.Fatalf("asked for a wait: %+v, else %+v", got, own)
		}
	})
	if heeded == 0 {
		t.Error("no wish was heeded")
	}
}

// A rail, or a gateway in front of it, that asks for a day with each answer does not take a step that the profile has.
func TestWishOfADay(t *testing.T) {
	const day = 24 * time.Hour
	sent := payment.Claim{Action: payment.ActionSend, ClaimedAt: noon}
	asking := func(ago time.Duration, provisional bool) payment.Claim {
		return payment.Claim{Action: payment.ActionInquire, ClaimedAt: noon, OutcomeUnknown: true, SendCount: 1,
			Provisional: provisional, FirstSentAt: noon.Add(-ago), LastSentAt: noon.Add(-ago)}
	}
	expiring := func(in time.Duration, c payment.Claim) payment.Claim { c.ExpiresAt = noon.Add(in); return c }
	hour, both := keyedRail(), instantRail()
	hour.KeyWindow = span(time.Hour)
	both.CallbackDeadline, both.Acceptance = span(time.Hour), payment.AcceptanceProvisional
	short := instantRail()
	short.Inquiry.NotFoundUntil = span(10 * time.Minute)
	business := againRail()
	business.BusinessRetry = payment.BusinessRetry{Max: 2, Wait: span(time.Hour)}
	seen := asking(9*time.Minute, false)
	seen.SeenBefore = true
	refusedOnce := payment.Claim{Action: payment.ActionSend, ClaimedAt: noon, SendCount: 1}
	for _, test := range []struct {
		name   string
		policy payment.Policy
		claim  payment.Claim
		result payment.Result
		next   payment.Action
		wait   time.Duration
	}{
		{"silence, an hour of keys", hour, sent, payment.ResultUnknown, payment.ActionSend, wishCap},
		{"silence, and it expires in 11 s: 1 s and 2 s are its own", hour, expiring(11*time.Second, sent),
			payment.ResultUnknown, payment.ActionSend, 5 * time.Second},
		{"silence on a rail that is asked", instantRail(), sent, payment.ResultUnknown, payment.ActionInquire, wishCap},
		{"asked, two minutes before its look-up ends", short, asking(8*time.Minute, false), payment.ResultUnavailable,
			payment.ActionInquire, 90 * time.Second},
		{"asked, the rail knew the key: no proof to be in time for", short, seen, payment.ResultUnavailable,
			payment.ActionInquire, wishCap},
		{"asked, the window closes 8 s after the minute of its own", instantRail(), asking(day-5*time.Minute-68*time.Second,
			false), payment.ResultUnavailable, payment.ActionInquire, 62500 * time.Millisecond},
		{"busy when asked, two minutes before its look-up ends", short, asking(8*time.Minute, false),
			payment.ResultRefusedLater, payment.ActionInquire, time.Second + 59500*time.Millisecond},
		{"not found", instantRail(), asking(time.Hour, false), payment.ResultNotFound, payment.ActionSend, wishCap},
		{"accepted, waits for the callback alone", callbackRail(), sent, payment.ResultAccepted, payment.ActionInquire,
			time.Hour},
		{"accepted, asked too", both, sent, payment.ResultAccepted, payment.ActionInquire, wishCap},
		{"accepted, two minutes before the callback is overdue", both, asking(58*time.Minute, true),
			payment.ResultUnavailable, payment.ActionInquire, 90 * time.Second},
		{"refused for now, and it expires in 13 s: 1 s and 2 s are its own", againRail(), expiring(13*time.Second, sent),
			payment.ResultRefusedTransient, payment.ActionSend, 6 * time.Second},
		{"refused for funds: the profile's hour", business, sent, payment.ResultRefusedBusiness, payment.ActionSend,
			time.Hour},
		{"busy, and it expires in 11 s", keyedRail(), expiring(11*time.Second, sent), payment.ResultRefusedLater,
			payment.ActionSend, 6 * time.Second},
		{"not sent", keyedRail(), refusedOnce, payment.ResultNotSent, payment.ActionSend, 30 * time.Second},
	} {
		d := test.policy.Decide(test.claim, payment.Answer{Result: test.result, RetryAfter: day})
		if !d.Requeue || d.NextAction != test.next || d.Delay != test.wait {
			t.Errorf("%s: %+v, want %s in %s", test.name, d, test.next, test.wait)
		}
	}
}

// Each send that retry.max_sends permits is made inside the key window, whatever each answer asks for.
func TestWishLeavesRoomForEverySend(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p := keyedRail()
		p.Retry.MaxSends = rapid.IntRange(2, 6).Draw(t, "sends")
		p.Retry.Base = span(time.Duration(rapid.IntRange(1, 20).Draw(t, "base")) * time.Second)
		p.KeyWindow = span(p.Retry.Horizon() + time.Duration(rapid.IntRange(60, 3600).Draw(t, "window"))*time.Second)
		if p.Validate() != nil {
			return
		}
		c := payment.Claim{Action: payment.ActionSend, ClaimedAt: noon}
		for sends := 1; sends < p.Retry.MaxSends; sends++ {
			d := p.Decide(c, payment.Answer{Result: payment.ResultUnknown, RetryAfter: anySpan().Draw(t, "retry after"),
				Spread: 1})
			if !d.Requeue {
				t.Fatalf("after send %d of %d: %+v", sends, p.Retry.MaxSends, d)
			}
			c.FirstSentAt, c.OutcomeUnknown, c.SendCount = noon, true, d.SendCount
			c.ClaimedAt = c.ClaimedAt.Add(d.Delay)
			c.LastSentAt = c.ClaimedAt
			if !p.MaySend(c, 0) {
				t.Fatalf("send %d of %d may not be made", sends+1, p.Retry.MaxSends)
			}
		}
	})
}

// TestSayAsked: a wait that is shorter than the rail asked for says what it asked for.
func TestSayAsked(t *testing.T) {
	t.Parallel()
	for want, said := range map[string]string{
		"the next step waits as the rail asked, 1m0s; ":                                payment.SayAsked(time.Minute, time.Minute),
		"the next step waits as the rail asked, 10s of the 1h0m0s that it asked for; ": payment.SayAsked(10*time.Second, time.Hour),
	} {
		if said != want || !payment.WasAsked(said) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
