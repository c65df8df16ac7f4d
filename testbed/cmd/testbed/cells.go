package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/cells"
)

// breakCells is "testbed cells": four cells on two clusters, broken under traffic while buckets change
// their cell. Its last line gives the counts that it is judged by.
func breakCells(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed cells", flag.ContinueOnError)
	o := cells.Options{Out: os.Stdout}
	flags.DurationVar(&o.Lasting, "lasting", 150*time.Second, "how long traffic and faults last")
	flags.IntVar(&o.PerSec, "rate", 40, "instructions a second")
	flags.Uint64Var(&o.Seed, "seed", 0, "where traffic and faults are drawn from; 0 draws a new one")
	flags.DurationVar(&o.Bound, "bound", 0, "end of a run that does not end by itself; 0: 10 min after traffic and faults")
	flags.StringVar(&o.Evidence, "evidence", "build/evidence/cells",
		"where logs and the banks' ledgers go; an earlier run's are replaced")
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	if o.Bound == 0 {
		o.Bound = o.Lasting + 10*time.Minute
	}
	counted, err := cells.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed cells:", err)
		if !errors.Is(err, cells.ErrCount) {
			return exitTrouble
		}
	}
	fmt.Printf("cells: %s, evidence in %s\n", counted.Faults(), o.Evidence)
	fmt.Printf("cells: %s\n", counted)
	if err != nil {
		return exitBroken
	}
	return 0
}
