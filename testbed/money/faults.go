package money

import (
	"maps"
	"math"
	"slices"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// faultsOf returns rules of every kind that the bank of a shape can have while it stays honest, so
// that a share of its work fails. At each stage all faults are equally likely.
func faultsOf(shape simrail.Shape, share float64) []railsim.Fault {
	rules := spread(share, payments())
	if shape.Provisional() {
		rules = append(rules, spread(share, settlements())...)
		rules = append(rules, spread(share, callbackFaults())...)
	}
	if shape.Asked() {
		rules = append(rules, spread(share, inquiries(shape))...)
	}
	// Connections are kept, so that even a few of them carry many requests.
	for _, rule := range []railsim.Fault{{Kind: railsim.HangAccept, DelayMS: 1500},
		{Kind: railsim.HangUnread, DelayMS: 1500}} {
		rule.Probability = share / 20
		rules = append(rules, rule)
	}
	return rules
}

// onReplay returns how the bank of the nth shape answers a key that it has seen. It depends on the
// seed, so that five seeds in a row give every shape every answer.
func (o Options) onReplay(n int) railsim.Replay {
	all := railsim.Replays()
	return all[(uint64(n)+o.Seed)%uint64(len(all))]
}

// spread gives rules that are tried in order one probability each, so that one of
// them hits with the share as a whole.
func spread(share float64, rules []railsim.Fault) []railsim.Fault {
	for n := range rules {
		rules[n].Probability = 1 - math.Pow(1-share, 1/float64(len(rules)))
	}
	return rules
}

// payments are the faults of a send. Status codes that prove "not executed" are
// given only by a bank that did not execute; the delays are longer than any
// relayer waits for an answer, and shorter than the age at which "no such
// payment" counts.
func payments() []railsim.Fault {
	const elsewhere = "http://127.0.0.1:1/payments"
	return []railsim.Fault{
		{Kind: railsim.StatusBefore, Status: 500},
		{Kind: railsim.StatusBefore, Status: 503, RetryAfterS: 1},
		{Kind: railsim.StatusBefore, Status: 429},
		{Kind: railsim.StatusBefore, Status: 400},
		{Kind: railsim.StatusBefore, Status: 401, Plain: true, Limit: 3},
		{Kind: railsim.StatusBefore, Status: 404, Plain: true, Limit: 30},
		{Kind: railsim.DropBefore}, {Kind: railsim.ResetBefore}, {Kind: railsim.HangBefore, DelayMS: 3000},
		{Kind: railsim.RedirectBefore, URL: elsewhere},
		{Kind: railsim.DelayArrival, DelayMS: 1300}, {Kind: railsim.DelayBefore, DelayMS: 1300},
		{Kind: railsim.DelayAfter, DelayMS: 1300},
		{Kind: railsim.Refuse}, {Kind: railsim.Refuse, Code: "AC04"}, {Kind: railsim.Refuse, Code: "AB05"},
		{Kind: railsim.RefuseDrop, Code: "AC04"},
		{Kind: railsim.DropAfter}, {Kind: railsim.ResetAfter}, {Kind: railsim.HangAfter, DelayMS: 3000},
		{Kind: railsim.StatusAfter, Status: 500}, {Kind: railsim.StatusAfter, Status: 504},
		{Kind: railsim.RedirectAfter, URL: elsewhere},
		{Kind: railsim.HTMLAfter}, {Kind: railsim.BadJSONAfter}, {Kind: railsim.EmptyAfter}, {Kind: railsim.TruncatedAfter},
		{Kind: railsim.ResentAfter}, {Kind: railsim.WrongIDAfter}, {Kind: railsim.AnotherIDAfter},
		{Kind: railsim.WrongReferenceAfter},
		{Kind: railsim.HugeAfter, Bytes: 2 << 20}, {Kind: railsim.GzipBombAfter, Bytes: 8 << 20},
		{Kind: railsim.DripHeadersAfter, DelayMS: 100}, {Kind: railsim.DripBodyAfter, DelayMS: 100},
	}
}

func settlements() []railsim.Fault {
	return []railsim.Fault{{Kind: railsim.DelaySettle, DelayMS: 700}, {Kind: railsim.RefuseSettle, Code: "AC04"}}
}

func callbackFaults() []railsim.Fault {
	return []railsim.Fault{
		{Kind: railsim.CallbackLate, DelayMS: 1000}, {Kind: railsim.CallbackNever},
		{Kind: railsim.CallbackDuplicate, Times: 2},
		{Kind: railsim.CallbackConflict}, {Kind: railsim.CallbackWrongReference}, {Kind: railsim.CallbackBadSignature},
	}
}

// inquiries returns the faults of an inquiry, without the false answers that a profile of this
// shape rules out: a rail whose "no such payment" counts from some age on does not say so about a
// payment that it has.
func inquiries(shape simrail.Shape) []railsim.Fault {
	all := []railsim.Fault{
		{Kind: railsim.InquiryDelay, DelayMS: 300}, {Kind: railsim.InquiryHang, DelayMS: 3000}, {Kind: railsim.InquiryDrop},
		{Kind: railsim.InquiryStatus, Status: 503}, {Kind: railsim.InquiryStatus, Status: 404},
		{Kind: railsim.InquiryUnknown},
		{Kind: railsim.InquiryGarbage}, {Kind: railsim.InquiryWrongID}, {Kind: railsim.InquiryBlind},
		{Kind: railsim.InquiryLag, DelayMS: 500}, {Kind: railsim.InquiryLag, DelayMS: 1000, Answer: "IN_PROGRESS"},
	}
	if shape.NotFound != payment.NotFoundNotExecuted {
		all = append(all, railsim.Fault{Kind: railsim.InquiryNotFound}, railsim.Fault{Kind: railsim.InquiryNoTrace},
			railsim.Fault{Kind: railsim.InquiryForgetful, DelayMS: 100})
	}
	return all
}

// FaultKinds returns the kinds that a run injects, over all shapes.
func FaultKinds() []railsim.FaultKind {
	seen := make(map[railsim.FaultKind]bool)
	for _, shape := range simrail.Shapes() {
		for _, rule := range faultsOf(shape, 0.2) {
			seen[rule.Kind] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
