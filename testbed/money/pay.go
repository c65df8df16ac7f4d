package money

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

var errUnfinished = errors.New("not every payment came to an end")

// payHalf pays one half of the run, with faults or healed, and waits until it has ended.
func (w *world) payHalf(ctx context.Context, half int, faults bool) error {
	for _, bank := range w.banks {
		rules := faultsOf(bank.Shape, w.Faults)
		if !faults {
			rules = nil
		}
		if err := bank.SetFaults(rules...); err != nil {
			return err
		}
	}
	begun := time.Now()
	if err := w.enqueueHalf(ctx, half); err != nil {
		return err
	}
	w.say("%s: %d enqueued in %s", halfName(half), w.Payments, time.Since(begun).Round(time.Millisecond))
	return w.await(ctx, half, begun)
}

func halfName(half int) string { return [...]string{"with faults", "healed"}[half] }

// prefix returns the prefix of the instructions of one half.
func (w *world) prefix(half int) string { return fmt.Sprintf("money-%d-%d-", w.Seed, half) }

// batch is how many instructions one transaction enqueues.
const batch = 500

func (w *world) enqueueHalf(ctx context.Context, half int) error {
	draw := rand.New(rand.NewPCG(w.Seed, uint64(half)))
	currencies := []string{"EUR", "USD", "JPY", "KWD"}
	var instructions []payment.Instruction
	flush := func() error {
		results, err := w.ingest.EnqueueBatch(ctx, instructions)
		if err != nil {
			return err
		}
		for n, result := range results {
			if result.Fault != nil {
				return fmt.Errorf("enqueue of %s: %w", instructions[n].InstructionID, result.Fault)
			}
			w.enqueued[result.Receipt.OutboxID] = enqueued{instructions[n].InstructionID, instructions[n].RailType}
		}
		instructions = instructions[:0]
		return nil
	}
	for n := range w.Payments {
		name := fmt.Sprintf("%s%07d", w.prefix(half), n)
		currency, err := payment.CurrencyOf(currencies[draw.IntN(len(currencies))])
		if err != nil {
			return err
		}
		amount := payment.Amount{Minor: 1 + draw.Int64N(1_000_000), Currency: currency}
		instructions = append(instructions, payment.Instruction{
			InstructionID: name, IdempotencyKey: name, ParticipantID: fmt.Sprintf("participant-%02d", draw.IntN(20)),
			RailType: w.Shapes[n%len(w.Shapes)].RailType(), Priority: payment.Priority(draw.IntN(3)),
			Payload: fmt.Appendf(nil, `{"amount": %q, "currency": %q, "debtor": {"account": "debtor-%02d"}, "creditor": {"account": %q}}`,
				amount.Decimal(), currency.Code, draw.IntN(50), name),
		})
		if len(instructions) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// await waits until every payment of a half has ended or waits for an operator.
func (w *world) await(ctx context.Context, half int, begun time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	shown := ""
	for {
		states, err := w.reader.StatesByPrefix(ctx, w.prefix(half))
		if err != nil {
			return err
		}
		counts := make(map[string]int)
		open := w.Payments
		for _, state := range states {
			counts[state]++
			if isTerminal(state) || isParked(state) {
				open--
			}
		}
		if line := line(counts); line != shown {
			w.say("%s: %6s  %s", halfName(half), time.Since(begun).Round(time.Second), line)
			shown = line
		}
		switch {
		case open == 0:
			return nil
		case time.Since(begun) > w.Bound:
			w.say("%s: %d payments have not come to an end within %s", halfName(half), open, w.Bound)
			return errUnfinished
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func line(counts map[string]int) string {
	parts := make([]string, 0, len(counts))
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", word, counts[word]))
	}
	return strings.Join(parts, ", ")
}

// isTerminal reports whether a payment has ended, so that only an operator may still act on it.
func isTerminal(state string) bool {
	switch payment.State(state) {
	case payment.Dispatched, payment.Failed, payment.Cancelled:
		return true
	default:
		return false
	}
}

// isParked reports whether an operator has to find out what happened.
func isParked(state string) bool { return state == string(payment.Parked) || state == "CONFLICT" }
