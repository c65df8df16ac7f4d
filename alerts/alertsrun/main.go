// Command alertsrun is `make alerts`: it breaks a running Railhead in one way for
// each alert, and sees the alert fire and resolve.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/alerts/live"
	"github.com/railhead-pay/railhead/alerts/promrun"
)

// runWithin bounds the whole run.
const runWithin = 20 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "alertsrun:", err)
		os.Exit(1)
	}
}

func run() error {
	o := live.Options{Out: os.Stdout}
	flag.StringVar(&o.Root, "root", ".", "the repository's `folder`")
	flag.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead and railsim")
	flag.StringVar(&o.Only, "fault", "", "run this one only, by the `name` of its alert")
	flag.BoolVar(&o.Short, "short", false, "a few faults only, as in make test")
	flag.BoolVar(&o.Keep, "keep", false, "keep the logs of a run that went well")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	var err error
	for _, path := range []*string{&o.Root, &o.Binaries} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if o.Programs, err = promrun.Find(ctx, o.Root); err != nil {
		return err
	}
	return live.Run(ctx, o)
}
