package payment_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/railhead-pay/railhead/payment"
)

var update = flag.Bool("update", false, "write testdata/decisions.golden anew, to be read line by line before it is "+
	"committed")

// The golden file is the table for readers: what becomes of an instruction on
// eight kinds of rail, answer by answer. The oracle proves; this page explains.
func TestDecisionsOfTheEightRails(t *testing.T) {
	const path = "testdata/decisions.golden"
	var page strings.Builder
	for _, rail := range []struct {
		name   string
		policy payment.Policy
	}{
		{"card: no keys, no inquiry", cardRail()},
		{"keyed: keys for 24h, no inquiry, an answer covers the key", keyedRail()},
		{"again: keys for 24h, no inquiry, a refused key is taken again", againRail()},
		{"instant: keys for 24h, inquiry, NOT_FOUND proves after 2m", instantRail()},
		{"wire: no keys, inquiry, NOT_FOUND proves after 2m, a refused key is taken again", wireRail()},
		{"batch: takes now, inquiry later, NOT_FOUND proves nothing", batchRail()},
		{"either: executes now, or takes now and is asked later, as each answer says", eitherRail()},
		{"callback: takes now, calls back within 1h, no inquiry", callbackRail()},
	} {
		fmt.Fprintf(&page, "== %s\n", rail.name)
		for _, moment := range moments(rail.policy) {
			fmt.Fprintf(&page, "\n%s\n", moment.name)
			for _, word := range moment.words {
				d := rail.policy.Decide(moment.claim, payment.Answer{Result: word, Elapsed: time.Second})
				fmt.Fprintf(&page, "  %-18s %s\n", word, sentence(d))
			}
			fmt.Fprintf(&page, "  %-18s %s\n", "(worker lost)", sentence(rail.policy.DecideLost(moment.claim, 2*time.Minute, 0)))
		}
		page.WriteString("\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(page.String(), "\n")); diff != "" {
		t.Errorf("%s is not what the rules say (-file +rules):\n%s", path, diff)
	}
}

type moment struct {
	name  string
	claim payment.Claim
	words []payment.Result
}

// moments are the claims that a rail of this policy leads to.
func moments(p payment.Policy) []moment {
	sending := append(payment.SendResults(), payment.ResultCheckFailed, payment.ResultTampered)
	resending := append(payment.SendResults(), payment.ResultRenderChanged)
	earlier := func(c payment.Claim) payment.Claim {
		c.AttemptNo, c.ClaimedAt, c.SendCount = 3, noon, 1
		c.FirstSentAt, c.LastSentAt = noon.Add(-10*time.Minute), noon.Add(-10*time.Minute)
		return c
	}
	all := []moment{
		{"first send", payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ClaimedAt: noon}, sending},
	}
	if p.IDAfterRefusal == payment.IDSame {
		c := earlier(payment.Claim{Action: payment.ActionSend})
		c.SendCount = 2
		all = append(all, moment{"third send, two were refused for now", c, resending})
	}
	if p.ResendOnUnknown == payment.ResendSameKey && p.Inquiry.Max == 0 {
		all = append(all, moment{"second send, the first unknown",
			earlier(payment.Claim{Action: payment.ActionSend, OutcomeUnknown: true}),
			append(resending, payment.ResultWindowClosed)})
	}
	provisional := p.Acceptance != payment.AcceptanceFinal
	if p.Inquiry.Max > 0 {
		all = append(all,
			moment{"second inquiry, 10m after the send",
				earlier(payment.Claim{Action: payment.ActionInquire, OutcomeUnknown: true, Provisional: provisional,
					InquiryCount: 1}), payment.InquiryResults()},
			moment{"last inquiry", earlier(payment.Claim{Action: payment.ActionInquire, OutcomeUnknown: true,
				Provisional: provisional, InquiryCount: p.Inquiry.Max - 1}), payment.InquiryResults()},
		)
	}
	if p.CallbackDeadline > 0 {
		overdue := earlier(payment.Claim{Action: payment.ActionInquire, OutcomeUnknown: true, Provisional: true})
		overdue.ClaimedAt = overdue.LastSentAt.Add(time.Duration(p.CallbackDeadline))
		all = append(all, moment{"the callback's deadline has come", overdue,
			[]payment.Result{payment.ResultExecuted, payment.ResultRefused, payment.ResultUnavailable}})
	}
	return all
}

// sentence formats a decision in one line.
func sentence(d payment.Decision) string {
	var b strings.Builder
	b.WriteString(string(d.State))
	if d.Park {
		b.WriteString(" + PARKED")
	}
	if d.ErrorCode != "" {
		fmt.Fprintf(&b, " (%s)", d.ErrorCode)
	}
	switch {
	case d.Requeue:
		fmt.Fprintf(&b, ", %s in %s", d.NextAction, payment.Duration(d.Delay))
	case d.Reason != "":
		fmt.Fprintf(&b, ", dead letter %s", d.Reason)
	}
	if d.OutcomeUnknown {
		b.WriteString(", unknown")
	}
	return b.String()
}
