package faults

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// hangFaults returns the faults of a bank that hangs, one for each phase of a call. Only
// the bank behind Keyed and Asked hangs: the lanes of the other bank must not be
// affected.
func hangFaults() []Fault {
	const hang = 4000 // ms, longer than any timeout of the rails
	var all []Fault
	for _, one := range []struct {
		name, about string
		rule        railsim.Fault
	}{
		{"hang_accept", "connections are accepted and nothing is ever read",
			railsim.Fault{Kind: railsim.HangAccept, DelayMS: hang}},
		{"hang_unread", "the request is never read", railsim.Fault{Kind: railsim.HangUnread, DelayMS: hang}},
		{"hang_before", "the request is read, nothing is executed and nothing is answered",
			railsim.Fault{Kind: railsim.HangBefore, DelayMS: hang}},
		{"hang_after", "the payment is executed and nothing is answered",
			railsim.Fault{Kind: railsim.HangAfter, DelayMS: hang}},
		{"hang_headers", "the payment is executed and the answer drips from its first byte on",
			railsim.Fault{Kind: railsim.DripHeadersAfter, DelayMS: 200}},
		{"hang_body", "the payment is executed and the body of the answer drips",
			railsim.Fault{Kind: railsim.DripBodyAfter, DelayMS: 200}},
	} {
		one.rule.Probability = 0.8 // the testbed's own calls to the bank are connections too
		all = append(all, Fault{
			Name: one.name, About: one.about,
			Adjust: func(o *Options) { o.Rounds = 1; o.Wave = 32 },
			Inject: func(ctx context.Context, w *World) error { return hangOne(ctx, w, one.rule) },
		})
	}
	return all
}

// hangOne hangs one bank, and checks that the other bank's lanes empty meanwhile.
func hangOne(ctx context.Context, w *World, rule railsim.Fault) error {
	if err := w.Dedupes.Spoil(ctx, rule); err != nil {
		return err
	}
	w.Injected++
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	err := await.Until(ctx, 8*time.Second, "the lanes of the healthy bank", func() (bool, error) {
		var left int
		err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_pending
			WHERE rail_type LIKE 'bare%'`).Scan(&left)
		return left == 0, err
	})
	if errors.Is(err, await.ErrNotInTime) {
		w.Broken("a bank that hangs keeps the other's instructions waiting: %v", err)
	} else if err != nil {
		return err
	}
	// The pause is long enough for the calls to the hanging bank to use up their send budget.
	pause(ctx, 3*time.Second)
	hit, err := w.Dedupes.Spoiled(ctx)
	w.Hit += hit
	return err
}
