package payment_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

// anyPolicy is any policy, valid or not: the rules must be safe without Validate.
func anyPolicy() *rapid.Generator[payment.Policy] {
	return rapid.Custom(func(t *rapid.T) payment.Policy {
		p := payment.Policy{
			Acceptance: rapid.SampledFrom([]payment.Acceptance{"FINAL", "PROVISIONAL", "BY_ANSWER", ""}).Draw(t,
				"acceptance"),
			AnswerCoversKey:  rapid.Bool().Draw(t, "answer covers key"),
			IDAfterRefusal:   rapid.SampledFrom([]payment.IDAfterRefusal{"SAME", "NEW", ""}).Draw(t, "id after refusal"),
			ResendOnUnknown:  rapid.SampledFrom([]payment.Resend{"SAME_KEY", "NEVER", ""}).Draw(t, "re-send"),
			KeyWindow:        span(anySpan().Draw(t, "window")),
			CallbackDeadline: span(anySpan().Draw(t, "callback")),
			Inquiry: payment.InquiryPolicy{
				Max: rapid.IntRange(0, 4).Draw(t, "inquiries"), NotBefore: span(anySpan().Draw(t, "not before")),
				NotFound:    rapid.SampledFrom([]payment.NotFound{"NOT_EXECUTED", "INCONCLUSIVE", ""}).Draw(t, "not found"),
				NotFoundAge: span(anySpan().Draw(t, "not found age")), NotFoundUntil: span(anySpan().Draw(t, "not found until")),
			},
			RailRefused: payment.RailRefusedPolicy{PerInstruction: rapid.IntRange(0, 5).Draw(t, "refusals")},
			Retry: payment.RetryPolicy{
				MaxSends: rapid.IntRange(0, 4).Draw(t, "sends"), Base: span(anySpan().Draw(t, "base")),
				Shape: rapid.SampledFrom([]payment.Shape{"EXPONENTIAL", "LINEAR", "CONSTANT"}).Draw(t, "shape"),
			},
			BusinessRetry: payment.BusinessRetry{Max: rapid.IntRange(0, 4).Draw(t, "business sends"),
				Wait: span(anySpan().Draw(t, "business wait"))},
		}
		if rapid.Bool().Draw(t, "with defaults") {
			p = p.WithDefaults()
		}
		return p
	})
}

// anySpan prefers spans that meet each other's edges.
func anySpan() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 54 * time.Minute, 55 * time.Minute, time.Hour,
			24 * time.Hour}),
		rapid.Map(rapid.Int64Range(0, int64(48*time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
	)
}

// anyClaim is any claim, also those that no lifecycle leads to.
func anyClaim() *rapid.Generator[payment.Claim] {
	return rapid.Custom(func(t *rapid.T) payment.Claim {
		c := payment.Claim{
			Action:         rapid.SampledFrom([]payment.Action{payment.ActionSend, payment.ActionInquire}).Draw(t, "action"),
			AttemptNo:      rapid.IntRange(1, 1000).Draw(t, "attempt"),
			ClaimedAt:      noon,
			OutcomeUnknown: rapid.Bool().Draw(t, "unknown"),
			Provisional:    rapid.Bool().Draw(t, "provisional"),
			SendCount:      rapid.IntRange(0, 5).Draw(t, "sends before"),
			InquiryCount:   rapid.IntRange(0, 5).Draw(t, "inquiries before"),
			MaybeSent:      rapid.Bool().Draw(t, "may have been sent before a restore"),
			SeenBefore:     rapid.Bool().Draw(t, "the rail knew the key"),
			SendOnce:       rapid.IntRange(0, 3).Draw(t, "once in one of four") == 0,
		}
		c.RailRefusals = rapid.IntRange(0, 6).Draw(t, "refusals of the rail before")
		if rapid.Bool().Draw(t, "the rail was busy before") {
			c.BusySince = noon.Add(-anySpan().Draw(t, "busy since"))
		}
		if c.MaybeSent {
			c.ForgottenSince = noon.Add(time.Minute - anySpan().Draw(t, "forgotten since"))
			c.Gaps = []payment.Gap{{Since: c.ForgottenSince, Until: c.ForgottenSince.Add(anySpan().Draw(t, "noticed after"))}}
			if rapid.Bool().Draw(t, "a restore before that") {
				until := c.ForgottenSince.Add(-anySpan().Draw(t, "the one before"))
				c.ForgottenSince = until.Add(-anySpan().Draw(t, "known before that"))
				c.Gaps = append(c.Gaps, payment.Gap{Since: c.ForgottenSince, Until: until})
			}
		}
		c.Doubted = c.MaybeSent && rapid.Bool().Draw(t, "no operator has compared")
		if rapid.Bool().Draw(t, "first send known") {
			c.FirstSentAt = noon.Add(time.Minute - anySpan().Draw(t, "first send ago"))
		}
		if rapid.Bool().Draw(t, "latest send known") {
			c.LastSentAt = noon.Add(time.Minute - anySpan().Draw(t, "latest send ago"))
		}
		return c
	})
}

func anyAnswer() *rapid.Generator[payment.Answer] {
	return rapid.Custom(func(t *rapid.T) payment.Answer {
		return payment.Answer{
			Result:     rapid.SampledFrom(everyWord()).Draw(t, "word"),
			SeenBefore: rapid.Bool().Draw(t, "the rail knows the key"),
			OthersPass: rapid.Bool().Draw(t, "others pass"),
			Elapsed:    rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, time.Hour}).Draw(t, "elapsed"),
			RetryAfter: anySpan().Draw(t, "retry after"),
			Spread:     rapid.Float64Range(-1, 1).Draw(t, "spread"),
		}
	})
}

// decided is one decision with all that led to it.
type decided struct {
	policy payment.Policy
	claim  payment.Claim
	answer payment.Answer
	lost   bool
	payment.Decision
}

// forAnyDecision checks what holds for every decision, the reaper's included. A
// draw is cheap and the space is wide, so it runs more of them than rapid does
// by itself.
func forAnyDecision(t *testing.T, check func(*rapid.T, decided)) {
	checkOften(t, func(t *rapid.T) { check(t, anyDecision(t)) })
}

func checkOften(t *testing.T, check func(*rapid.T)) {
	for range 30 {
		rapid.Check(t, check)
	}
}

func anyDecision(t *rapid.T) decided {
	d := decided{policy: anyPolicy().Draw(t, "policy"), claim: anyClaim().Draw(t, "claim"),
		answer: anyAnswer().Draw(t, "answer")}
	if d.lost = rapid.IntRange(0, 4).Draw(t, "lost in one of five") == 0; d.lost {
		d.answer.Result, d.answer.RetryAfter = payment.ResultUnknown, 0
		d.Decision = d.policy.DecideLost(d.claim, d.answer.Elapsed, d.answer.Spread)
	} else {
		d.Decision = d.policy.Decide(d.claim, d.answer)
	}
	t.Logf("decision %+v", d.Decision)
	return d
}

// keeps reports whether the rail keeps one outcome of the key, also of a send that was
// forgotten: inside its key window alone.
func (d decided) keeps() bool { return keeps(d.policy, d.claim, d.answer) }

func keeps(p payment.Policy, c payment.Claim, a payment.Answer) bool {
	return p.AnswerCoversKey && (!c.MaybeSent || p.MayResend(noon.Sub(c.ForgottenSince)+a.Elapsed))
}

func (d decided) resends() bool { return d.Requeue && d.NextAction == payment.ActionSend }

func TestFailedIsNeverWrittenOverAnUnknown(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if d.State == payment.Failed && (d.OutcomeUnknown || d.Provisional) {
			t.Fatal("FAILED while some send is unknown")
		}
		if d.Reason == payment.DeadFailed && d.State != payment.Failed {
			t.Fatal("a dead letter calls failed what is not")
		}
	})
}

func TestUnknownIsNeverResentWithoutAKey(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if d.resends() && d.OutcomeUnknown && d.policy.ResendOnUnknown != payment.ResendSameKey {
			t.Fatal("an unknown outcome is sent again on a rail that does not de-duplicate")
		}
	})
}

func TestProvisionalIsNeverResent(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if d.resends() && (d.Provisional || d.claim.Provisional) {
			t.Fatal("what the rail took is sent again")
		}
	})
}

// The age is computed here anew: from the first send, over the claim, to when
// the re-send is due.
func TestUnknownIsNeverResentOutsideTheWindow(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if !d.resends() || !d.OutcomeUnknown {
			return
		}
		age := d.answer.Elapsed + d.Delay
		if !d.claim.FirstSentAt.IsZero() {
			if d.claim.FirstSentAt.After(d.claim.ClaimedAt) {
				t.Fatal("sent again after a first send that is in the future")
			}
			age += d.claim.ClaimedAt.Sub(d.claim.FirstSentAt)
		} else if d.claim.SendCount > 0 || d.claim.OutcomeUnknown || d.claim.Action == payment.ActionInquire {
			t.Fatal("sent again after a first send of unknown age")
		}
		window := time.Duration(d.policy.KeyWindow)
		if usable := window - min(window/10, 5*time.Minute); age >= usable {
			t.Fatalf("sent again %s after the first send, %s of the window are usable", age, usable)
		}
		// A rail that knows a key for its window executes what comes after that. What the first send
		// that is known did not execute, the re-send does not either, whichever were forgotten.
		again := noon.Add(d.answer.Elapsed + d.Delay)
		first := again.Add(-age)
		for _, forgotten := range histories(d.claim.Gaps, first, window) {
			if !executes(append(forgotten, first), window) && executes(append(forgotten, first, again), window) {
				t.Fatalf("sent again at %s, first at %s: after the sends %s that are forgotten it is executed then, and was not "+
					"at first", again, first, forgotten)
			}
		}
		if (d.SendCount >= d.policy.Retry.MaxSends || d.claim.SendOnce) && d.CountsSend {
			t.Fatal("sent again at the ceiling")
		}
	})
}

// TestSentOnce: what its caller wants sent once is not sent again by itself after a send that may
// have reached the rail, and is still asked about.
func TestSentOnce(t *testing.T) {
	asked := false
	forAnyDecision(t, func(t *rapid.T, d decided) {
		asked = asked || d.claim.SendOnce && d.CountsSend && d.Requeue
		if d.claim.SendOnce && d.resends() && d.SendCount > 0 &&
			(d.CountsSend || d.claim.Action == payment.ActionInquire && d.ErrorCode == payment.CodeNotFound) {
			t.Fatal("sent again after a send that may have reached the rail")
		}
	})
	if !asked {
		t.Error("none was asked about")
	}
	// Those that few draws reach: a rail that may be sent to again with the same key.
	first := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, SendOnce: true, ClaimedAt: noon}
	silent := payment.Answer{Result: payment.ResultUnknown, Elapsed: time.Second}
	if got := keyedRail().Decide(first, silent); !got.Park || got.ErrorCode != payment.CodeRetriesExhausted {
		t.Errorf("silence after the one send: %+v", got)
	}
	inquired := payment.Claim{
		Action: payment.ActionInquire, AttemptNo: 3, SendOnce: true, OutcomeUnknown: true, SendCount: 1,
		ClaimedAt: noon, FirstSentAt: noon.Add(-time.Hour), LastSentAt: noon.Add(-time.Hour),
	}
	notFound := payment.Answer{Result: payment.ResultNotFound, Elapsed: time.Second}
	if got := instantRail().Decide(inquired, notFound); !got.Park || got.ErrorCode != payment.CodeRetriesExhausted {
		t.Errorf("not found after the one send: %+v", got)
	}
	inquired.SendOnce = false
	if got := instantRail().Decide(inquired, notFound); got.NextAction != payment.ActionSend {
		t.Errorf("not found, and its caller allows re-sends: %+v", got)
	}
}

func TestEveryDecisionGoesToOnePlace(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		places := 0
		for _, is := range []bool{d.State == payment.Dispatched, d.Requeue, d.Reason != ""} {
			if is {
				places++
			}
		}
		if places != 1 {
			t.Fatalf("it goes to %d places", places)
		}
		if d.Requeue != (d.NextAction != "") || !d.Requeue && d.Delay != 0 || d.Delay < 0 {
			t.Fatalf("requeued %v, to %q in %s", d.Requeue, d.NextAction, d.Delay)
		}
		if d.Park && d.Reason != payment.DeadOutcomeUnknown {
			t.Fatalf("a row PARKED with the reason %q", d.Reason)
		}
	})
}

// Evidence is a word that the design names, for the kind of claim it answers.
func TestUnknownEndsByEvidenceAlone(t *testing.T) {
	byInquiry := []payment.Result{payment.ResultExecuted, payment.ResultRefused}
	bySend := []payment.Result{payment.ResultAccepted, payment.ResultExecuted}
	byCoveringSend := append(bySend, payment.ResultRefusedFinal)
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if d.OutcomeUnknown || !d.claim.OutcomeUnknown && !d.claim.Provisional {
			return
		}
		evidence := bySend
		switch {
		case d.claim.Action == payment.ActionInquire:
			evidence = byInquiry
		case d.keeps():
			evidence = byCoveringSend
		}
		if d.lost || !slices.Contains(evidence, d.answer.Result) {
			t.Fatalf("%s by %q settled an unknown outcome", d.State, d.answer.Result)
		}
	})
}

// No claim leaves UNKNOWN without its flag, nor a claim of silence as anything
// but unknown.
func TestSilenceIsNeverFailure(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		silent := d.lost || d.answer.Result == payment.ResultUnknown
		sticky := d.State == payment.Unknown || d.State == payment.Accepted || d.State == payment.ZombieRequeue
		if (silent || sticky) && !d.OutcomeUnknown {
			t.Fatal("the flag is not set")
		}
		if silent && d.State != payment.Unknown && d.State != payment.ZombieRequeue {
			t.Fatalf("silence is written as %s", d.State)
		}
		if d.lost != (d.State == payment.ZombieRequeue) {
			t.Fatalf("lost is %v, the row is %s", d.lost, d.State)
		}
	})
}

// The schema refuses what breaks these, and with it the whole turn.
func TestDecisionsFitTheLifecycleAndTheSchema(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if claim := d.claim.Action.ClaimState(); !d.State.AnswersClaim() || !payment.MayFollow(claim, d.State) {
			t.Fatalf("%s may not follow %s", d.State, claim)
		}
		if d.Park && !payment.MayFollow(d.State, payment.Parked) {
			t.Fatalf("PARKED may not follow %s", d.State)
		}
		if d.Requeue && !payment.MayFollow(d.State, d.NextAction.ClaimState()) {
			t.Fatalf("%s may not follow %s", d.NextAction.ClaimState(), d.State)
		}
		if d.Provisional && !d.OutcomeUnknown {
			t.Fatal("provisional and nothing unknown")
		}
	})
}

// An inquiry of what is not in doubt is the one requeue that the schema refuses
// and that only an impossible claim can lead to.
func TestOnlyDoubtIsAskedAbout(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		possible := d.claim.Action == payment.ActionSend || d.claim.OutcomeUnknown
		if possible && d.Requeue && d.NextAction == payment.ActionInquire && !d.OutcomeUnknown {
			t.Fatal("asked about what is not in doubt")
		}
	})
}

func TestCountersNeverFall(t *testing.T) {
	unsent := []payment.Result{
		payment.ResultNotSent, payment.ResultRefusedRail, payment.ResultRefusedLater, payment.ResultCheckFailed,
		payment.ResultTampered, payment.ResultWindowClosed, payment.ResultRenderChanged,
	}
	forAnyDecision(t, func(t *rapid.T, d decided) {
		sends, inquiries := d.SendCount-d.claim.SendCount, d.InquiryCount-d.claim.InquiryCount
		sent := d.claim.Action == payment.ActionSend && !slices.Contains(unsent, d.answer.Result)
		asked := d.claim.Action == payment.ActionInquire && !slices.Contains(unsent[:3], d.answer.Result)
		for _, count := range []struct {
			counted bool
			by      int
		}{{sent, sends}, {asked, inquiries}} {
			if count.counted && count.by != 1 || !count.counted && count.by != 0 {
				t.Fatalf("sends rise by %d, inquiries by %d", sends, inquiries)
			}
		}
		if d.CountsSend != sent {
			t.Fatalf("the key window starts here: %v, sent: %v", d.CountsSend, sent)
		}
	})
}

func TestStrangeWordsAreUnknown(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		own := []payment.Result{"CHECK_FAILED", "TAMPERED", "WINDOW_CLOSED", "RENDER_CHANGED"}
		proves := append(payment.SendResults(), own...)
		if p.Acceptance != payment.AcceptanceByAnswer {
			proves = slices.DeleteFunc(proves, func(word payment.Result) bool { return word == payment.ResultExecuted })
		}
		if c.Action == payment.ActionInquire {
			proves = []payment.Result{"EXECUTED", "REFUSED", "NOT_FOUND", "NOT_SENT", "REFUSED_RAIL", "REFUSED_LATER"}
		}
		a.Result = rapid.OneOf(rapid.SampledFrom(everyWord()),
			rapid.Map(rapid.String(), func(s string) payment.Result { return payment.Result(s) })).
			Filter(func(word payment.Result) bool { return !slices.Contains(proves, word) }).Draw(t, "strange word")
		got := p.Decide(c, a)
		a.Result = payment.ResultUnknown
		if want := p.Decide(c, a); got != want {
			t.Fatalf("got %+v, UNKNOWN gives %+v", got, want)
		}
	})
}

// Expiry stops a send that may be the first one to be executed. It is no evidence:
// what would have been sent again waits for an operator, as unknown as it was, and no
// other decision changes.
func TestExpiryStopsSendsAlone(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		in := time.Hour - anySpan().Draw(t, "expires")
		for name, decide := range map[string]func() payment.Decision{
			"answered": func() payment.Decision { return p.Decide(c, a) },
			"lost":     func() payment.Decision { return p.DecideLost(c, a.Elapsed, a.Spread) },
		} {
			c.ExpiresAt = time.Time{}
			want := decide()
			c.ExpiresAt = noon.Add(in)
			got := decide()
			due := a.Elapsed + got.Delay
			if want.AsAsked && got.Requeue && got.Delay < want.Delay { // the rail's wish is shortened by it
				got.Delay, got.AsAsked = want.Delay, true
			}
			resends := want.Requeue && want.NextAction == payment.ActionSend &&
				(want.OutcomeUnknown || want.ErrorCode == payment.CodeNotFound)
			switch {
			case got == want && resends && c.Expired(due):
				t.Fatalf("%s: sent again after it has expired", name)
			case got == want:
			case want.ErrorCode == payment.CodeRailBusy && want.Reason != "" && c.Action == payment.ActionSend:
				// What expires ends by that alone, and not by a day of waiting.
				if got.Reason == payment.DeadFailed || got.OutcomeUnknown != (c.OutcomeUnknown || c.Provisional) {
					t.Fatalf("%s: expiry changed %+v to %+v", name, want, got)
				}
			case !resends && want.ErrorCode != payment.CodeWindowClosed &&
				!(c.SendOnce && want.ErrorCode == payment.CodeRetriesExhausted), !got.OutcomeUnknown, got.Requeue,
				got.Reason != payment.DeadOutcomeUnknown,
				got.SendCount != want.SendCount, got.CountsSend != want.CountsSend:
				t.Fatalf("%s: expiry changed %+v to %+v", name, want, got)
			}
		}
	})
}

// A rail that knew the key contradicts its own "no such payment".
func TestNotFoundByARailThatKnewTheKey(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		found := d.claim.SeenBefore && d.claim.Action == payment.ActionInquire && d.answer.Result == payment.ResultNotFound
		if found && !d.OutcomeUnknown {
			t.Fatal("it was believed")
		}
		wants := d.answer.SeenBefore && !d.lost && d.claim.Action == payment.ActionSend && d.State == payment.Unknown
		if wants != (d.ErrorCode == payment.CodeSeenBefore) {
			t.Fatalf("the row says %q", d.ErrorCode)
		}
	})
}

// While no operator has compared, a send may have been forgotten. No word ends such a
// payment as FAILED, unless the rail keeps one outcome a key and refuses the payment
// for good.
func TestDoubtedIsNeverFailed(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if !d.claim.Doubted || d.State != payment.Failed {
			return
		}
		covered := d.keeps() && !d.claim.Provisional &&
			(d.answer.Result == payment.ResultRefusedFinal && d.claim.Action == payment.ActionSend)
		asked := d.claim.Action == payment.ActionInquire && d.answer.Result == payment.ResultRefused && d.keeps()
		if !covered && !asked || d.lost {
			t.Fatalf("%s ends a doubted payment as FAILED", d.answer.Result)
		}
	})
}

// What never left, or was not looked at, adds no doubt and takes none away. What is
// given up for it is in doubt where a send may have been forgotten.
func TestNotSentLeavesTheFlags(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		notSent := slices.Contains([]payment.Result{payment.ResultNotSent, payment.ResultRefusedRail,
			payment.ResultRefusedLater}, d.answer.Result)
		if d.lost || !notSent {
			return
		}
		if !d.Requeue && d.OutcomeUnknown && (d.claim.MaybeSent || d.claim.Action == payment.ActionInquire) {
			return
		}
		was := d.claim.OutcomeUnknown || d.claim.Provisional
		if d.OutcomeUnknown != was || d.Provisional != d.claim.Provisional || d.CountsSend {
			t.Fatalf("unknown %t becomes %t, provisional %t becomes %t", was, d.OutcomeUnknown, d.claim.Provisional,
				d.Provisional)
		}
	})
}

// A claim that may be the repetition of a forgotten one ends FAILED by a check here, or
// by a refusal for good where the rail keeps one outcome a key, and never because a
// send of it was refused.
func TestRefusalIsNoFailureOfARepetition(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		c.Action, c.MaybeSent = payment.ActionSend, true
		refusals := []payment.Result{payment.ResultRefusedTransient, payment.ResultRefusedBusiness,
			payment.ResultRefusedLater, payment.ResultRefusedRail, payment.ResultRefusedFinal}
		a.Result = rapid.SampledFrom(refusals).Draw(t, "refusal")
		whole := a.Result == payment.ResultRefusedFinal && keeps(p, c, a) && !c.Provisional
		if d := p.Decide(c, a); (d.State == payment.Failed) != whole {
			t.Fatalf("%s, and %s though a send may be forgotten", a.Result, d.State)
		}
	})
}

// A key that was refused is sent again only if the rail accepts it by the profile.
func TestRefusedKeyIsSentAgainOnlyWhereTheRailTakesIt(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		c.Action, a.Result = payment.ActionSend, payment.ResultRefusedTransient
		d := p.Decide(c, a)
		if p.IDAfterRefusal != payment.IDSame && (d.Requeue || d.ErrorCode != payment.CodeNewIDNeeded) {
			t.Fatalf("%s (%s), next %q after a refusal on a rail that wants a new id", d.State, d.ErrorCode, d.NextAction)
		}
	})
}

// What is refused for lack of funds is sent again only by the rule that the profile
// has for it, and not before its wait is over.
func TestBusinessRefusalIsNotLooped(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		c.Action, a.Result = payment.ActionSend, payment.ResultRefusedBusiness
		d := p.Decide(c, a)
		mayAgain := p.IDAfterRefusal == payment.IDSame && d.SendCount <= p.BusinessRetry.Max && d.SendCount < p.Retry.MaxSends
		switch {
		case !mayAgain && (d.Requeue || d.ErrorCode != payment.CodeBusinessRefused):
			t.Fatalf("%s (%s), next %q", d.State, d.ErrorCode, d.NextAction)
		case d.Requeue && d.NextAction == payment.ActionSend &&
			d.Delay < min(time.Duration(p.BusinessRetry.Wait), 24*time.Hour):
			t.Fatalf("sent again in %s, want %s at least", d.Delay, p.BusinessRetry.Wait)
		}
	})
}

// Only a rail that says so ends an instruction by its answer, and by "executed" alone.
func TestAcceptanceByAnswer(t *testing.T) {
	forAnyDecision(t, func(t *rapid.T, d decided) {
		if d.claim.Action != payment.ActionSend || d.lost {
			return
		}
		want := d.answer.Result == payment.ResultAccepted && d.policy.Acceptance == payment.AcceptanceFinal ||
			d.answer.Result == payment.ResultExecuted && d.policy.Acceptance == payment.AcceptanceByAnswer
		if got := d.State == payment.Dispatched; got != want {
			t.Fatalf("%s on a rail whose acceptance is %q: %s", d.answer.Result, d.policy.Acceptance, d.State)
		}
		if taken := d.answer.Result == payment.ResultAccepted && !want; taken &&
			(!d.Provisional || d.State != payment.Accepted) {
			t.Fatalf("taken for now, and %s, provisional %v", d.State, d.Provisional)
		}
	})
}

// "No such payment" is no proof once the rail may have aged the first send out, by the
// whole time from that send's claim to the answer; nor where that time is not known.
func TestNotFoundOfWhatIsAgedOut(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		p, c, a := anyPolicy().Draw(t, "policy"), anyClaim().Draw(t, "claim"), anyAnswer().Draw(t, "answer")
		c.Action, a.Result = payment.ActionInquire, payment.ResultNotFound
		d := p.Decide(c, a)
		if d.OutcomeUnknown {
			return
		}
		if age := c.ClaimedAt.Sub(c.FirstSentAt) + a.Elapsed; c.FirstSentAt.IsZero() || age < 0 ||
			age >= time.Duration(p.Inquiry.NotFoundUntil) {
			t.Fatalf("believed %s after the first send, the rail finds it for %s", age, p.Inquiry.NotFoundUntil)
		}
	})
}

// executes reports whether a rail that remembers a key for a window executes the last of these sends.
func executes(sends []time.Time, window time.Duration) bool {
	slices.SortStableFunc(sends[:len(sends)-1], time.Time.Compare)
	var executed time.Time
	last := false
	for _, at := range sends {
		if last = executed.IsZero() || at.Sub(executed) >= window; last {
			executed = at
		}
	}
	return last
}

// histories are sends that restores may have forgotten: in each gap none, one at its edges or
// one of which the rail just knew the key at a later send.
func histories(gaps []payment.Gap, first time.Time, window time.Duration) [][]time.Time {
	all := [][]time.Time{nil}
	for _, gap := range gaps { // the newest first
		for _, later := range all {
			moments := []time.Time{gap.Since, gap.Until, first.Add(1 - window)}
			for _, at := range later {
				moments = append(moments, at.Add(1-window))
			}
			for _, at := range moments {
				if !at.Before(gap.Since) && !at.After(gap.Until) && at.Before(first) {
					all = append(all, append(slices.Clone(later), at))
				}
			}
		}
	}
	return all
}
