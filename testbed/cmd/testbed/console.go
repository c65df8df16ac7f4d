package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/testbed/alertdrill"
	"github.com/railhead-pay/railhead/testbed/browser"
	"github.com/railhead-pay/railhead/testbed/console"
)

// consoleWithin bounds a run, the longest of which fills an archive.
const consoleWithin = 40 * time.Minute

// walkConsole is "testbed console": a browser goes through every page and act of the console.
func walkConsole(ctx context.Context, args []string) int {
	return driveConsole(ctx, "console", args, func(flags *flag.FlagSet, o *console.Options) {
		flags.StringVar(&o.Hand, "hand", "", "go with this one only: mouse, keyboard or no-scripts")
	}, console.Walk)
}

// photographConsole is "testbed screenshots": pictures of its pages.
func photographConsole(ctx context.Context, args []string) int {
	return driveConsole(ctx, "screenshots", args, func(flags *flag.FlagSet, o *console.Options) {
		flags.StringVar(&o.Folder, "folder", "build/screenshots", "`folder` of the pictures")
		flags.IntVar(&o.Height, "height", 2400, "of a picture at most, in `pixels`")
	}, console.Pictures)
}

// scaleConsole is "testbed console-scale": how soon its pages are painted with a large archive.
func scaleConsole(ctx context.Context, args []string) int {
	return driveConsole(ctx, "console-scale", args, func(flags *flag.FlagSet, o *console.Options) {
		flags.IntVar(&o.Rows, "rows", 10_000_000, "rows of the archive")
	}, console.Scale)
}

func driveConsole(
	ctx context.Context, name string, args []string, more func(*flag.FlagSet, *console.Options),
	drive func(context.Context, console.Options) error,
) int {
	o := console.Options{Out: os.Stdout}
	flags := flag.NewFlagSet("testbed "+name, flag.ContinueOnError)
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead")
	flags.StringVar(&o.Root, "data", "", "`folder` for the data of the server; empty is /tmp")
	root := flags.String("root", ".", "the repository's `folder`")
	more(flags, &o)
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, consoleWithin)
	defer cancel()
	var err error
	if o.Binaries, err = filepath.Abs(o.Binaries); err == nil {
		o.Programs, err = browser.Find(ctx, *root)
	}
	if err == nil {
		err = drive(ctx, o)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "testbed %s: %v\n", name, err)
	if errors.Is(err, console.ErrBroken) {
		return exitBroken
	}
	return exitTrouble
}

// clickConsole is "testbed console-clicks": from the first page of the console to the cause of each fault of the
// alerts, to its runbook, and to the act that mends it.
func clickConsole(ctx context.Context, args []string) int {
	o := alertdrill.ClickOptions{Say: func(format string, args ...any) {
		fmt.Fprintf(os.Stdout, "clicks: "+format+"\n", args...)
	}}
	flags := flag.NewFlagSet("testbed console-clicks", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "the repository's `folder`")
	flags.StringVar(&o.Binaries, "binaries", "build/bin", "`folder` of railhead and railsim")
	flags.StringVar(&o.Data, "data", "", "`folder` for the data of the server; empty is /tmp")
	flags.StringVar(&o.Only, "fault", "", "only these, by the `names` of their alerts, separated by |")
	flags.BoolVar(&o.Short, "short", false, "a few faults only, as in make test")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, alertsWithin)
	defer cancel()
	err := error(nil)
	for _, path := range []*string{&o.Root, &o.Binaries} {
		if err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	if err == nil {
		o.Browser, err = browser.Find(ctx, o.Root)
	}
	if err == nil {
		err = alertdrill.Clicks(ctx, o)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "testbed console-clicks:", err)
	if errors.Is(err, alertdrill.ErrNotFound) {
		return exitBroken
	}
	return exitTrouble
}
