package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// answerFaults returns the faults of banks that decide on a payment and give no answer,
// or one that can't be trusted. Most of their rules apply to half of the payments, at
// both banks.
func answerFaults() []Fault {
	half := func(kind railsim.FaultKind) railsim.Fault { return railsim.Fault{Kind: kind, Probability: 0.5} }
	with := func(f railsim.Fault, change func(*railsim.Fault)) railsim.Fault { change(&f); return f }
	one := func(name, about string, rules ...railsim.Fault) Fault {
		return Fault{
			Name: name, About: about,
			Inject: func(ctx context.Context, w *World) error { return w.spoiledTraffic(ctx, rules...) },
			Check:  func(w *World, _ Facts) { w.memoryKept() },
		}
	}
	return []Fault{
		one("answer_lost_after_execution", "the bank executes and closes the connection, or resets it",
			half(railsim.DropAfter), half(railsim.ResetAfter)),
		one("answer_lost_after_refusal", "the bank refuses for good and closes the connection", half(railsim.RefuseDrop)),
		one("answer_refused", "the bank refuses for good and says so", half(railsim.Refuse)),
		one("answer_status_500", "the bank executes and answers 500", half(railsim.StatusAfter)),
		one("answer_status_503_before", "the bank does not execute and answers 503",
			with(half(railsim.StatusBefore), func(f *railsim.Fault) { f.Status = 503 })),
		one("answer_garbage", "the bank executes and answers with a page, broken JSON, nothing, or half",
			railsim.Fault{Kind: railsim.HTMLAfter, Probability: 0.2},
			railsim.Fault{Kind: railsim.BadJSONAfter, Probability: 0.2},
			railsim.Fault{Kind: railsim.EmptyAfter, Probability: 0.3},
			railsim.Fault{Kind: railsim.TruncatedAfter, Probability: 0.4}),
		one("answer_huge", "the bank executes and answers with a GiB", half(railsim.HugeAfter)),
		one("answer_gzip_bomb", "the bank executes and answers with what unpacks to a GiB", half(railsim.GzipBombAfter)),
		one("answer_wrong_id", "the bank executes and answers with the id of no payment, or about another's",
			half(railsim.WrongIDAfter), half(railsim.WrongReferenceAfter)),
		{
			Name: "answer_redirect", About: "both banks send the payment on to the other bank, before or after they have " +
				"executed it",
			Inject: redirect, Check: func(w *World, _ Facts) { w.memoryKept() },
		},
		one("late_execution", "the bank executes long after the relayer has given up, the key known or unknown meanwhile",
			with(half(railsim.DelayArrival), func(f *railsim.Fault) { f.DelayMS = 4500 }),
			with(half(railsim.DelayBefore), func(f *railsim.Fault) { f.DelayMS = 2500 })),
		one("inquiry_lies", "answers are lost, and to an inquiry the bank says that there is no such payment",
			half(railsim.DropAfter), half(railsim.InquiryNotFound)),
		one("inquiry_unusable", "answers are lost, and inquiries hang, break, or answer about another payment",
			half(railsim.DropAfter), railsim.Fault{Kind: railsim.InquiryGarbage, Probability: 0.2},
			railsim.Fault{Kind: railsim.InquiryWrongID, Probability: 0.2},
			railsim.Fault{Kind: railsim.InquiryDrop, Probability: 0.2},
			railsim.Fault{Kind: railsim.InquiryStatus, Probability: 0.2, Status: 503},
			railsim.Fault{Kind: railsim.InquiryHang, Probability: 0.2, DelayMS: 3000}),
	}
}

// redirect makes each bank redirect payments to the other one, which would execute them
// as well.
func redirect(ctx context.Context, w *World) error {
	rules := func(to *Bank) []railsim.Fault {
		return []railsim.Fault{
			{Kind: railsim.RedirectAfter, Probability: 0.5, URL: to.URL + "/payments", Status: 307},
			{Kind: railsim.RedirectBefore, Probability: 0.5, URL: to.URL + "/payments", Status: 308},
		}
	}
	if err := errors.Join(w.Dedupes.Spoil(ctx, rules(w.Bare)...), w.Bare.Spoil(ctx, rules(w.Dedupes)...)); err != nil {
		return err
	}
	return w.underFault(ctx)
}

// spoiledTraffic sets fault rules at both banks and sends waves of payments to them.
func (w *World) spoiledTraffic(ctx context.Context, rules ...railsim.Fault) error {
	if err := errors.Join(w.Dedupes.Spoil(ctx, rules...), w.Bare.Spoil(ctx, rules...)); err != nil {
		return err
	}
	return w.underFault(ctx)
}

// underFault sends waves while the banks' fault rules are in force, and counts the
// payments that were hit.
func (w *World) underFault(ctx context.Context) error {
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	// Recovery during the fault is part of the test; what takes longer recovers after the
	// heal.
	if err := await.Until(ctx, 6*time.Second, "the traffic", func() (bool, error) {
		pending, claims, err := w.waiting(ctx)
		return pending == 0 && claims == 0, err
	}); err != nil && !errors.Is(err, await.ErrNotInTime) {
		return err
	}
	if err := w.countSpoiled(ctx); err != nil {
		return err
	}
	return w.Snapshot(ctx)
}

func (w *World) countSpoiled(ctx context.Context) error {
	dedupes, err := w.Dedupes.Spoiled(ctx)
	if err != nil {
		return err
	}
	bare, err := w.Bare.Spoiled(ctx)
	if err != nil {
		return err
	}
	w.Injected, w.Hit = w.Injected+dedupes+bare, w.Hit+dedupes+bare
	if dedupes == 0 || bare == 0 {
		return fmt.Errorf("the fault hit %d payments of one bank and %d of the other", dedupes, bare)
	}
	return nil
}

// memoryMax is the most memory that a relayer may hold, in bytes, whatever a bank
// answers.
const memoryMax = 100 << 20

// memoryKept checks the peak memory of the relayers that lived through the fault. The
// peaks are read before the relayers are stopped.
func (w *World) memoryKept() {
	for name, peak := range w.peaks {
		if peak > memoryMax {
			w.Broken("%s held %d MiB at its peak, more than %d", name, peak>>20, memoryMax>>20)
		}
	}
}
