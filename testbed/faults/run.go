package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// Fault is one way to break an installation.
type Fault struct {
	Name  string
	About string
	// Adjust changes the options of its runs.
	Adjust func(o *Options)
	// Inject injects the fault, and counts what it injected and what was hit. Traffic flows
	// when it is called, unless Quiet is set.
	Inject func(ctx context.Context, w *World) error
	// Check checks for what this fault in particular must not lead to; nil checks nothing.
	Check func(w *World, f Facts)
	// Quiet means that no traffic is started: the fault brings its own.
	Quiet bool
	// Within bounds a run of the fault; 0 means runWithin.
	Within time.Duration
}

// Report is one run, as it is kept as evidence.
type Report struct {
	Fault    string        `json:"fault"`
	Seed     uint64        `json:"seed"`
	Digest   string        `json:"digest"`
	Options  Options       `json:"options"`
	Injected int           `json:"injected"`
	Hit      int           `json:"hit"`
	Verdict  Verdict       `json:"verdict"`
	Healed   time.Duration `json:"healed"` // from the end of the fault to rest
	Took     time.Duration `json:"took"`
	At       time.Time     `json:"at"`
	// Error is why the run could not be made, or did not come to rest.
	Error string `json:"error,omitempty"`
	// Folder holds logs and ledgers of a run that did not go well.
	Folder string `json:"-"`
}

// Good reports whether every rule held and the fault was met.
func (r Report) Good() bool {
	return r.Error == "" && r.Hit > 0 && len(r.Verdict.Broken) == 0 && !r.offends()
}

// missed reports whether nothing went wrong except that the fault was never hit, as on a
// machine that is too slow for it. Such a run proves nothing.
func (r Report) missed() bool {
	r.Hit++
	return r.Hit == 1 && r.Good()
}

// offends reports whether money was lost or doubled, or something false was said.
func (r Report) offends() bool {
	return r.Verdict.Lost+r.Verdict.Doubled+r.Verdict.Unexpected+r.Verdict.False() > 0
}

// What describes what did not go well, in a few words.
func (r Report) What() string {
	switch {
	case len(r.Verdict.Broken) > 0:
		return r.Verdict.Broken[0]
	case r.Error != "":
		return r.Error
	case r.Hit == 0:
		return "the fault was never hit"
	default:
		return "nothing"
	}
}

// String returns the run in one line.
func (r Report) String() string {
	v := r.Verdict
	return fmt.Sprintf("%s seed=%d injected=%d hit=%d attempted=%d acknowledged=%d recovered=%d lost=%d "+
		"lost_in_window=%d doubled=%d unexpected=%d "+
		"executed=%d dispatched=%d failed=%d parked=%d unknown=%d person_needed=%d false_failed=%d false_dispatched=%d "+
		"proofs=%d/%d healed=%s took=%s",
		r.Fault, r.Seed, r.Injected, r.Hit, v.Attempted, v.Acknowledged, v.Recovered, v.Lost, v.LostInWindow, v.Doubled,
		v.Unexpected,
		v.Executed, v.Dispatched, v.Failed, v.Parked, v.Unknown, v.PersonNeeded, v.FalseFailed, v.FalseDispatched,
		v.ProofsPassed, v.ProofsPassed+v.ProofsFailed,
		r.Healed.Round(10*time.Millisecond), r.Took.Round(10*time.Millisecond))
}

// runWithin bounds one run, unless its fault says otherwise.
const runWithin = 4 * time.Minute

// Run makes one run on a lane, and writes its options to out.
func Run(ctx context.Context, lane *Lane, fault Fault, seed uint64, out io.Writer) Report {
	o := Standard(fault.Name, seed)
	if fault.Adjust != nil {
		fault.Adjust(&o)
	}
	fmt.Fprintf(out, "run: %s\n", o)
	within := cmp.Or(fault.Within, runWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within,
		fmt.Errorf("%w: the run took longer than %s", await.ErrNotInTime, within))
	defer cancel()
	return RunOn(ctx, lane, fault, o)
}

// RunOn makes one run with these options, within the context's bound.
func RunOn(ctx context.Context, lane *Lane, fault Fault, o Options) Report {
	report := Report{Fault: o.Fault, Seed: o.Seed, Digest: lane.built.Digest, Options: o, At: time.Now().UTC()}
	w, err := NewWorld(ctx, lane, o)
	if err == nil {
		report.Folder = w.dir
		err = w.play(ctx, fault, &report)
		report.Injected, report.Hit = w.Injected, w.Hit
		report.Verdict.Broken = append(report.Verdict.Broken, w.broken...)
		err = errors.Join(err, w.Close(ctx))
	}
	if err != nil {
		report.Error = err.Error()
	}
	report.Took = time.Since(report.At)
	if report.Good() {
		report.Folder = ""
		if err := w.Discard(); err != nil {
			report.Error = err.Error()
		}
	}
	return report
}

// play runs the two phases and judges the run.
func (w *World) play(ctx context.Context, fault Fault, report *Report) error {
	if !fault.Quiet {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
	}
	injected := fault.Inject(ctx, w)
	begun := time.Now()
	// Even a fault that could not be injected is healed: what it left shows more.
	if err := errors.Join(injected, w.Heal(ctx)); err != nil {
		return err
	}
	if err := w.Snapshot(ctx); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		// The run is not live. The rest of it is judged all the same.
		w.Broken("%v", err)
	}
	report.Healed = time.Since(begun)
	if len(w.broken) == 0 {
		if err := w.judgePermits(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(w.judgeHealth(ctx), w.judgeSessions(ctx), w.notePeaks()); err != nil {
		return err
	}
	if err := w.StopServices(); err != nil {
		w.Broken("%v", err)
	}
	for _, end := range w.atRest {
		if err := end(ctx); err != nil {
			return err
		}
	}
	if err := w.judgeSilence(ctx); err != nil {
		return err
	}
	facts, err := w.Facts(ctx)
	if err != nil {
		return err
	}
	report.Verdict = Judge(facts)
	audit, err := w.audit(ctx)
	if err != nil {
		return fmt.Errorf("running the proofs: %w", err)
	}
	report.Verdict.judgeAudit(audit)
	if fault.Check != nil {
		fault.Check(w, facts)
	}
	return nil
}
