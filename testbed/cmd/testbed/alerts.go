package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/promrun"
	"github.com/railhead-pay/railhead/testbed/alertdrill"
)

// alertsWithin bounds the whole run.
const alertsWithin = 20 * time.Minute

// drillAlerts is "testbed alerts": it makes one fault for each alert in a running Railhead, and
// checks that the alert fires and resolves.
func drillAlerts(ctx context.Context, args []string) int {
	o := alertdrill.Options{Out: os.Stdout}
	flags := flag.NewFlagSet("testbed alerts", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "the repository's `folder`")
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead and railsim")
	flags.StringVar(&o.Only, "fault", "", "only these, by the `names` of their alerts, separated by |")
	flags.BoolVar(&o.Short, "short", false, "a few faults only, as in make test")
	flags.BoolVar(&o.Keep, "keep", false, "keep the logs of a run that went well")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, alertsWithin)
	defer cancel()
	err := drill(ctx, o)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "testbed alerts:", err)
	if errors.Is(err, alertdrill.ErrNotAsItShould) {
		return exitBroken
	}
	return exitTrouble
}

func drill(ctx context.Context, o alertdrill.Options) (err error) {
	for _, path := range []*string{&o.Root, &o.Binaries} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if o.Programs, err = promrun.Find(ctx, o.Root); err != nil {
		return err
	}
	return alertdrill.Run(ctx, o)
}
