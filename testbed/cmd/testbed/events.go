package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// events is "testbed events": it delivers events of outcomes, under faults, to an endpoint that
// loses answers.
func events(ctx context.Context, args []string) int {
	var e faults.Events
	flags := flag.NewFlagSet("testbed events", flag.ContinueOnError)
	flags.Uint64Var(&e.Seed, "seed", 0, "the seed; 0 draws one")
	minutes := flags.Float64("minutes", 6, "how long traffic and faults last, before the failover")
	open := flags.Float64("open", 3, "for how many minutes a transaction stays open meanwhile")
	flags.Float64Var(&e.Lost, "lost", 0.3, "share of the endpoint's answers that are lost")
	root := flags.String("root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if *minutes <= 0 || *minutes > 24*60 || *open <= 0 || *open > 60 || e.Lost < 0 || e.Lost > 0.9 || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testbed events: wrong command line; see -help")
		return exitUsage
	}
	if e.Seed == 0 {
		e.Seed = rand.Uint64N(1_000_000) + 1
	}
	e.Lasting, e.Open = time.Duration(*minutes*float64(time.Minute)), time.Duration(*open*float64(time.Minute))
	built, err := faults.Build(ctx, *root, *bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed events:", err)
		return exitTrouble
	}
	report, err := e.Run(ctx, built, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed events:", err)
		return exitTrouble
	}
	fmt.Printf("events: %s\nevents: seed=%d answers lost=%d\n%s\n", report.Report, e.Seed, report.Told.Losses, report.Told)
	if !report.Good() {
		fmt.Printf("events: %s (%q); logs in %s\n", report.What(), report.Verdict.Broken, report.Folder)
		return exitBroken
	}
	return 0
}
