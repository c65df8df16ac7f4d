package payment

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

func (r RailRefusedPolicy) validate() []error {
	var all []error
	most := MaxRailRefusals
	if r.After >= 1 {
		most = min(most, r.After)
	}
	for _, count := range []struct {
		name        string
		value, most int
	}{
		{"after", r.After, MaxRailRefusals}, {"instructions", r.Instructions, most},
		{"per_instruction", r.PerInstruction, MaxRailRefusals},
	} {
		if count.value < 1 || count.value > count.most {
			all = append(all, fmt.Errorf("rail_refused.%s is %d, must be 1 to %d", count.name, count.value, count.most))
		}
	}
	return all
}

// Validate returns every contradiction at once, each with its explanation. The policy
// must have its defaults (WithDefaults).
func (p Policy) Validate() error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }

	oneOf(refuse, "acceptance", p.Acceptance, AcceptanceFinal, AcceptanceProvisional, AcceptanceByAnswer)
	oneOf(refuse, "id_after_refusal", p.IDAfterRefusal, IDSame, IDNew)
	oneOf(refuse, "resend_on_unknown", p.ResendOnUnknown, ResendNever, ResendSameKey)
	if p.AnswerCoversKey && p.IDAfterRefusal == IDSame {
		refuse("answer_covers_key is true but id_after_refusal is SAME: a rail that may execute a key which it refused " +
			"has more than one outcome for it, and an old refusal would end a replayed payment; " +
			"set id_after_refusal to NEW, or answer_covers_key to false")
	}
	for _, span := range []struct {
		name  string
		value Duration
	}{
		{"key_window", p.KeyWindow}, {"callback_deadline", p.CallbackDeadline},
		{"inquiry.not_before", p.Inquiry.NotBefore}, {"inquiry.not_found_age", p.Inquiry.NotFoundAge},
		{"inquiry.not_found_until", p.Inquiry.NotFoundUntil},
	} {
		if span.value < 0 {
			refuse("%s is negative", span.name)
		}
	}
	if p.ResendOnUnknown == ResendSameKey && p.KeyWindow <= 0 {
		refuse("resend_on_unknown is SAME_KEY but key_window is not known: an unknown window counts as none, " +
			"so a re-send could be a second payment; set key_window to the rail's window, or resend_on_unknown to NEVER")
	}
	// A retry policy out of its bounds has no finite horizon.
	retryFaults := p.Retry.validate()
	if p.ResendOnUnknown == ResendSameKey && p.KeyWindow > 0 &&
		len(retryFaults) == 0 && p.Retry.Horizon() >= p.usableWindow() {
		refuse("key_window %s (%s of it usable) is shorter than the retry horizon %s: the last re-send could come "+
			"after the rail forgot the key and would be a second payment; shorten retry or lower retry.max_sends",
			p.KeyWindow, Duration(p.usableWindow()), Duration(p.Retry.Horizon()))
	}
	provisional := p.Acceptance == AcceptanceProvisional || p.Acceptance == AcceptanceByAnswer
	if provisional && p.Inquiry.Max == 0 && p.CallbackDeadline == 0 {
		refuse("acceptance is %s but the rail neither answers inquiries nor calls back: "+
			"an accepted payment would wait without end; set inquiry.max or callback_deadline", p.Acceptance)
	}
	all = append(all, p.Inquiry.validate()...)
	all = append(all, retryFaults...)
	all = append(all, p.validateBusinessRetry()...)
	all = append(all, p.RailRefused.validate()...)
	return errors.Join(all...)
}

func (p Policy) validateBusinessRetry() []error {
	b := p.BusinessRetry
	if b == (BusinessRetry{}) {
		return nil
	}
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if b.Max < 0 || b.Max >= p.Retry.MaxSends {
		refuse("business_retry.max is %d, must be 0 to %d: one less than retry.max_sends, which counts every send",
			b.Max, max(p.Retry.MaxSends-1, 0))
	}
	if time.Duration(b.Wait) < MinBusinessWait || time.Duration(b.Wait) > maxRetryCap {
		refuse("business_retry.wait is %s, must be %s to %s", b.Wait, Duration(MinBusinessWait), Duration(maxRetryCap))
	}
	if b.Max > 0 && p.IDAfterRefusal != IDSame {
		refuse("business_retry.max is %d but id_after_refusal is %s: the rail accepts no key that it has refused, "+
			"so there is nothing to send again; set id_after_refusal to SAME if it does, or leave business_retry out",
			b.Max, p.IDAfterRefusal)
	}
	return all
}

func (i InquiryPolicy) validate() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if i.Max < 0 || i.Max > MaxInquiries {
		refuse("inquiry.max is %d, must be 0 to %d", i.Max, MaxInquiries)
	}
	if i.Max == 0 {
		return all
	}
	if i.NotFound != NotFoundInconclusive && i.NotFound != NotFoundNotExecuted {
		refuse("the rail answers inquiries but inquiry.not_found is %q: set INCONCLUSIVE or NOT_EXECUTED; "+
			"without it, what \"no such payment\" proves is not known", i.NotFound)
	}
	if i.NotFound == NotFoundNotExecuted && i.NotFoundAge <= 0 {
		refuse("inquiry.not_found is NOT_EXECUTED without inquiry.not_found_age: a rail that has not indexed the " +
			"payment yet answers the same; set the age of the latest send from which the answer is proof")
	}
	// The lowest age of the first send at which "no such payment" can be proof.
	first := i.NotFoundAge + i.NotBefore
	switch {
	case i.NotFound != NotFoundNotExecuted:
	case i.NotFoundUntil == 0:
		refuse("inquiry.not_found is NOT_EXECUTED without inquiry.not_found_until: a rail that no longer finds an old " +
			"payment answers the same even if it executed it; add inquiry.not_found_until, the age of the first send up " +
			"to which the rail still finds it, or set INCONCLUSIVE")
	case i.NotFoundUntil > 0 && i.NotFoundUntil <= first:
		refuse("inquiry.not_found_until is %s, must be longer than inquiry.not_found_age and not_before together (%s): "+
			"\"no such payment\" would never be proof; if the rail's look-up is that short, set INCONCLUSIVE",
			i.NotFoundUntil, first)
	}
	for n, interval := range i.Intervals {
		if interval <= 0 {
			refuse("inquiry.intervals[%d] must be positive", n)
		}
	}
	if len(all) == 0 && i.horizon() > maxInquiryHorizon {
		refuse("the inquiry schedule lasts %s or longer, more than %s", Duration(i.horizon()), Duration(maxInquiryHorizon))
	}
	return all
}

// horizon is how long the schedule lasts from the latest send to the last
// inquiry. It stops adding once the sum is too long, so that long intervals can't
// overflow it.
func (i InquiryPolicy) horizon() time.Duration {
	sum := time.Duration(i.NotBefore)
	for n := 0; n < i.Max && sum <= maxInquiryHorizon; n++ {
		sum += min(i.interval(n), maxInquiryHorizon)
	}
	return sum
}

func oneOf[T ~string](refuse func(string, ...any), name string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	refuse("%s is %q, must be one of %v", name, value, allowed)
}
