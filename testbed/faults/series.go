package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Series is many runs: every fault with every seed.
type Series struct {
	Faults   []Fault
	Seeds    []uint64
	Built    Binaries
	Lanes    int       // that run concurrently
	Evidence *Evidence // nil: nothing is kept or skipped
	Reach    Reach     // of the evidence: what needs no run any more
	Out      io.Writer
}

// job is one run to be made.
type job struct {
	fault Fault
	seed  uint64
}

// Run makes every run that the evidence does not have yet.
func (s Series) Run(ctx context.Context) (Total, error) {
	var mu sync.Mutex // total, failed and Out
	total := newTotal(len(s.Seeds), s.Built.Digest)
	var failed []error
	out := lockedWriter{mu: &sync.Mutex{}, to: s.Out}
	note := func(report Report, old bool) {
		mu.Lock()
		defer mu.Unlock()
		total.Add(report)
		if !old || report.Good() {
			total.Repeated += s.remember(report, out)
		}
		if old && report.Good() {
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
		if report.Error != "" {
			fmt.Fprintf(out, "     %s\n", report.Error)
		}
		if old {
			fmt.Fprintf(out, "     from the evidence, of %s: what this build has lost, doubled or said falsely stays in the "+
				"sum\n", report.At.Format(time.RFC3339))
			return
		}
		fmt.Fprintf(out, "     logs and ledgers: %s\n", report.Folder)
	}
	tasks := make(chan job)
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
				if report, ok := s.Evidence.Standing(fault.Name, seed, s.Built.Digest, s.Reach); ok {
					note(report, true)
					continue
				}
			}
			select {
			case tasks <- job{fault, seed}:
			case <-ctx.Done():
			}
		}
	}
	close(tasks)
	lanes.Wait()
	return total, errors.Join(append(failed, context.Cause(ctx))...)
}

// remember reports the runs that went badly before this one. It returns 1 if there are
// any and this one went well.
func (s Series) remember(now Report, out io.Writer) int {
	if s.Evidence == nil {
		return 0
	}
	bad := s.Evidence.Bad(now.Fault, now.Seed, s.Built.Digest, s.Reach)
	for _, report := range bad {
		fmt.Fprintf(out, "past %s seed=%d of build %s at %s went badly: %s\n",
			report.Fault, report.Seed, report.Digest, report.At.Format(time.RFC3339), report.What())
	}
	if len(bad) > 0 && now.Good() {
		return 1
	}
	return 0
}

// lane makes runs on a cluster of its own.
func (s Series) lane(ctx context.Context, tasks <-chan job, out io.Writer, note func(Report, bool)) (err error) {
	var lane *Lane
	defer func() {
		if lane != nil {
			err = errors.Join(err, lane.Close())
		}
	}()
	one := func(each job) (Report, error) {
		if lane != nil && lane.Server.PID() == 0 {
			// A run left its cluster down: the next one gets another.
			if err := lane.Close(); err != nil {
				return Report{}, err
			}
			lane = nil
		}
		if lane == nil {
			if lane, err = NewLane(ctx, s.Built); err != nil {
				return Report{}, err
			}
		}
		return Run(ctx, lane, each.fault, each.seed, out), nil
	}
	for each := range tasks {
		var report Report
		for try := 1; try == 1 || try <= missesMax && report.missed(); try++ {
			if try > 1 {
				fmt.Fprintf(out, "missed, made again: %s\n", report)
			}
			if ctx.Err() != nil {
				return nil
			}
			if report, err = one(each); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil // broken off: that is no evidence
		}
		note(report, false)
		if s.Evidence != nil {
			if err := s.Evidence.Add(report); err != nil {
				return err
			}
		}
	}
	return nil
}

// missesMax bounds how often a run is made whose fault is never hit. The last one is bad.
const missesMax = 3

type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
