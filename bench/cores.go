package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// coreCallers is the number of callers that enqueue while the number of cores varies: enough to
// keep all busy.
const coreCallers = 64

// onCores measures e2e and drain on 1, 2, 4, ... of the machine's cores, which server and clients
// share. On fewer cores than the size requires it measures nothing: two cores do not show what one
// server does on many.
func onCores(ctx context.Context, b *bench, system systems.System) (err error) {
	all, err := server.CPUs()
	if err != nil {
		return err
	}
	if len(all) < b.size.cores {
		b.skipOnce(fmt.Sprintf("mode cores: this machine has %d cores, and %d or more are wanted", len(all), b.size.cores))
		return nil
	}
	threads := runtime.GOMAXPROCS(0)
	defer func() {
		runtime.GOMAXPROCS(threads)
		err = errors.Join(err, b.plain.Confine(all))
	}()
	drained := make(map[int]float64)
	for n := 1; n <= len(all); n *= 2 {
		runtime.GOMAXPROCS(n)
		if err := b.plain.Confine(all[:n]); err != nil {
			return err
		}
		name := fmt.Sprintf("drain on %d", n)
		if err := b.drainOn(ctx, b.plain, system, name); err != nil {
			return err
		}
		for _, s := range b.samples {
			if s.System == system.Name() && s.Mode == name && s.Round == b.round {
				drained[n] = s.Value
			}
		}
		o := systems.Options{Producers: coreCallers}
		calls := b.size.endToEnd(system.Name(), b.size.e2e)
		if err := b.endToEndBy(ctx, b.plain, system, o, coreCallers, fmt.Sprintf("e2e on %d", n), calls); err != nil {
			return err
		}
	}
	if len(drained) < 3 {
		return nil // too few for the law
	}
	law, err := figures.FitScaling(drained)
	if err != nil {
		return err
	}
	b.add(system, "cores sigma", "of 1", figures.Lower, law.Sigma)
	b.add(system, "cores kappa", "of 1", figures.Lower, law.Kappa)
	return nil
}
