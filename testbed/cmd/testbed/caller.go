package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// caller is "testbed caller": the ingest client that the faults start and kill.
func caller(ctx context.Context, args []string) int {
	c := faults.Caller{Tries: 6, CallWithin: 3 * time.Second}
	flags := flag.NewFlagSet("testbed caller", flag.ContinueOnError)
	flags.StringVar(&c.URL, "url", "", "connection `string` of a member of railhead_ingest")
	flags.StringVar(&c.API, "api", "", "`address` of the HTTP API, over which the calls are made then")
	flags.StringVar(&c.Token, "token", "", "token for the HTTP API")
	flags.StringVar(&c.Cell, "cell", "railhead", "schema of the installation")
	flags.StringVar(&c.Plan, "plan", "", "`file` of instructions to enqueue")
	flags.StringVar(&c.Journal, "journal", "", "`file` to which attempts and acknowledgements are appended")
	flags.IntVar(&c.Callers, "callers", 4, "calls at once")
	flags.DurationVar(&c.Pace, "pace", 0, "wait between the calls of one caller")
	flags.StringVar(&c.Rails, "rails", "", "make the calls of these rails alone, separated by commas")
	flags.BoolVar(&c.Repeat, "repeat", false, "make the calls again that the journal has acknowledged")
	flags.BoolVar(&c.Together, "together", false, "enqueue the whole plan in one transaction")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if err := c.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testbed caller:", err)
		return exitTrouble
	}
	return 0
}
