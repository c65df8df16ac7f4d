package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/railhead-pay/railhead/testbed/faults"
	"github.com/railhead-pay/railhead/testbed/ha"
)

// failOver is "testbed ha": a cell on Patroni whose primary is lost again and again.
func failOver(ctx context.Context, args []string) int {
	o := ha.Options{Out: os.Stdout}
	flags := flag.NewFlagSet("testbed ha", flag.ContinueOnError)
	flags.IntVar(&o.Failovers, "failovers", 20, "how often the cell is broken")
	flags.Uint64Var(&o.Seed, "seed", 0, "the seed; 0 draws one")
	flags.IntVar(&o.PerSec, "rate", 12, "instructions a second")
	flags.StringVar(&o.Break, "break", "", "only what has these `words` in its name, such as disk")
	flags.StringVar(&o.Root, "root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	evidence := flags.String("evidence", "build/evidence/ha", "`folder` to whose runs.jsonl the run is appended")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if o.Failovers < 1 || o.Failovers > 1000 || o.PerSec < 1 || o.PerSec > 1000 || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testbed ha: wrong command line; see -help")
		return exitUsage
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	if err := breakPrimaries(ctx, o, *bin, *evidence); err != nil {
		fmt.Fprintln(os.Stderr, "testbed ha:", err)
		if errors.Is(err, errBroken) {
			return exitBroken
		}
		return exitTrouble
	}
	return 0
}

func breakPrimaries(ctx context.Context, o ha.Options, bin, evidence string) error {
	built, err := faults.Build(ctx, o.Root, bin)
	if err != nil {
		return err
	}
	report, err := ha.Run(ctx, built, o)
	if err != nil {
		return err
	}
	fmt.Printf("ha: %v\nha: %s\n", report.Kinds, report.Report)
	for _, broken := range report.Verdict.Broken {
		fmt.Printf("     %s\n", broken)
	}
	good := report.Good(o.Failovers)
	if !good {
		fmt.Printf("     %s\n     writes must be possible again within %s; logs and ledgers: %s\n", report.Error,
			ha.UnavailableMax, report.Folder)
	}
	err = keep(evidence, report)
	fmt.Println(report)
	if err == nil && !good {
		err = errBroken
	}
	return err
}
