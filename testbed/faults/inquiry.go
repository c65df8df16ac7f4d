package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// inquiryFaults returns the faults in which a bank says of a payment that it executes
// what could be taken for "refused": that it is a duplicate, can't be traced, is no
// longer known, or is known under another payment's reference.
func inquiryFaults() []Fault {
	const lookBack = 6 * time.Second
	return []Fault{
		{
			Name: "duplicate_resent",
			About: "a proxy before the bank sends a payment twice and gives back the second answer: the first send is called " +
				"a duplicate",
			Adjust: func(o *Options) {
				o.Rails = []string{Keyed, Asked}
				o.OnReplay = drawReplay(o.Fault, o.Seed, railsim.Replays()[1:])
			},
			Inject: func(ctx context.Context, w *World) error {
				return w.spoiledDedupes(ctx, railsim.Fault{Kind: railsim.ResentAfter, Probability: 0.5})
			},
		},
		{
			Name: "cannot_trace_in_transit",
			About: "a payment is on its way for seconds; asked about it, the bank answers as a refusal that it can't be " +
				"traced (AG09), and executes it later",
			Adjust: func(o *Options) { o.Rails = []string{Asked, BareAsked} },
			Inject: func(ctx context.Context, w *World) error {
				return w.spoiledTraffic(ctx, railsim.Fault{Kind: railsim.DelayArrival, Probability: 0.5, DelayMS: 2500},
					railsim.Fault{Kind: railsim.InquiryNoTrace, Probability: 1})
			},
		},
		{
			Name: "aged_out_of_lookup",
			About: "answers are lost, the bank can't be asked until it no longer looks back so far and keeps no keys, and " +
				"then says that there is no such payment; an operator would replay what is parked",
			Adjust: func(o *Options) {
				o.Rails, o.IDAfterRefusal = []string{Asked, BareAsked}, payment.IDSame
				o.MaxSends, o.RetryBase, o.NotFoundUntil, o.KeyWindow = 3, 600*time.Millisecond, lookBack, lookBack-time.Second
				o.Inquiries = 18 // some are left when it can be asked again, and spent soon after
			},
			Inject: outlastLookup, Quiet: true,
		},
		{
			Name: "by_reference_alone",
			About: "both banks take payments for now and settle or refuse them a second later; they can be asked by their " +
				"own reference alone, " +
				"and some answers to the send are lost, name no payment, or name another one",
			Adjust: func(o *Options) {
				o.Rails, o.Inquiries = []string{Asked, BareAsked}, 8
				o.ByReference, o.SettleAfter = true, time.Second
			},
			Inject: func(ctx context.Context, w *World) error {
				return w.spoiledTraffic(ctx,
					railsim.Fault{Kind: railsim.DropAfter, Probability: 0.15},
					railsim.Fault{Kind: railsim.WrongIDAfter, Probability: 0.15},
					railsim.Fault{Kind: railsim.AnotherIDAfter, Probability: 0.3},
					railsim.Fault{Kind: railsim.RefuseSettle, Probability: 0.4, Code: "AC04"},
					railsim.Fault{Kind: railsim.InquiryNotFound, Probability: 0.2},
					railsim.Fault{Kind: railsim.InquiryDrop, Probability: 0.2})
			},
			Check: func(w *World, f Facts) { w.endedByReference(f) },
		},
	}
}

// spoiledDedupes is like spoiledTraffic, for faults of the bank that de-duplicates alone.
func (w *World) spoiledDedupes(ctx context.Context, rules ...railsim.Fault) error {
	if err := w.Dedupes.Spoil(ctx, rules...); err != nil {
		return err
	}
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if err := await.Until(ctx, 30*time.Second, "payments to be hit", func() (bool, error) {
		hit, err := w.Dedupes.Spoiled(ctx)
		w.Hit = hit
		return hit >= w.Options.Wave, err
	}); err != nil {
		return err
	}
	w.Injected = w.Hit
	return w.Snapshot(ctx)
}

// outlastLookup makes the banks execute sends and lose their answers, and makes inquiries
// fail until the banks neither find the payments nor know their keys. Then the banks
// answer that there is no such payment.
func outlastLookup(ctx context.Context, w *World) error {
	lost := railsim.Fault{Kind: railsim.DropAfter, Probability: 1}
	silent := []railsim.Fault{lost, {Kind: railsim.InquiryStatus, Probability: 1, Status: 503}}
	aged := []railsim.Fault{{Kind: railsim.InquiryNotFound, Probability: 1}}
	if err := w.spoilBoth(ctx, silent); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if err := await.Until(ctx, reachWithin, "first sends to be executed", func() (bool, error) {
		dedupes, err := w.Dedupes.moved()
		if err != nil {
			return false, err
		}
		bare, err := w.Bare.moved()
		return len(dedupes)+len(bare) >= w.Options.Wave, err
	}); err != nil {
		return err
	}
	pause(ctx, w.Options.NotFoundUntil+time.Second)
	if err := w.spoilBoth(ctx, aged); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("of what is no longer known: %v", err)
	}
	if err := w.countSpoiled(ctx); err != nil {
		return err
	}
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	return w.replayWhatIsDenied(ctx)
}

// replayWhatIsDenied has an operator try to replay each parked payment, and checks that the
// database refuses: each was executed, and its bank no longer finds it. It returns an error
// if the banks have denied none of them.
func (w *World) replayWhatIsDenied(ctx context.Context) error {
	type row struct{ OutboxID, InstructionID, Last string }
	parked, err := collect[row](ctx, w, `SELECT d.outbox_id::text, k.instruction_id, coalesce((
	    SELECT a.result FROM `+cell+`.payment_outbox_attempts a
	    WHERE a.outbox_id = d.outbox_id AND a.answers_attempt_no IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1), '')
	  FROM `+cell+`.payment_dead_letters d JOIN `+cell+`.payment_outbox_keys k USING (outbox_id)
	  WHERE d.reason = 'OUTCOME_UNKNOWN' ORDER BY d.outbox_id`)
	if err != nil {
		return err
	}
	denied := 0
	for _, each := range parked {
		if each.Last == string(payment.ResultNotFound) {
			denied++
		}
		err := w.Operate(ctx, "dead-letter", "replay", each.OutboxID, "--reason", "the bank does not find it")
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitRefused {
			w.Broken("%s was executed, its bank no longer finds it, and its replay was not refused: %v", each.InstructionID, err)
		}
	}
	if denied == 0 {
		return fmt.Errorf("of %d payments that are parked the bank has denied none", len(parked))
	}
	_, err = w.AwaitRest(ctx)
	return err
}

// exitRefused is the exit status by which the program says that the database refused an
// operator's act.
const exitRefused = 9

// endedByReference checks that every inquiry names a reference of the bank, and that
// payments have ended both ways, which here an inquiry alone can prove.
func (w *World) endedByReference(f Facts) {
	asked := 0
	for _, request := range f.Heard {
		if request.Op != "inquiry" {
			continue
		}
		asked++
		if request.ID == "" {
			w.Broken("the bank was asked by %q and %q, and knows its own reference alone", request.Key, request.Reference)
		}
	}
	ended := make(map[payment.State]int)
	for _, row := range f.Rows {
		ended[row.State]++
	}
	if asked == 0 || ended[payment.Dispatched] == 0 || ended[payment.Failed] == 0 {
		w.Broken("after %d inquiries %d payments are executed and %d refused: the fault proves nothing",
			asked, ended[payment.Dispatched], ended[payment.Failed])
	}
}

func (w *World) spoilBoth(ctx context.Context, rules []railsim.Fault) error {
	if err := w.Dedupes.Spoil(ctx, rules...); err != nil {
		return err
	}
	return w.Bare.Spoil(ctx, rules...)
}
