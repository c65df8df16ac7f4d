package faults

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// windowFaults returns the faults of re-sends: when they come too late, and what an
// answer to one of them says about the others.
func windowFaults() []Fault {
	few := func(o *Options) {
		o.Rails, o.MaxSends, o.RetryBase = []string{Keyed}, 3, 600*time.Millisecond
	}
	return []Fault{
		{
			Name: "key_window_over", About: "the lanes are paused until the bank has forgotten the keys of payments whose " +
				"answers were lost",
			Adjust: func(o *Options) { few(o); o.KeyWindow = 4 * time.Second },
			Inject: outlastWindow, Quiet: true,
		},
		{
			Name: "refused_meanwhile", About: "the first send is on its way for seconds, and the bank refuses every further " +
				"one for load",
			Adjust: func(o *Options) { few(o); o.IDAfterRefusal = payment.IDSame },
			Inject: refuseMeanwhile, Quiet: true,
		},
		{
			Name: "replay_duplicate", About: "the bank executes, loses the answer and does not find the payment; it is " +
				"replayed, and the bank calls it a duplicate",
			Adjust: func(o *Options) {
				few(o)
				o.MaxSends, o.IDAfterRefusal = 1, payment.IDSame
				o.OnReplay = drawReplay(o.Fault, o.Seed, railsim.Replays()[1:])
			},
			Inject: replayExecuted, Quiet: true,
		},
	}
}

func outlastWindow(ctx context.Context, w *World) error {
	if err := w.Dedupes.Spoil(ctx, railsim.Fault{Kind: railsim.DropAfter, Probability: 1}); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := await.Until(ctx, reachWithin, "answers to be lost", func() (bool, error) {
		hit, err := w.Dedupes.Spoiled(ctx)
		return hit >= w.Options.Wave/2, err
	}); err != nil {
		return err
	}
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_rails SET paused = true, paused_by = 'proof', paused_at = now(), pause_reason = 'window'
	  WHERE rail_type = '*'`); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if err := w.Dedupes.Spoil(ctx); err != nil {
		return err
	}
	// The pause covers the last send before it, and then the bank's whole key window.
	pause(ctx, w.Options.KeyWindow+sendBudget+500*time.Millisecond)
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	if err := w.Lane.exec(ctx, w.database, `UPDATE `+cell+`.payment_rails SET paused = false
		WHERE rail_type = '*'`); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("after the pause: %v", err)
	}
	w.Injected++
	return w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_attempts
		WHERE error_code = 'KEY_WINDOW_CLOSED'`).Scan(&w.Hit)
}

func refuseMeanwhile(ctx context.Context, w *World) error {
	const onItsWay = 6 * time.Second
	rules := []railsim.Fault{
		{Kind: railsim.DelayArrival, Probability: 1, DelayMS: onItsWay.Milliseconds(), Match: railsim.Match{Nth: 1}},
	}
	for n := 2; n <= w.Options.MaxSends; n++ {
		rules = append(rules, railsim.Fault{Kind: railsim.StatusBefore, Probability: 1, Status: 422, Word: "REFUSED",
			Code: "AB05", Match: railsim.Match{Nth: int64(n)}})
	}
	if err := w.Dedupes.Spoil(ctx, rules...); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave / 2); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("under refusals: %v", err)
	}
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	var err error
	if w.Hit, err = w.Dedupes.Spoiled(ctx); err != nil {
		return err
	}
	w.Injected = w.Hit
	// Now the first sends arrive, and the bank executes them.
	pause(ctx, onItsWay)
	return nil
}

// lastRow is the number of the last row of a payment, which an act names.
func (w *World) lastRow(ctx context.Context, outboxID string) (string, error) {
	type row struct{ Last string }
	rows, err := collect[row](ctx, w, `SELECT max(attempt_no)::text FROM `+cell+`.payment_outbox_attempts
	  WHERE outbox_id = '`+outboxID+`'`)
	if err != nil {
		return "", err
	}
	return rows[0].Last, nil
}

// replayExecuted has an operator believe a bank that does not find a payment that it has
// executed, and replay the payment.
func replayExecuted(ctx context.Context, w *World) error {
	if err := w.Dedupes.Spoil(ctx, railsim.Fault{Kind: railsim.DropAfter, Probability: 1}); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		return err
	}
	if err := w.Dedupes.Spoil(ctx, railsim.Fault{Kind: railsim.InquiryNotFound, Probability: 1}); err != nil {
		return err
	}
	type row struct {
		OutboxID, InstructionID string
		CanBeAsked              bool
	}
	parked, err := collect[row](ctx, w, `SELECT d.outbox_id::text, k.instruction_id, coalesce((p.profile #>> '{inquiry,max}')::integer, 0) > 0
	  FROM `+cell+`.payment_dead_letters d
	  JOIN `+cell+`.payment_outbox_keys k USING (outbox_id)
	  JOIN `+cell+`.payment_outbox_attempts a ON a.outbox_id = d.outbox_id AND a.attempt_no = 1
	  JOIN `+cell+`.payment_rails r ON r.rail_type = a.rail_type
	  JOIN `+cell+`.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
	  WHERE d.reason = 'OUTCOME_UNKNOWN' ORDER BY d.outbox_id`)
	if err != nil {
		return err
	}
	for _, each := range parked {
		if err := w.Dedupes.denies(ctx, each.InstructionID); err != nil {
			return err
		}
		w.Injected++
		if each.CanBeAsked {
			if err := w.Operate(ctx, "payment", "inquire", each.OutboxID, "--reason",
				"the bank's word, to resolve it"); err != nil {
				return err
			}
		}
		if _, err := w.AwaitRest(ctx); err != nil {
			return err
		}
		last, err := w.lastRow(ctx, each.OutboxID)
		if err != nil {
			return err
		}
		if err := w.Operate(ctx, "dead-letter", "resolve", each.OutboxID, "--not-executed", "--row", last, "--rail-silent",
			"--evidence-date", time.Now().UTC().Format(time.DateOnly),
			"--document", "the bank's inquiry", "--reason", "the bank does not find it"); err != nil {
			return err
		}
		if err := w.Operate(ctx, "dead-letter", "replay", each.OutboxID, "--reason", "to be paid after all"); err != nil {
			return err
		}
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("after the replays: %v", err)
	}
	heard, err := w.Dedupes.heard()
	if err != nil {
		return err
	}
	sends := make(map[string]int)
	for _, request := range heard {
		if request.Op == "payment" {
			if sends[request.Reference]++; sends[request.Reference] == 2 {
				w.Hit++
			}
		}
	}
	return nil
}

// denies asks the bank for a payment as an operator would, and returns an error if the
// bank finds it.
func (b *Bank) denies(ctx context.Context, instructionID string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+"/payments/by-reference/"+instructionID,
		http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		return fmt.Errorf("the bank was asked for %s and answers %s", instructionID, answer.Status)
	}
	return nil
}
