package faults

import (
	"context"

	"github.com/railhead-pay/railhead/railsim"
)

// inquiryFaults are words of a bank about a payment that it executes that could be
// taken for "refused".
func inquiryFaults() []Fault {
	return []Fault{{
		Name:   "cannot_trace_in_transit",
		About:  "a payment is on its way for seconds; asked about it, the bank answers as a refusal that it can't be traced (AG09), and executes it later",
		Adjust: func(o *Options) { o.Rails = []string{Asked, BareAsked} },
		Inject: func(ctx context.Context, w *World) error {
			return w.spoiledTraffic(ctx, railsim.Fault{Kind: railsim.DelayArrival, Probability: 0.5, DelayMS: 2500},
				railsim.Fault{Kind: railsim.InquiryNoTrace, Probability: 1})
		},
	}}
}
