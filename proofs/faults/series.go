package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Series is many runs: every fault with every seed.
type Series struct {
	Faults   []Fault
	Seeds    []uint64
	Built    Binaries
	Lanes    int       // that run beside each other
	Evidence *Evidence // nil: nothing is kept or skipped
	Out      io.Writer
}

// task is one run to be made.
type task struct {
	fault Fault
	seed  uint64
}

// Run makes every run that the evidence does not have yet.
func (s Series) Run(ctx context.Context) (Total, error) {
	var mu sync.Mutex // total, failed and Out
	total := Total{Seeds: len(s.Seeds)}
	var failed []error
	out := lockedWriter{mu: &sync.Mutex{}, to: s.Out}
	note := func(report Report, old bool) {
		mu.Lock()
		defer mu.Unlock()
		total.Add(report)
		if old {
			return
		}
		word := "good"
		if !report.Good() {
			word = "BAD "
		}
		fmt.Fprintf(out, "%s %s\n", word, report)
		if report.Good() {
			return
		}
		for _, broken := range report.Verdict.Broken {
			fmt.Fprintf(out, "     %s\n", broken)
		}
		if report.Hit == 0 {
			fmt.Fprintf(out, "     the fault was never hit\n")
		}
		fmt.Fprintf(out, "     %s\n     logs and ledgers: %s\n", report.Error, report.Folder)
	}
	tasks := make(chan task)
	var lanes sync.WaitGroup
	for range s.Lanes {
		lanes.Go(func() {
			if err := s.lane(ctx, tasks, out, note); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
				for range tasks { // let the others be handed out
				}
			}
		})
	}
	for _, seed := range s.Seeds {
		for _, fault := range s.Faults {
			if s.Evidence != nil {
				if report, ok := s.Evidence.Done(fault.Name, seed, s.Built.Digest); ok {
					note(report, true)
					continue
				}
			}
			select {
			case tasks <- task{fault, seed}:
			case <-ctx.Done():
			}
		}
	}
	close(tasks)
	lanes.Wait()
	return total, errors.Join(append(failed, context.Cause(ctx))...)
}

// lane makes runs on a cluster of its own.
func (s Series) lane(ctx context.Context, tasks <-chan task, out io.Writer, note func(Report, bool)) (err error) {
	var lane *Lane
	defer func() {
		if lane != nil {
			err = errors.Join(err, lane.Close())
		}
	}()
	for each := range tasks {
		if ctx.Err() != nil {
			return nil
		}
		if lane == nil {
			if lane, err = NewLane(ctx, s.Built); err != nil {
				return err
			}
		}
		report := Run(ctx, lane, each.fault, each.seed, out)
		if ctx.Err() != nil {
			return nil // broken off: that is no evidence
		}
		note(report, false)
		if s.Evidence != nil {
			if err := s.Evidence.Add(report); err != nil {
				return err
			}
		}
		if lane.Server.PID() == 0 {
			// A run left its cluster down: the next one gets another.
			if err := lane.Close(); err != nil {
				return err
			}
			lane = nil
		}
	}
	return nil
}

type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
