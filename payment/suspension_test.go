package payment_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

// at is a time of the day of these tests, in hours.
func at(hour float64) time.Time {
	if hour == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration((hour - 12) * float64(time.Hour)))
}

// suspended is a suspension that knows the data until one hour, was opened at
// another, and was accepted at a third, 0: never. Callers repeat for four hours.
func suspended(known, opened, accepted float64) payment.Suspension {
	s := payment.Suspension{KnownUntil: at(known), OpenedAt: at(opened), AcceptedAt: at(accepted)}
	if accepted > 0 {
		s.DoubtedUntil = at(accepted + 4)
	}
	return s
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		created, first, last float64 // of the claim
		suspensions          []payment.Suspension
		wantFirst, wantLast  float64
		maybe, doubted       bool
	}{
		{"none", 9, 10, 11, nil, 10, 11, false, false},
		{"open, never sent", 9, 0, 0, []payment.Suspension{suspended(8, 10, 0)}, 8, 10, true, true},
		{"open, sent before known until", 6, 7, 7, []payment.Suspension{suspended(8, 10, 0)}, 7, 10, true, true},
		{"open, sent after it", 9, 11, 11, []payment.Suspension{suspended(8, 10, 0)}, 8, 11, true, true},
		{"open, enqueued after it was opened", 11, 0, 0, []payment.Suspension{suspended(8, 10, 0)}, 8, 10, true, true},
		{"accepted, never sent, enqueued before", 9, 0, 0, []payment.Suspension{suspended(8, 10, 11)}, 0, 0, true, false},
		{"accepted, never sent, within the time of repetition", 14.9, 0, 0, []payment.Suspension{suspended(8, 10, 11)}, 0, 0, true, false},
		{"accepted, never sent, at its end", 15, 0, 0, []payment.Suspension{suspended(8, 10, 11)}, 0, 0, false, false},
		{"accepted, sent before known until", 6, 7, 7, []payment.Suspension{suspended(8, 10, 11)}, 7, 10, true, false},
		{"accepted, sent while it was open", 9, 10.5, 10.5, []payment.Suspension{suspended(8, 10, 11)}, 8, 10.5, true, false},
		{"accepted, sent after it", 9, 12, 12, []payment.Suspension{suspended(8, 10, 11)}, 12, 12, true, false},
		{"accepted, enqueued and sent long after it", 20, 21, 21, []payment.Suspension{suspended(8, 10, 11)}, 21, 21, false, false},
		{"open after one that was accepted", 9, 10.5, 10.5, []payment.Suspension{suspended(14, 15, 0), suspended(8, 10, 11)}, 8, 15, true, true},
		{"open, known until the time of an earlier one", 9, 12, 12, []payment.Suspension{suspended(10.5, 13, 0), suspended(8, 10, 11)}, 8, 13, true, true},
		{"two that were accepted", 9, 16, 16, []payment.Suspension{suspended(10.5, 15, 17), suspended(8, 10, 11)}, 8, 16, true, false},
	} {
		claim := payment.Claim{CreatedAt: at(c.created), FirstSentAt: at(c.first), LastSentAt: at(c.last)}
		got := claim.Weigh(c.suspensions)
		if got.MaybeSent != c.maybe || got.Doubted != c.doubted {
			t.Errorf("%s: maybe sent %t, doubted %t", c.name, got.MaybeSent, got.Doubted)
		}
		if !got.FirstSentAt.Equal(at(c.wantFirst)) || !got.LastSentAt.Equal(at(c.wantLast)) {
			t.Errorf("%s: first sent %s and last %s, want %s and %s", c.name, got.FirstSentAt, got.LastSentAt, at(c.wantFirst),
				at(c.wantLast))
		}
	}
	// A lane that was held has not asked whether the rail is busy still.
	for _, c := range []struct{ busy, want float64 }{{0, 0}, {7, 11}, {10.5, 11}, {11.5, 11.5}} {
		claim := payment.Claim{CreatedAt: at(6), BusySince: at(c.busy)}
		if got := claim.Weigh([]payment.Suspension{suspended(13, 14, 0), suspended(8, 10, 11),
			suspended(5, 6, 6.5)}); !got.BusySince.Equal(at(c.want)) {
			t.Errorf("busy since %s, want %s", got.BusySince, at(c.want))
		}
	}
	// Where nothing is known from before, no window covers the age.
	claim := payment.Claim{Action: payment.ActionSend, CreatedAt: at(9),
		ClaimedAt: noon}.Weigh([]payment.Suspension{{KnownUntil: time.Unix(0, 0), OpenedAt: at(10)}})
	if age := claim.SinceFirstSend(0); age < 50*365*24*time.Hour {
		t.Errorf("a send of any age is %s old", age)
	}
}

// TestForgottenSince: a send that no row knows may be as old as the newest moment that is
// known from before the earliest restore that may have forgotten it.
func TestForgottenSince(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		created     float64
		suspensions []payment.Suspension
		want        float64   // 0: none may be forgotten
		gaps        []float64 // when they begin
	}{
		"none":                             {9, nil, 0, nil},
		"open":                             {9, []payment.Suspension{suspended(8, 10, 0)}, 8, []float64{8}},
		"accepted, enqueued after it":      {12, []payment.Suspension{suspended(8, 10, 11)}, 8, []float64{8}},
		"accepted, enqueued long after it": {20, []payment.Suspension{suspended(8, 10, 11)}, 0, nil},
		"two":                              {9, []payment.Suspension{suspended(12, 13, 0), suspended(8, 10, 11)}, 8, []float64{12, 8}},
		"two, the earlier is over":         {16, []payment.Suspension{suspended(15, 17, 0), suspended(8, 10, 11)}, 15, []float64{15}},
	} {
		got := payment.Claim{CreatedAt: at(c.created)}.Weigh(c.suspensions)
		if !got.ForgottenSince.Equal(at(c.want)) {
			t.Errorf("%s: forgotten since %s, want %s", name, got.ForgottenSince, at(c.want))
		}
		var gaps []payment.Gap
		for n, begins := range c.gaps {
			gaps = append(gaps, payment.Gap{Since: at(begins), Until: c.suspensions[n].OpenedAt})
		}
		if !slices.Equal(got.Gaps, gaps) {
			t.Errorf("%s: gaps %v, want %v", name, got.Gaps, gaps)
		}
	}
}

// TestEachRestoreByItself: a send that an earlier restore may have forgotten was told to no send that was made
// later than the rail knows its key; where one was, the window is that of the earlier, from gap to gap.
func TestEachRestoreByItself(t *testing.T) {
	t.Parallel()
	rail := payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
	unknown := func(c payment.Claim) payment.Claim {
		c.FirstSentAt, c.LastSentAt, c.OutcomeUnknown, c.SendCount = c.ClaimedAt.Add(-time.Minute),
			c.ClaimedAt.Add(-time.Minute), true, 1
		return c
	}
	longer := func(c payment.Claim) payment.Claim {
		c.SentUnder = []payment.KeyRules{{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(2 * time.Hour)}}
		return c
	}
	as := func(c payment.Claim) payment.Claim { return c }
	for name, test := range map[string]struct {
		claimed     float64 // hour
		suspensions []payment.Suspension
		is          func(payment.Claim) payment.Claim
		want        bool
	}{
		"suspended, a second time that day":                   {14.1, []payment.Suspension{suspended(14, 14.05, 0), suspended(10, 10.05, 10.5)}, as, true},
		"suspended, what the first forgot is not known":       {14.1, []payment.Suspension{suspended(14, 14.05, 0), {KnownUntil: time.Unix(0, 0), OpenedAt: at(10), AcceptedAt: at(10.5), DoubtedUntil: at(14.5)}}, as, true},
		"suspended twice within the window":                   {14.5, []payment.Suspension{suspended(14, 14.05, 0), suspended(13.4, 13.5, 13.6)}, as, false},
		"suspended twice within the window, and sent in time": {14.2, []payment.Suspension{suspended(14, 14.05, 0), suspended(13.4, 13.5, 13.6)}, as, true},
		"unknown, sent after the second":                      {14.5, []payment.Suspension{suspended(14, 14.05, 14.1), suspended(10, 10.05, 10.5)}, unknown, true},
		"unknown, sent in the window of the second":           {14.95, []payment.Suspension{suspended(14, 14.05, 14.1), suspended(10, 10.05, 10.5)}, unknown, false},
		"unknown, sent after the window":                      {15.5, []payment.Suspension{suspended(14, 14.05, 14.1)}, unknown, true},
		"unknown, sent just after the window":                 {15.1, []payment.Suspension{suspended(14, 14.05, 14.1)}, unknown, false},
		"unknown, noticed by a clock that stepped back":       {13.5, []payment.Suspension{suspended(14, 14.5, 14.6)}, unknown, false},
		"unknown, sent in the longer window of before":        {15.5, []payment.Suspension{suspended(14, 14.05, 14.1)}, func(c payment.Claim) payment.Claim { return longer(unknown(c)) }, false},
	} {
		claim := test.is(payment.Claim{Action: payment.ActionSend, CreatedAt: at(10.4),
			ClaimedAt: at(test.claimed)}).Weigh(test.suspensions)
		if got := rail.MaySend(claim, time.Second); got != test.want {
			t.Errorf("%s: may be sent %t, want %t", name, got, test.want)
		}
	}
}

// TestWeighNeverForgets: a suspension only adds doubt. It makes no first send
// younger, no latest send older, and counts none as the first that was not.
func TestWeighNeverForgets(t *testing.T) {
	hour := rapid.Float64Range(1, 48)
	rapid.Check(t, func(t *rapid.T) {
		var all []payment.Suspension
		open, ended := 0, 1.0
		count := rapid.IntRange(0, 4).Draw(t, "suspensions")
		for n := range count {
			opened := ended + hour.Draw(t, "opened after the one before")
			known := opened - hour.Draw(t, "knows the time before")
			accepted := opened + hour.Draw(t, "accepted after")
			ended = accepted
			if n == count-1 && rapid.Bool().Draw(t, "open") {
				accepted, open = 0, 1
			}
			all = append([]payment.Suspension{suspended(known, opened, accepted)}, all...) // newest first
		}
		claim := payment.Claim{Action: payment.ActionSend, CreatedAt: at(hour.Draw(t, "created")),
			SendCount: rapid.IntRange(0, 3).Draw(t, "sends")}
		if rapid.Bool().Draw(t, "was sent") {
			claim.FirstSentAt = claim.CreatedAt.Add(time.Hour)
			claim.LastSentAt = claim.FirstSentAt.Add(time.Hour)
		}
		got := claim.Weigh(all)
		if !claim.FirstSentAt.IsZero() && got.FirstSentAt.After(claim.FirstSentAt) ||
			got.LastSentAt.Before(claim.LastSentAt) {
			t.Fatalf("sent %s to %s becomes %s to %s", claim.FirstSentAt, claim.LastSentAt, got.FirstSentAt, got.LastSentAt)
		}
		if got.Doubted != (open > 0) || got.Doubted && !got.MaybeSent {
			t.Fatalf("doubted %t, maybe sent %t with %d open", got.Doubted, got.MaybeSent, open)
		}
		if got.Doubted && (got.FirstSentAt.IsZero() || got.FirstSentAt.After(all[0].KnownUntil)) {
			t.Fatalf("a forgotten send may be of %s, the first counts as of %s", all[0].KnownUntil, got.FirstSentAt)
		}
		if got.SendNo() < claim.SendNo() || got.MaybeSent && (got.SendNo() < 2 || got.OneSend()) {
			t.Fatalf("send %d becomes send %d", claim.SendNo(), got.SendNo())
		}
		if again := got.Weigh(all); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", got) {
			t.Fatalf("weighed twice: %+v, then %+v", got, again)
		}
	})
}

func TestSendNo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		claim payment.Claim
		want  int
	}{
		{"the first", payment.Claim{}, 1},
		{"the third", payment.Claim{SendCount: 2, FirstSentAt: noon}, 3},
		{"after a replay", payment.Claim{FirstSentAt: noon}, 2},
		{"after a restore", payment.Claim{MaybeSent: true}, 2},
		{"after both", payment.Claim{MaybeSent: true, FirstSentAt: noon}, 2},
		{"the third after a restore", payment.Claim{SendCount: 2, MaybeSent: true}, 3},
	} {
		if got := c.claim.SendNo(); got != c.want {
			t.Errorf("%s: send %d, want %d", c.name, got, c.want)
		}
	}
}
