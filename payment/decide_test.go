package payment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// verdictOf formats a decision in the words of the table.
func verdictOf(c payment.Claim, d payment.Decision) verdict {
	v := verdict{
		state: d.State, code: d.ErrorCode, park: d.Park, reason: d.Reason,
		unknown: d.OutcomeUnknown, provisional: d.Provisional,
		sent: d.CountsSend, asked: d.InquiryCount == c.InquiryCount+1,
	}
	if d.Requeue {
		v.next = d.NextAction
	}
	return v
}

// Every cell of the truth table, against the sentences of the design.
func TestDecideByTheWholeTable(t *testing.T) {
	var wrong []string
	count := 0
	for s := range situations {
		count++
		p, c := s.policy(), s.claim()
		d := p.Decide(c, payment.Answer{Result: s.word, SeenBefore: s.seen && !s.asking(), OthersPass: s.worn,
			Elapsed: tableElapsed})
		if got, want := verdictOf(c, d), s.expected(); got != want {
			wrong = append(wrong, fmt.Sprintf("%+v\n   got %+v\n  want %+v", s, got, want))
		}
		counted := 0
		if d.CountsSend {
			counted = 1
		}
		if d.SendCount != c.SendCount+counted {
			wrong = append(wrong, fmt.Sprintf("%+v: %d sends become %d", s, c.SendCount, d.SendCount))
		}
		d = p.DecideLost(c, tableElapsed, 0)
		if got, want := verdictOf(c, d), s.lost(); got != want {
			wrong = append(wrong, fmt.Sprintf("%+v, worker lost\n   got %+v\n  want %+v", s, got, want))
		}
	}
	if count != 4_578_048 {
		t.Errorf("the table has %d cells", count)
	}
	if len(wrong) > 0 {
		t.Errorf("%d cells of %d are wrong:\n%s", len(wrong), count, strings.Join(wrong[:min(len(wrong), 10)], "\n"))
	}
}

// An answer that came late is not younger for it: the rail looked at the start
// of the inquiry, when the latest send was 9m55s old.
func TestNotFoundIsAsOldAsItsQuestion(t *testing.T) {
	p := instantRail()
	p.Inquiry.NotFoundAge = span(10 * time.Minute)
	c := payment.Claim{
		Action: payment.ActionInquire, ClaimedAt: noon, OutcomeUnknown: true, SendCount: 1,
		FirstSentAt: noon.Add(-9*time.Minute - 55*time.Second), LastSentAt: noon.Add(-9*time.Minute - 55*time.Second),
	}
	for _, test := range []struct {
		waited, elapsed time.Duration
		want            payment.State
	}{
		{0, time.Second, payment.Unknown},
		{0, 20 * time.Second, payment.Unknown},
		{5 * time.Second, 0, payment.Retryable},
		{5 * time.Second, 20 * time.Second, payment.Retryable},
	} {
		c.ClaimedAt = noon.Add(test.waited)
		d := p.Decide(c, payment.Answer{Result: payment.ResultNotFound, Elapsed: test.elapsed})
		if d.State != test.want || !d.OutcomeUnknown ||
			(d.NextAction == payment.ActionSend) != (test.want == payment.Retryable) {
			t.Errorf("asked at %s, answered %s later: %s, next %q, unknown %t, want %s, and unknown",
				test.waited, test.elapsed, d.State, d.NextAction, d.OutcomeUnknown, test.want)
		}
	}
}

// A late word of a send is no answer to an inquiry: "accepted" may be
// provisional, and "refused" may be of one send while another was executed.
func TestWordsOfSendProveNothingToAnInquiry(t *testing.T) {
	for _, p := range []payment.Policy{instantRail(), batchRail(), cardRail()} {
		c := payment.Claim{Action: payment.ActionInquire, ClaimedAt: noon, OutcomeUnknown: true, SendCount: 2,
			FirstSentAt: noon.Add(-time.Minute), LastSentAt: noon.Add(-time.Minute)}
		for _, word := range []payment.Result{payment.ResultAccepted, payment.ResultRefusedFinal,
			payment.ResultRefusedTransient} {
			if d := p.Decide(c, payment.Answer{Result: word}); d.State != payment.Unknown || !d.OutcomeUnknown {
				t.Errorf("%s: %s, unknown %v", word, d.State, d.OutcomeUnknown)
			}
		}
	}
}

// A send that never leaves has no ceiling, so its wait must be bounded both ways.
func TestWaitAfterNotSent(t *testing.T) {
	p := keyedRail()
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 2 * time.Second,
		4: 4 * time.Second, 100: 30 * time.Second, 1 << 40: 30 * time.Second} {
		d := p.Decide(payment.Claim{Action: payment.ActionSend, AttemptNo: attempt},
			payment.Answer{Result: payment.ResultNotSent})
		if d.Delay != want {
			t.Errorf("attempt %d: waits %s, want %s", attempt, d.Delay, want)
		}
	}
	d := p.Decide(payment.Claim{Action: payment.ActionSend, AttemptNo: 1},
		payment.Answer{Result: payment.ResultRefusedRail, RetryAfter: 24 * time.Hour})
	if d.Delay != 30*time.Second {
		t.Errorf("a rail that asks for a day gets %s", d.Delay)
	}
}

// A re-send that did not leave is put off only to a moment inside the window;
// its wait of a second ends here just inside, and just not.
func TestNotSentNearTheEndOfTheWindow(t *testing.T) {
	p := keyedRail()
	for _, word := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedRail, payment.ResultRefusedLater} {
		for left, want := range map[time.Duration]payment.State{time.Second + 1: payment.Retryable,
			time.Second: payment.Parked} {
			c := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ClaimedAt: noon, OutcomeUnknown: true, SendCount: 1,
				FirstSentAt: noon.Add(left - (24*time.Hour - 5*time.Minute))}
			if d := p.Decide(c, payment.Answer{Result: word}); d.State != want || !d.OutcomeUnknown {
				t.Errorf("%s with %s of the window left: %+v, want %s", word, left, d, want)
			}
		}
	}
}

// A rail that is busy gets what it asks for, from a second to five minutes.
func TestWaitWhileTheRailIsBusy(t *testing.T) {
	short := keyedRail()
	short.Retry.Base, short.Retry.Cap = span(time.Millisecond), span(time.Millisecond)
	for _, test := range []struct {
		policy     payment.Policy
		attempt    int
		retryAfter time.Duration
		want       time.Duration
	}{
		{keyedRail(), 1, 0, time.Second}, {keyedRail(), 3, 0, 2 * time.Second}, {keyedRail(), 3, time.Minute, time.Minute},
		{keyedRail(), 1 << 40, 0, time.Minute}, {keyedRail(), 1, 24 * time.Hour, 5 * time.Minute},
		{short, 1, 0, time.Second}, {short, 99, -time.Hour, time.Second}, {short, 1, 10 * time.Second, 10 * time.Second},
	} {
		for _, action := range []payment.Action{payment.ActionSend, payment.ActionInquire} {
			c := payment.Claim{Action: action, AttemptNo: test.attempt, ClaimedAt: noon, SendCount: 19}
			d := test.policy.Decide(c, payment.Answer{Result: payment.ResultRefusedLater, RetryAfter: test.retryAfter})
			if d.Delay != test.want || d.NextAction != action || d.SendCount != 19 || d.CountsSend ||
				d.ErrorCode != payment.CodeRailBusy {
				t.Errorf("attempt %d, asked for %s: %+v, want %s in %s", test.attempt, test.retryAfter, d, action, test.want)
			}
		}
	}
}

// A day of nothing but "busy" is enough, counted from the first such answer to the
// last; expires_at ends it otherwise, but for what is asked about.
func TestBusyForADay(t *testing.T) {
	for _, test := range []struct {
		name   string
		claim  payment.Claim
		state  payment.State
		code   string
		reason payment.DeadReason
	}{
		{"first", payment.Claim{Action: payment.ActionSend}, payment.Retryable, "RAIL_BUSY", ""},
		{"not yet a day", payment.Claim{Action: payment.ActionSend, BusySince: noon.Add(time.Second + 1 - payment.BusyMax)}, payment.Retryable, "RAIL_BUSY", ""},
		{"a day", payment.Claim{Action: payment.ActionSend, BusySince: noon.Add(time.Second - payment.BusyMax)}, payment.Failed, "RAIL_BUSY", payment.DeadFailed},
		{"a day, unknown", payment.Claim{Action: payment.ActionSend, BusySince: noon.Add(-payment.BusyMax), OutcomeUnknown: true, SendCount: 1, FirstSentAt: noon.Add(-time.Hour)},
			payment.Parked, "RAIL_BUSY", payment.DeadOutcomeUnknown},
		{"a day, asked about", payment.Claim{Action: payment.ActionInquire, BusySince: noon.Add(-payment.BusyMax), OutcomeUnknown: true, SendCount: 1},
			payment.Parked, "RAIL_BUSY", payment.DeadOutcomeUnknown},
		{"a day, a send may be forgotten", payment.Claim{Action: payment.ActionSend, BusySince: noon.Add(-payment.BusyMax), MaybeSent: true},
			payment.Parked, "RAIL_BUSY", payment.DeadOutcomeUnknown},
		{"a day, it expires", payment.Claim{Action: payment.ActionSend, BusySince: noon.Add(-payment.BusyMax), ExpiresAt: noon.Add(time.Minute)}, payment.Retryable, "RAIL_BUSY", ""},
		{"a day, it expires and is asked about", payment.Claim{Action: payment.ActionInquire, BusySince: noon.Add(-payment.BusyMax), OutcomeUnknown: true, ExpiresAt: noon.Add(time.Minute)},
			payment.Parked, "RAIL_BUSY", payment.DeadOutcomeUnknown},
	} {
		test.claim.ClaimedAt, test.claim.AttemptNo = noon, 9
		d := keyedRail().Decide(test.claim, payment.Answer{Result: payment.ResultRefusedLater, Elapsed: time.Second})
		if d.State != test.state || d.ErrorCode != test.code || d.Reason != test.reason || d.Requeue != (test.reason == "") {
			t.Errorf("%s: %+v, want %s %s %s", test.name, d, test.state, test.code, test.reason)
		}
	}
}

// Refusals end an instruction only while others pass: else the rail may refuse all.
func TestRefusalsOfOneInstruction(t *testing.T) {
	p := keyedRail()
	p.RailRefused = payment.RailRefusedPolicy{PerInstruction: 3}.WithDefaults()
	for _, test := range []struct {
		before int
		pass   bool
		want   payment.State
	}{{0, true, payment.Retryable}, {1, true, payment.Retryable}, {2, false, payment.Retryable},
		{99, false, payment.Retryable}, {2, true, payment.Failed}, {7, true, payment.Failed}} {
		c := payment.Claim{Action: payment.ActionSend, AttemptNo: 5, ClaimedAt: noon, RailRefusals: test.before}
		d := p.Decide(c, payment.Answer{Result: payment.ResultRefusedRail, OthersPass: test.pass})
		if d.State != test.want || (d.ErrorCode == payment.CodeRailRefusedOne) != (test.want == payment.Failed) ||
			d.CountsSend {
			t.Errorf("refusal %d, others pass: %v: %+v, want %s", test.before+1, test.pass, d, test.want)
		}
	}
}

// A refusal of our route proves nothing of a send, once a byte has left, unless the
// profile knows better.
func TestProven(t *testing.T) {
	never, vouched, keyed := cardRail(), cardRail(), keyedRail()
	vouched.RefusesBeforeProcessing = true
	byAnswer := keyedRail()
	byAnswer.Acceptance = payment.AcceptanceByAnswer
	for _, test := range []struct {
		policy    payment.Policy
		action    payment.Action
		result    payment.Result
		firstByte bool
		want      payment.Result
	}{
		{never, payment.ActionSend, payment.ResultRefusedRail, true, payment.ResultUnknown},
		{payment.Policy{}, payment.ActionSend, payment.ResultRefusedRail, true, payment.ResultUnknown},
		{never, payment.ActionSend, payment.ResultRefusedRail, false, payment.ResultRefusedRail},
		{never, payment.ActionInquire, payment.ResultRefusedRail, true, payment.ResultRefusedRail},
		{vouched, payment.ActionSend, payment.ResultRefusedRail, true, payment.ResultRefusedRail},
		{keyed, payment.ActionSend, payment.ResultRefusedRail, true, payment.ResultUnknown},
		{never, payment.ActionSend, payment.ResultRefusedLater, true, payment.ResultRefusedLater},
		{never, payment.ActionSend, payment.ResultAccepted, true, payment.ResultAccepted},
		{byAnswer, payment.ActionSend, payment.ResultExecuted, true, payment.ResultExecuted},
		{byAnswer, payment.ActionInquire, payment.ResultExecuted, true, payment.ResultExecuted},
	} {
		if got := test.policy.Proven(payment.Claim{Action: test.action}, test.result, test.firstByte); got != test.want {
			t.Errorf("%s of a %s with %s, first byte %v: %s, want %s", test.result, test.action, test.policy.ResendOnUnknown,
				test.firstByte, got, test.want)
		}
	}
}

// TestStoredAnswerOfAProvisionalRail: what a rail that says "executed" by its answers stored of a send that
// it had taken for now was "taken", and ends nothing.
func TestStoredAnswerOfAProvisionalRail(t *testing.T) {
	p := keyedRail()
	p.Acceptance, p.CallbackDeadline = payment.AcceptanceByAnswer, payment.Duration(time.Hour)
	for acceptance, want := range map[payment.Acceptance]payment.State{
		payment.AcceptanceProvisional: payment.Accepted, payment.AcceptanceByAnswer: payment.Dispatched,
		payment.AcceptanceFinal: payment.Dispatched,
	} {
		c := payment.Claim{
			Action: payment.ActionSend, AttemptNo: 3, ClaimedAt: noon, FirstSentAt: noon.Add(-time.Minute),
			LastSentAt:     noon.Add(-time.Minute),
			OutcomeUnknown: true, SendCount: 1,
			SentUnder: []payment.KeyRules{{Acceptance: acceptance, ResendOnUnknown: payment.ResendSameKey,
				KeyWindow: p.KeyWindow}},
		}
		if d := p.Decide(c, payment.Answer{Result: p.Proven(c, payment.ResultExecuted, true),
			Elapsed: time.Second}); d.State != want {
			t.Errorf("sent under %s: %s, want %s", acceptance, d.State, want)
		}
		if d := p.Decide(c, payment.Answer{Result: payment.ResultExecuted,
			Elapsed: time.Second}); (d.State == payment.Dispatched) != (want == payment.Dispatched) {
			t.Errorf("sent under %s, by the bare word: %s", acceptance, d.State)
		}
	}
}

// The waits of a refusal for now: the schedule, or the rail's wish if longer, up
// to five minutes.
func TestWaitAfterRefusalForNow(t *testing.T) {
	p := againRail()
	for _, test := range []struct {
		sends      int
		retryAfter time.Duration
		want       time.Duration
	}{
		{0, 0, time.Second}, {1, 0, 2 * time.Second},
		{0, time.Minute, time.Minute}, {0, time.Millisecond, time.Second}, {0, -time.Hour, time.Second},
		{0, 48 * time.Hour, 5 * time.Minute},
	} {
		d := p.Decide(payment.Claim{Action: payment.ActionSend, SendCount: test.sends},
			payment.Answer{Result: payment.ResultRefusedTransient, RetryAfter: test.retryAfter})
		if d.Delay != test.want || d.NextAction != payment.ActionSend {
			t.Errorf("after send %d, asked for %s: %s in %s, want %s", test.sends+1, test.retryAfter, d.NextAction, d.Delay,
				test.want)
		}
	}
}

func TestMaySend(t *testing.T) {
	sent := func(ago time.Duration) payment.Claim {
		return payment.Claim{Action: payment.ActionSend, ClaimedAt: noon, FirstSentAt: noon.Add(-ago), SendCount: 1}
	}
	unknown := func(c payment.Claim) payment.Claim { c.OutcomeUnknown = true; return c }
	replayed := func(c payment.Claim) payment.Claim { c.Replayed = true; return c }
	doubted := func(c payment.Claim) payment.Claim { c.Doubted = true; return c }
	once := func(c payment.Claim) payment.Claim { c.SendOnce = true; return c }
	expires := func(in time.Duration, c payment.Claim) payment.Claim { c.ExpiresAt = noon.Add(in); return c }
	provisional := func(c payment.Claim) payment.Claim { c.Provisional = true; return c }
	keyed, card := keyedRail(), cardRail()
	for _, test := range []struct {
		name   string
		policy payment.Policy
		claim  payment.Claim
		want   bool
	}{
		{"first send", card, payment.Claim{Action: payment.ActionSend}, true},
		{"refused before, rail without keys", card, sent(48 * time.Hour), true},
		{"refused before, window long closed", keyed, sent(48 * time.Hour), true},
		{"unknown, inside the window", keyed, unknown(sent(time.Hour)), true},
		{"unknown, outside", keyed, unknown(sent(24 * time.Hour)), false},
		{"unknown, rail without keys", card, unknown(sent(time.Second)), false},
		{"unknown, not known since when", keyed, unknown(payment.Claim{Action: payment.ActionSend, ClaimedAt: noon}), false},
		{"unknown, about to expire", keyed, expires(time.Second+1, unknown(sent(time.Hour))), true},
		{"unknown, expired", keyed, expires(time.Second, unknown(sent(time.Hour))), false},
		{"refused before, expired: the last look stops it", keyed, expires(0, sent(time.Hour)), true},
		{"unknown and replayed, rail without keys", card, replayed(unknown(sent(48 * time.Hour))), true},
		{"unknown and replayed, rail without keys, a restore may have forgotten a send", card, doubted(replayed(unknown(sent(time.Second)))), false},
		{"unknown and replayed, expired", card, expires(time.Second, replayed(unknown(sent(time.Hour)))), false},
		{"unknown and replayed, inside the window", keyed, replayed(unknown(sent(time.Hour))), true},
		{"unknown and replayed, outside", keyed, replayed(unknown(sent(24 * time.Hour))), false},
		{"taken and replayed", card, provisional(replayed(unknown(sent(time.Second)))), false},
		{"taken", keyed, provisional(sent(time.Second)), false},
		{"once, first send", keyed, once(payment.Claim{Action: payment.ActionSend, ClaimedAt: noon}), true},
		{"once, sent and unknown", keyed, once(unknown(sent(time.Second))), false},
		{"once, sent and refused for now", keyed, once(sent(time.Second)), false},
		{"once, sent and not counted", keyed, once(unknown(payment.Claim{Action: payment.ActionSend, ClaimedAt: noon, FirstSentAt: noon.Add(-time.Second)})), false},
		{"once, replayed", keyed, once(replayed(unknown(sent(time.Second)))), true},
		{"taken and unknown", keyed, provisional(unknown(sent(time.Second))), false},
	} {
		if got := test.policy.MaySend(test.claim, time.Second); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// A rail's promises hold for the sends that follow them: of the profiles that an instruction
// was sent under the strictest decides.
func TestSentUnder(t *testing.T) {
	p := keyedRail()
	p.AnswerCoversKey, p.KeyWindow, p.Inquiry.Max, p.Retry.MaxSends = true, payment.Duration(time.Hour), 0, 9
	p.IDAfterRefusal = payment.IDNew
	same := payment.KeyRules{ResendOnUnknown: payment.ResendSameKey, KeyWindow: p.KeyWindow, AnswerCoversKey: true,
		Acceptance: payment.AcceptanceFinal}
	never, shorter, ofEach, forNow, byAnswer := same, same, same, same, same
	forNow.Acceptance, byAnswer.Acceptance = payment.AcceptanceProvisional, payment.AcceptanceByAnswer
	never.ResendOnUnknown, shorter.KeyWindow, ofEach.AnswerCoversKey = payment.ResendNever,
		payment.Duration(time.Minute), false
	for name, test := range map[string]struct {
		under                 []payment.KeyRules
		resent, refuse, final bool
	}{
		"one profile":                 {nil, true, true, true},
		"the same rules":              {[]payment.KeyRules{same}, true, true, true},
		"no keys once":                {[]payment.KeyRules{same, never}, false, true, true},
		"a shorter window once":       {[]payment.KeyRules{shorter, same}, false, true, true},
		"an outcome of each send":     {[]payment.KeyRules{ofEach}, true, false, true},
		"taken for now once":          {[]payment.KeyRules{same, forNow}, true, true, false},
		"for now by its answer once":  {[]payment.KeyRules{byAnswer}, true, true, false},
		"what could not be read":      {[]payment.KeyRules{{}}, false, false, false},
		"the strictest of what holds": {[]payment.KeyRules{never, ofEach}, false, false, true},
	} {
		c := payment.Claim{
			Action: payment.ActionSend, AttemptNo: 5, ClaimedAt: noon, FirstSentAt: noon.Add(-10 * time.Minute),
			LastSentAt:     noon.Add(-5 * time.Minute),
			OutcomeUnknown: true, SendCount: 2, SentUnder: test.under,
		}
		if got := p.MaySend(c, 0); got != test.resent {
			t.Errorf("%s: may be sent %v, want %v", name, got, test.resent)
		}
		if d := p.Decide(c, payment.Answer{Result: payment.ResultUnknown}); (d.Requeue &&
			d.NextAction == payment.ActionSend) != test.resent {
			t.Errorf("%s: after silence %+v, want it sent again: %v", name, d, test.resent)
		}
		if d := p.Decide(c, payment.Answer{Result: payment.ResultRefusedFinal}); (d.State == payment.Failed) != test.refuse {
			t.Errorf("%s: after a refusal %s, want FAILED: %v", name, d.State, test.refuse)
		}
		if d := p.Decide(c, payment.Answer{Result: payment.ResultAccepted}); (d.State == payment.Dispatched) != test.final {
			t.Errorf("%s: accepted %s, want DISPATCHED: %v", name, d.State, test.final)
		}
		c.Action = payment.ActionInquire
		if d := p.Decide(c, payment.Answer{Result: payment.ResultRefused}); (d.State == payment.Failed) != test.refuse {
			t.Errorf("%s: after an inquiry %s, want FAILED: %v", name, d.State, test.refuse)
		}
	}
}

// TestPutOffKnowsTheLongestWindow: whether a re-send that did not leave may still be made is
// weighed as the next claim will: how long the rail may know a key is the profile's in force to say
// too.
func TestPutOffKnowsTheLongestWindow(t *testing.T) {
	p := keyedRail()
	p.KeyWindow = payment.Duration(time.Hour)
	c := payment.Claim{
		Action: payment.ActionSend, AttemptNo: 3, ClaimedAt: noon, FirstSentAt: noon.Add(-10 * time.Second),
		LastSentAt: noon.Add(-10 * time.Second),
		SendCount:  1, OutcomeUnknown: true, SentUnder: []payment.KeyRules{{ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(time.Minute), Acceptance: payment.AcceptanceFinal}},
		MaybeSent: true, ForgottenSince: noon.Add(-50 * time.Minute),
		Gaps: []payment.Gap{{Since: noon.Add(-50 * time.Minute), Until: noon.Add(-20 * time.Minute)}},
	}
	if p.MaySend(c, 0) {
		t.Fatal("the claim may be sent")
	}
	if d := p.Decide(c, payment.Answer{Result: payment.ResultNotSent}); d.State != payment.Parked ||
		d.ErrorCode != payment.CodeWindowClosed {
		t.Errorf("goes on as %+v", d)
	}
	c.Gaps = nil
	if d := p.Decide(c, payment.Answer{Result: payment.ResultNotSent}); !d.Requeue {
		t.Errorf("without a gap it goes on as %+v", d)
	}
}

// TestNothingLeftAfterARestore: what fails a check, or its rendering, is not sent. It is no proof that a send
// that a restore may have forgotten was not executed.
func TestNothingLeftAfterARestore(t *testing.T) {
	for result, code := range map[payment.Result]string{
		payment.ResultCheckFailed: payment.CodeCheckFailed, payment.ResultRenderChanged: payment.CodeRenderChanged,
	} {
		for _, forgotten := range []bool{false, true} {
			want := payment.Failed
			if forgotten {
				want = payment.Parked
			}
			claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 3, ClaimedAt: noon, FirstSentAt: noon,
				LastSentAt: noon, SendCount: 1, MaybeSent: forgotten}
			d := instantRail().Decide(claim, payment.Answer{Result: result})
			if d.State != want || d.ErrorCode != code || d.OutcomeUnknown != forgotten {
				t.Errorf("%s, forgotten %t: %+v", result, forgotten, d)
			}
		}
	}
}

// TestBusinessWaitOfADoubtedPayment: after a refusal of business the next send of a payment in doubt waits as long as
// the profile says, also if the rail is asked in between, whose "not found" allows that send at once.
func TestBusinessWaitOfADoubtedPayment(t *testing.T) {
	t.Parallel()
	p := payment.Policy{
		Acceptance: payment.AcceptanceFinal, IDAfterRefusal: payment.IDSame, ResendOnUnknown: payment.ResendSameKey,
		KeyWindow:     payment.Duration(24 * time.Hour),
		BusinessRetry: payment.BusinessRetry{Max: 4, Wait: payment.Duration(time.Hour)},
		Inquiry: payment.InquiryPolicy{
			NotBefore: payment.Duration(5 * time.Second), Max: 20, NotFound: payment.NotFoundNotExecuted,
			NotFoundAge: payment.Duration(time.Minute), NotFoundUntil: payment.Duration(24 * time.Hour),
		},
	}.WithDefaults()
	now := time.Now()
	got := p.Decide(payment.Claim{
		Action: payment.ActionSend, OutcomeUnknown: true, SendCount: 1, AttemptNo: 5, ClaimedAt: now,
		FirstSentAt: now.Add(-5 * time.Minute), LastSentAt: now.Add(-5 * time.Minute),
	}, payment.Answer{Result: payment.ResultRefusedBusiness})
	if got.NextAction != payment.ActionInquire || got.Delay < time.Hour || got.AsAsked {
		t.Errorf("%+v, want an inquiry after an hour", got)
	}
}
