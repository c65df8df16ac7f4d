package money

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// Report holds the results that a run is judged by.
type Report struct {
	Seed            uint64  `json:"seed"`
	Payments        int     `json:"payments"` // both halves
	Terminal        int     `json:"terminal"`
	Parked          int     `json:"parked"` // PARKED and CONFLICT: an operator decides
	Injected        int64   `json:"injected"`
	Doubled         int     `json:"doubled"`          // executed more than once
	FalseFailed     int     `json:"false_failed"`     // FAILED or CANCELLED, and executed
	FalseDispatched int     `json:"false_dispatched"` // DISPATCHED, and not executed
	Unfinished      int     `json:"unfinished"`
	Unknown         int     `json:"unknown_executions"` // of what no caller had enqueued
	Seconds         float64 `json:"seconds"`
	// States and Executions are by rail.
	States     map[string]map[string]int `json:"states"`
	Executions map[string]int            `json:"executions"`
	// Faults counts injections by kind, over all banks.
	Faults map[railsim.FaultKind]int64 `json:"faults"`
	// Wrong names the first of what is wrong.
	Wrong []string `json:"wrong,omitempty"`
}

// Line returns the summary of the run, without its prefix.
func (r Report) Line() string {
	return fmt.Sprintf("payments=%d terminal=%d parked=%d injected=%d doubled=%d false_failed=%d false_dispatched=%d",
		r.Payments, r.Terminal, r.Parked, r.Injected, r.Doubled, r.FalseFailed, r.FalseDispatched)
}

func (r Report) verdict() error {
	if r.Doubled+r.FalseFailed+r.FalseDispatched+r.Unfinished+r.Unknown == 0 && r.Terminal+r.Parked == r.Payments {
		return nil
	}
	return fmt.Errorf("%w: doubled %d, false failed %d, false dispatched %d, unfinished %d, executions of nothing "+
		"enqueued %d: %v",
		ErrMoney, r.Doubled, r.FalseFailed, r.FalseDispatched, r.Unfinished, r.Unknown, r.Wrong)
}

// maxWrong bounds the names of what is wrong.
const maxWrong = 20

func (r *Report) wrong(format string, args ...any) {
	if len(r.Wrong) < maxWrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	}
}

func (w *world) injected() int64 {
	var sum int64
	for _, bank := range w.banks {
		for _, n := range bank.Faults().Totals {
			sum += n
		}
	}
	return sum
}

// judge compares the states in the database with the banks' ledger files. An execution is
// recognized by its reference, which is the instruction's own id, so that a payment under a second
// key is recognized too.
func (w *world) judge(ctx context.Context) (Report, error) {
	r := Report{
		Seed: w.Seed, Payments: 2 * w.Payments, States: make(map[string]map[string]int),
		Executions: make(map[string]int), Faults: make(map[railsim.FaultKind]int64),
	}
	executed := make(map[string]int)
	for _, bank := range w.banks {
		records, err := railsim.ReadLedger(bank.Ledger)
		if err != nil {
			return r, err
		}
		for _, record := range records {
			if record.Kind == railsim.Executed {
				executed[record.Reference]++
				r.Executions[bank.Shape.RailType()]++
			}
		}
		for kind, n := range bank.Faults().Totals {
			r.Faults[kind] += n
		}
	}
	seen := 0
	for half := range 2 {
		states, err := w.reader.StatesByPrefix(ctx, w.prefix(half))
		if err != nil {
			return r, err
		}
		for id, state := range states {
			one, ours := w.enqueued[id]
			if !ours {
				continue // of an earlier run of the same seed on the same database
			}
			seen++
			r.count(one, state, executed[one.name])
			delete(executed, one.name)
		}
	}
	r.Unfinished += r.Payments - seen
	for name := range executed {
		r.Unknown++
		r.wrong("%s was executed and never enqueued", name)
	}
	return r, nil
}

func (r *Report) count(one enqueued, state string, executed int) {
	name := one.name
	if r.States[one.rail] == nil {
		r.States[one.rail] = make(map[string]int)
	}
	r.States[one.rail][state]++
	switch {
	case isTerminal(state):
		r.Terminal++
	case isParked(state):
		r.Parked++
	default:
		r.Unfinished++
		r.wrong("%s is %s", name, state)
	}
	if executed > 1 {
		r.Doubled++
		r.wrong("%s was executed %d times and is %s", name, executed, state)
	}
	switch payment.State(state) {
	case payment.Dispatched:
		if executed == 0 {
			r.FalseDispatched++
			r.wrong("%s is DISPATCHED and was not executed", name)
		}
	case payment.Failed, payment.Cancelled:
		if executed > 0 {
			r.FalseFailed++
			r.wrong("%s is %s and was executed", name, state)
		}
	}
}

// keepEvidence writes the data that the last line was counted from, next to the banks' ledger
// files.
func (w *world) keepEvidence(ctx context.Context, r Report) error {
	file, err := os.Create(filepath.Join(w.Evidence, "attempts.csv"))
	if err != nil {
		return err
	}
	err = w.reader.ExportAttempts(ctx, fmt.Sprintf("money-%d-", w.Seed), csv.NewWriter(file))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	options := map[string]any{"payments": w.Payments, "seed": w.Seed, "faults": w.Faults, "bound": w.Bound.String(),
		"speed": w.Speed, "rails": []string{}}
	replays := make(map[string]railsim.Replay)
	for n, shape := range w.Shapes {
		options["rails"] = append(options["rails"].([]string), shape.RailType())
		if shape.Dedupes() {
			replays[shape.RailType()] = w.onReplay(n)
		}
	}
	options["on_replay"] = replays
	for name, value := range map[string]any{"options.json": options, "summary.json": r} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(w.Evidence, name), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
