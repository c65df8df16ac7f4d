package payment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/railhead-pay/railhead/payment"
)

func span(d time.Duration) payment.Duration { return payment.Duration(d) }

// soundPolicy uses every field and contradicts itself nowhere.
func soundPolicy() payment.Policy {
	return payment.Policy{
		Acceptance: payment.AcceptanceProvisional, AnswerCoversKey: true, IDAfterRefusal: payment.IDNew,
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: span(24 * time.Hour),
		Inquiry: payment.InquiryPolicy{
			NotBefore: span(25 * time.Second), Intervals: []payment.Duration{span(time.Minute), span(5 * time.Minute)}, Max: 5,
			NotFound: payment.NotFoundNotExecuted, NotFoundAge: span(time.Minute), NotFoundUntil: span(24 * time.Hour),
		},
		CallbackDeadline: span(time.Hour),
	}.WithDefaults()
}

func TestPolicyDefaultsAreTheSafeOnes(t *testing.T) {
	got := payment.Policy{}.WithDefaults()
	if got.Acceptance != payment.AcceptanceFinal || got.IDAfterRefusal != payment.IDNew ||
		got.ResendOnUnknown != payment.ResendNever || got.AnswerCoversKey || got.Inquiry.Max != 0 {
		t.Errorf("the defaults are %+v", got)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	asks := payment.Policy{Inquiry: payment.InquiryPolicy{Max: 3, NotFound: payment.NotFoundInconclusive}}.WithDefaults()
	if want := []payment.Duration{span(30 * time.Second), span(time.Minute),
		span(5 * time.Minute)}; !cmp.Equal(asks.Inquiry.Intervals, want) {
		t.Errorf("the default intervals are %v", asks.Inquiry.Intervals)
	}
	valid := soundPolicy()
	if again := valid.WithDefaults(); !cmp.Equal(again, valid) {
		t.Errorf("what was given is changed: %s", cmp.Diff(valid, again))
	}
}

// Each row breaks one thing and wants one sentence, and no other.
func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name     string
		breaks   func(*payment.Policy)
		sentence string // empty: nothing is wrong
	}{
		{"valid", func(*payment.Policy) {}, ""},
		{"no acceptance", func(p *payment.Policy) { p.Acceptance = "" }, `acceptance is "", must be one of [FINAL PROVISIONAL BY_ANSWER]`},
		{"other acceptance", func(p *payment.Policy) { p.Acceptance = "final" }, `acceptance is "final"`},
		{"other id after refusal", func(p *payment.Policy) { p.IDAfterRefusal = "ANY" }, `id_after_refusal is "ANY", must be one of [SAME NEW]`},
		{"one outcome a key, and the key again", func(p *payment.Policy) { p.IDAfterRefusal = payment.IDSame }, "set id_after_refusal to NEW, or answer_covers_key to false"},
		{"the key again", func(p *payment.Policy) { p.AnswerCoversKey, p.IDAfterRefusal = false, payment.IDSame }, ""},
		{"by answer", func(p *payment.Policy) { p.Acceptance = payment.AcceptanceByAnswer }, ""},
		{"by answer, without an end", func(p *payment.Policy) {
			p.Acceptance, p.Inquiry, p.CallbackDeadline = payment.AcceptanceByAnswer, payment.InquiryPolicy{}, 0
		}, "acceptance is BY_ANSWER but the rail neither answers inquiries nor calls back"},
		{"business, a new id", func(p *payment.Policy) { p.BusinessRetry = payment.BusinessRetry{Max: 1, Wait: span(time.Hour)} }, "so there is nothing to send again"},
		{"business, the key again", func(p *payment.Policy) {
			p.AnswerCoversKey, p.IDAfterRefusal, p.BusinessRetry = false, payment.IDSame,
				payment.BusinessRetry{Max: 2, Wait: span(time.Minute)}
		}, ""},
		{"business, beyond the ceiling", func(p *payment.Policy) {
			p.AnswerCoversKey, p.IDAfterRefusal, p.BusinessRetry = false, payment.IDSame,
				payment.BusinessRetry{Max: 3, Wait: span(time.Minute)}
		}, "business_retry.max is 3, must be 0 to 2"},
		{"business, negative", func(p *payment.Policy) { p.BusinessRetry = payment.BusinessRetry{Max: -1, Wait: span(time.Minute)} }, "business_retry.max is -1"},
		{"business, at once", func(p *payment.Policy) { p.BusinessRetry.Wait = span(time.Minute - 1) }, "must be 1m to 24h"},
		{"business, in two days", func(p *payment.Policy) { p.BusinessRetry.Wait = span(48 * time.Hour) }, "business_retry.wait is 48h"},
		{"other re-send", func(p *payment.Policy) { p.ResendOnUnknown = "ALWAYS" }, `resend_on_unknown is "ALWAYS", must be one of [NEVER SAME_KEY]`},
		{"negative window", func(p *payment.Policy) { p.ResendOnUnknown, p.KeyWindow = payment.ResendNever, -1 }, "key_window is negative"},
		{"negative deadline", func(p *payment.Policy) { p.CallbackDeadline = -1 }, "callback_deadline is negative"},
		{"negative first wait", func(p *payment.Policy) { p.Inquiry.NotBefore = -1 }, "inquiry.not_before is negative"},
		{"negative age", func(p *payment.Policy) { p.Inquiry.NotFound, p.Inquiry.NotFoundAge = payment.NotFoundInconclusive, -1 }, "inquiry.not_found_age is negative"},
		{"same key, window not known", func(p *payment.Policy) { p.KeyWindow = 0 }, "an unknown window counts as none"},
		{"never, window not known", func(p *payment.Policy) { p.ResendOnUnknown, p.KeyWindow = payment.ResendNever, 0 }, ""},
		// Two waits of 100 s and 200 s with a fifth of jitter: 360 s, against 400 s less a tenth.
		{"window as long as the horizon", func(p *payment.Policy) {
			p.Retry.Base, p.Retry.Cap, p.KeyWindow = span(100*time.Second), span(time.Hour), span(400*time.Second)
		}, "is shorter than the retry horizon 6m"},
		{"window a little longer", func(p *payment.Policy) {
			p.Retry.Base, p.Retry.Cap, p.KeyWindow = span(100*time.Second), span(time.Hour), span(401*time.Second)
		}, ""},
		{"provisional without end", func(p *payment.Policy) { p.Inquiry.Max, p.CallbackDeadline = 0, 0 }, "an accepted payment would wait without end"},
		{"provisional, asked", func(p *payment.Policy) { p.CallbackDeadline = 0 }, ""},
		{"provisional, called back", func(p *payment.Policy) { p.Inquiry = payment.InquiryPolicy{} }, ""},
		{"negative inquiries", func(p *payment.Policy) { p.Inquiry.Max = -1 }, "inquiry.max is -1, must be 0 to 100"},
		{"too many inquiries", func(p *payment.Policy) { p.Inquiry.Max = 101 }, "inquiry.max is 101, must be 0 to 100"},
		{"countless inquiries", func(p *payment.Policy) { p.Inquiry.Max = 1 << 62 }, "must be 0 to 100"},
		{"not found means nothing", func(p *payment.Policy) { p.Inquiry.NotFound = "" }, `inquiry.not_found is ""`},
		{"not found means something else", func(p *payment.Policy) { p.Inquiry.NotFound = "NO" }, "set INCONCLUSIVE or NOT_EXECUTED"},
		{"not executed at any age", func(p *payment.Policy) { p.Inquiry.NotFoundAge = 0 }, "set the age of the latest send from which the answer is proof"},
		{"not executed without end", func(p *payment.Policy) { p.Inquiry.NotFoundUntil = 0 }, "add inquiry.not_found_until"},
		{"not executed never", func(p *payment.Policy) { p.Inquiry.NotFoundUntil = span(85 * time.Second) }, "must be longer than inquiry.not_found_age and not_before together (1m25s)"},
		{"not executed for a moment", func(p *payment.Policy) { p.Inquiry.NotFoundUntil = span(85*time.Second + 1) }, ""},
		{"negative end", func(p *payment.Policy) { p.Inquiry.NotFoundUntil = -1 }, "inquiry.not_found_until is negative"},
		{"inconclusive without end", func(p *payment.Policy) { p.Inquiry.NotFound, p.Inquiry.NotFoundUntil = payment.NotFoundInconclusive, 0 }, ""},
		{"inconclusive at any age", func(p *payment.Policy) { p.Inquiry.NotFound, p.Inquiry.NotFoundAge = payment.NotFoundInconclusive, 0 }, ""},
		{"no wait between inquiries", func(p *payment.Policy) { p.Inquiry.Intervals[1] = 0 }, "inquiry.intervals[1] must be positive"},
		{"schedule too long", func(p *payment.Policy) { p.Inquiry.Intervals[1] = span(240 * time.Hour) }, "more than 720h"},
		{"schedule longer than time", func(p *payment.Policy) {
			p.Inquiry.Intervals[0], p.Inquiry.Intervals[1] = 1<<62, 1<<62
		}, "more than 720h"},
		{"first inquiry too late", func(p *payment.Policy) {
			p.Inquiry.NotBefore, p.Inquiry.NotFoundUntil = span(721*time.Hour), span(800*time.Hour)
		}, "more than 720h"},
		{"no sends", func(p *payment.Policy) { p.Retry.MaxSends = -1 }, "retry.max_sends is -1, must be 1 to 20"},
		{"too many sends", func(p *payment.Policy) { p.Retry.MaxSends = 21 }, "retry.max_sends is 21, must be 1 to 20"},
		{"countless sends", func(p *payment.Policy) { p.Retry.MaxSends = 1 << 62 }, "must be 1 to 20"},
		{"other shape", func(p *payment.Policy) { p.Retry.Shape = "SQUARE" }, `retry.shape is "SQUARE"`},
		{"negative base", func(p *payment.Policy) { p.Retry.Base = -1 }, "retry.base must be positive"},
		{"cap below base", func(p *payment.Policy) { p.Retry.Base, p.Retry.Cap = span(2*time.Second), span(time.Second) }, "retry.cap is 1s, must be from retry.base (2s) to 24h"},
		{"cap beyond a day", func(p *payment.Policy) { p.Retry.Cap = span(25 * time.Hour) }, "retry.cap is 25h"},
		{"negative jitter", func(p *payment.Policy) { p.Retry.Jitter = new(-0.1) }, "retry.jitter is -0.1, must be 0 to 0.5"},
		{"no refusal pauses", func(p *payment.Policy) { p.RailRefused.After = -1 }, "rail_refused.after is -1, must be 1 to 100"},
		{"too many refusals", func(p *payment.Policy) { p.RailRefused.After = 101 }, "rail_refused.after is 101, must be 1 to 100"},
		{"more instructions than refusals", func(p *payment.Policy) { p.RailRefused.Instructions = 4 }, "rail_refused.instructions is 4, must be 1 to 3"},
		{"one refusal pauses", func(p *payment.Policy) { p.RailRefused.After, p.RailRefused.Instructions = 1, 1 }, ""},
		{"no refusal ends it", func(p *payment.Policy) { p.RailRefused.PerInstruction = -5 }, "rail_refused.per_instruction is -5, must be 1 to 100"},
		{"wild jitter", func(p *payment.Policy) { p.Retry.Jitter = new(0.6) }, "retry.jitter is 0.6, must be 0 to 0.5"},
	} {
		p := soundPolicy()
		test.breaks(&p)
		err := p.Validate()
		switch {
		case test.sentence == "" && err != nil:
			t.Errorf("%s: refused: %v", test.name, err)
		case test.sentence != "" && err == nil:
			t.Errorf("%s: not refused", test.name)
		case test.sentence != "" && (!strings.Contains(err.Error(), test.sentence) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: said %q, want %q alone", test.name, err, test.sentence)
		}
	}
}

// Everything that is wrong is said at once, always in the same order.
func TestValidateSaysAllAtOnce(t *testing.T) {
	wrong := payment.Policy{
		KeyWindow: -1, CallbackDeadline: -1,
		Inquiry: payment.InquiryPolicy{NotBefore: -1, Max: 101, NotFoundAge: -1, Intervals: []payment.Duration{0, -1}},
		Retry:   payment.RetryPolicy{MaxSends: 21, Base: -1, Cap: -2, Jitter: new(2.0)},
	}
	want := []string{
		"acceptance is", "id_after_refusal is", "resend_on_unknown is",
		"key_window is negative", "callback_deadline is negative",
		"inquiry.not_before is negative", "inquiry.not_found_age is negative",
		"inquiry.max is", "the rail answers inquiries but inquiry.not_found is", "inquiry.intervals[0]",
		"inquiry.intervals[1]",
		"retry.max_sends", "retry.shape", "retry.base", "retry.cap", "retry.jitter",
		"rail_refused.after", "rail_refused.instructions", "rail_refused.per_instruction",
	}
	for range 20 {
		lines := strings.Split(wrong.Validate().Error(), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%d sentences, want %d: %q", len(lines), len(want), lines)
		}
		for n, line := range lines {
			if !strings.HasPrefix(line, want[n]) {
				t.Fatalf("sentence %d is %q, want %q", n, line, want[n])
			}
		}
	}
}

// A window of 1 h may be used for 55 minutes, one of 10 minutes for 9.
func TestMayResend(t *testing.T) {
	for _, test := range []struct {
		resend payment.Resend
		window time.Duration
		age    time.Duration
		want   bool
	}{
		{payment.ResendSameKey, time.Hour, 0, true},
		{payment.ResendSameKey, time.Hour, 55*time.Minute - 1, true},
		{payment.ResendSameKey, time.Hour, 55 * time.Minute, false},
		{payment.ResendSameKey, 10 * time.Minute, 9*time.Minute - 1, true},
		{payment.ResendSameKey, 10 * time.Minute, 9 * time.Minute, false},
		{payment.ResendSameKey, 0, 0, false},
		{payment.ResendSameKey, 0, -time.Hour, false},
		{payment.ResendSameKey, -time.Hour, 0, false},
		{payment.ResendSameKey, time.Hour, -1, false},
		{payment.ResendNever, time.Hour, 0, false},
		{"", time.Hour, 0, false},
		{"ALWAYS", time.Hour, 0, false},
	} {
		p := payment.Policy{ResendOnUnknown: test.resend, KeyWindow: span(test.window)}
		if got := p.MayResend(test.age); got != test.want {
			t.Errorf("%q within %s, after %s: %v, want %v", test.resend, test.window, test.age, got, test.want)
		}
	}
}
