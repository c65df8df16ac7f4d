package localrun

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// summary is the state of a run in the database.
type summary struct {
	states map[payment.ID]string // by instruction; PENDING, UNKNOWN or ACCEPTED while it waits
	took   time.Duration
}

func (s summary) counts() map[string]int {
	counts := make(map[string]int)
	for _, state := range s.states {
		counts[state]++
	}
	return counts
}

// ended reports whether every instruction has ended or waits for an operator.
func (s summary) ended(wanted int) bool {
	if len(s.states) != wanted {
		return false
	}
	for _, state := range s.states {
		switch payment.State(state) {
		case payment.Dispatched, payment.Failed, payment.Parked, payment.Cancelled:
		default:
			return false
		}
	}
	return true
}

// awaitEnd waits for the end of the run and shows its progress.
func (i *installation) awaitEnd(ctx context.Context) (summary, error) {
	begun := time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	shown := ""
	for {
		states, err := i.reader.StatesByPrefix(ctx, "run-"+i.runID+"-")
		if err != nil {
			return summary{}, err
		}
		now := summary{states: states, took: time.Since(begun)}
		if line := countsLine(now.counts()); line != shown {
			i.say("%6s  %s", now.took.Round(100*time.Millisecond), line)
			shown = line
		}
		if now.ended(i.Instructions) {
			return now, nil
		}
		if now.took > i.Timeout {
			return now, fmt.Errorf("%w: after %s: %s", ErrMismatch, i.Timeout, countsLine(now.counts()))
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("stopped while instructions were under way; they go on at the next run: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func countsLine(counts map[string]int) string {
	parts := make([]string, 0, len(counts))
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", state, counts[state]))
	}
	return strings.Join(parts, ", ")
}

// conclude compares the database with what the payee has, keeps both as evidence, and prints the line
// that the run is judged by.
func (i *installation) conclude(ctx context.Context, end summary) error {
	ledger := filepath.Join(i.Evidence, i.payee.ledgerName())
	if err := i.keepEvidence(ctx, ledger); err != nil {
		return err
	}
	times, err := i.payee.count(ledger)
	if err != nil {
		return err
	}
	keys, err := i.reader.RailKeysByPrefix(ctx, "run-"+i.runID+"-")
	if err != nil {
		return err
	}
	arrived, doubled, contradicted := 0, 0, 0
	for id, state := range end.states {
		n := times[keys[id]]
		arrived += min(n, 1)
		if n > 1 {
			doubled++
		}
		if (n > 0) != (payment.State(state) == payment.Dispatched) {
			contradicted++
		}
	}
	counts := end.counts()
	i.say("the database says: %s", countsLine(counts))
	i.say("%s; contradictions %d", i.payee.says(arrived, doubled), contradicted)
	i.say("paid in %s; evidence in %s", end.took.Round(time.Millisecond), i.Evidence)
	dispatched := counts[string(payment.Dispatched)]
	i.say("enqueued=%d dispatched=%d %s=%d doubled=%d", len(end.states), dispatched, i.payee.verb(), arrived, doubled)
	if dispatched != i.Instructions || arrived != i.Instructions || doubled != 0 || contradicted != 0 {
		return ErrMismatch
	}
	return nil
}

// keepEvidence copies what the payee has, and this run's rows of the archive.
func (i *installation) keepEvidence(ctx context.Context, ledger string) error {
	if err := i.payee.copyLedger(ctx, ledger); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(i.Evidence, "attempts.csv"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := i.reader.ExportAttempts(ctx, "run-"+i.runID+"-", csv.NewWriter(file)); err != nil {
		return err
	}
	return file.Close()
}
