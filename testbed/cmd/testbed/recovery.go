package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// recoveryMax is the bound that the 99th percentile has to stay under.
const recoveryMax = 10 * time.Second

// recovery is "testbed recovery": it measures how long payments of a killed relayer wait.
func recovery(ctx context.Context, args []string) int {
	r := faults.Recovery{}
	flags := flag.NewFlagSet("testbed recovery", flag.ContinueOnError)
	flags.Uint64Var(&r.Seed, "seed", 1, "the seed")
	flags.IntVar(&r.Kills, "kills", 20, "how often the only relayer is killed, 1 to 1000")
	root := flags.String("root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	evidence := flags.String("evidence", "build/evidence/recovery", "`folder` to whose runs.jsonl the figure is appended")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if r.Kills < 1 || r.Kills > 1000 || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testbed recovery: wrong command line; see -help")
		return exitUsage
	}
	built, err := faults.Build(ctx, *root, *bin)
	if err == nil {
		var report faults.RecoveryReport
		if report, err = r.Run(ctx, built, os.Stdout); err == nil {
			fmt.Printf("recovery: %s\n%s\n", report.Settings, report)
			err = keep(*evidence, report)
			if err == nil && report.P99 > recoveryMax {
				fmt.Fprintf(os.Stderr, "testbed recovery: the p99 is more than %s\n", recoveryMax)
				return exitBroken
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed recovery:", err)
		return exitTrouble
	}
	return 0
}
