// Package cells runs an installation of four cells on two PostgreSQL clusters, and breaks it under
// traffic: clusters, relayers, reapers, receivers of callbacks and the operator's own commands are
// killed, cells are cut off, and buckets of participants are given from cell to cell meanwhile.
//
// Callers enqueue by the Go client that routes by the map of cells. They repeat keys after unknown
// outcomes, and again long after; others use a map that is as old as the run, at the same time as
// the first call. Three banks, which all cells share, are the witnesses: one that de-duplicates and
// calls back, one that executes whatever it is sent, and one whose rail keeps the order of each
// participant. The run counts their ledgers, what callers were told, and the rows of every cell.
package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// Options configures a run.
type Options struct {
	Lasting  time.Duration // of traffic and faults, from 5 s
	PerSec   int           // instructions a second, 8 to 1000
	Seed     uint64        // of what is drawn; how the processes interleave is not
	Bound    time.Duration // of the whole run
	Evidence string        // folder of logs and of the banks' ledgers, made anew
	Binaries string        // folder of railhead
	Out      io.Writer
}

// ErrCount means that the counts are not what was promised, or that so little happened that they prove nothing.
var ErrCount = errors.New("the run does not add up")

// Run makes a whole run: an installation, callers and faults, then a time of rest and the count. The
// count is complete if the error is ErrCount or nil.
func Run(ctx context.Context, o Options) (c Count, err error) {
	w, c, err := run(ctx, o)
	if w != nil {
		err = errors.Join(err, w.end(ctx))
	}
	return c, err
}

// run is Run, and leaves the databases and the banks as they are.
func run(ctx context.Context, o Options) (w *world, c Count, err error) {
	if o.Lasting < 5*time.Second || o.PerSec < callers || o.PerSec > 1000 {
		return nil, c, fmt.Errorf("%d instructions a second for %s: use %d to 1000, for 5 s or more", o.PerSec, o.Lasting,
			callers)
	}
	for _, folder := range []*string{&o.Evidence, &o.Binaries} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return nil, c, err
		}
	}
	if err := os.RemoveAll(o.Evidence); err != nil {
		return nil, c, err
	}
	if err := os.MkdirAll(o.Evidence, 0o755); err != nil {
		return nil, c, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Bound)
	defer cancel()
	w = &world{Options: o, draws: rand.New(rand.NewPCG(o.Seed, 1)), done: make(map[string]int)}
	if err := w.start(ctx); err != nil {
		return w, c, err
	}
	w.say("seed=%d, %s of traffic, logs in %s", o.Seed, o.Lasting, o.Evidence)
	var late error
	for _, step := range []func(context.Context) error{w.rage, w.rest, w.stop, w.repeatAll} {
		// What is not in time is counted all the same.
		if err := step(ctx); errors.Is(err, await.ErrNotInTime) {
			late = errors.Join(late, fmt.Errorf("%w: %w", ErrCount, err))
		} else if err != nil {
			return w, c, err
		}
	}
	f, err := w.facts(ctx)
	if err != nil {
		return w, c, err
	}
	c = judge(f)
	return w, c, errors.Join(late, c.verdict(w.missing()), w.prove(ctx))
}

// rage has callers, operators and faults work until the time is over and every instruction is accepted.
func (w *world) rage(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	during, calm := context.WithCancel(ctx)
	defer calm()
	var broken, calling sync.WaitGroup
	broken.Go(func() {
		defer calm()
		w.last(ctx)
	})
	for n, work := range []func(context.Context, *rand.Rand) error{w.breakAll, w.operateAll, w.syncAll} {
		broken.Go(func() {
			if err := work(during, rand.New(rand.NewPCG(w.Seed, uint64(n)+2))); err != nil {
				fail(err)
			}
		})
	}
	for n := range callers {
		calling.Go(func() { w.call(ctx, during, rand.New(rand.NewPCG(w.Seed, uint64(n)+100))) })
	}
	for n := range repeaters {
		calling.Go(func() { w.repeat(during, rand.New(rand.NewPCG(w.Seed, uint64(n)+200))) })
	}
	broken.Wait()
	if err := w.mend(ctx); err != nil {
		fail(err)
	}
	calling.Wait()
	return context.Cause(ctx)
}

// longerMost bounds how much longer a run lasts until everything has happened that has to.
const longerMost = 4 * time.Minute

// last waits until the time is over and everything has happened, on a machine that may be busy.
func (w *world) last(ctx context.Context) {
	for begun := time.Now(); ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		lasted := time.Since(begun)
		if lasted > w.Lasting+longerMost || lasted > w.Lasting && len(w.missing()) == 0 && w.called() >= leastPayments {
			return
		}
	}
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(w.Out, "cells: "+format+"\n", args...) }

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
