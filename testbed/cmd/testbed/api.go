package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/api"
)

// callAPI is "testbed api": callers over HTTP under faults. Its last line gives the counts that it
// is judged by.
func callAPI(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed api", flag.ContinueOnError)
	var o api.Options
	flags.IntVar(&o.Payments, "payments", 6000, "payments to be accepted")
	flags.IntVar(&o.Participants, "participants", 8, "callers, each with a token of one participant")
	flags.Float64Var(&o.Lost, "lost", 0.2, "share of the answers that are lost")
	flags.Uint64Var(&o.Seed, "seed", 0, "where the faults are drawn from; 0 takes a new one")
	flags.DurationVar(&o.Bound, "bound", 10*time.Minute, "end of a run that does not end by itself")
	flags.StringVar(&o.Evidence, "evidence", "build/evidence/api",
		"where logs and the bank's ledger go; an earlier run's are replaced")
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead and railsim")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixMilli())
	}
	counted, err := api.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed api:", err)
		if !errors.Is(err, api.ErrCount) {
			return exitTrouble
		}
	}
	fmt.Printf("api: seed=%d, %s, evidence in %s\n", o.Seed, counted.Faults(), o.Evidence)
	fmt.Printf("api: %s\n", counted)
	if err != nil {
		return exitBroken
	}
	return 0
}
