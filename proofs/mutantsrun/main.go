// Command mutantsrun removes each guard of the product in turn, in a copy of the
// tree, and shows that its catcher fails without it and passes with it: see
// package mutants. It is what make mutants calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/proofs/mutants"
)

// Exit codes: 2 is a wrong command line.
const (
	exitTrouble = 1
	exitUsage   = 2
	exitMissed  = 8
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := flag.String("mutant", "", "a `pattern`: only mutants whose whole name it matches; all by default")
	root := flag.String("root", ".", "`folder` of the module")
	flag.Parse()
	pattern, err := regexp.Compile("^(?:" + *name + ")$")
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutantsrun: wrong command line; see -help")
		return exitUsage
	}
	removed, caught, err := carryOut(ctx, *root, func(m mutants.Mutant) bool { return *name == "" || pattern.MatchString(m.Name) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutantsrun:", err)
	}
	fmt.Printf("mutants: removed=%d caught=%d\n", removed, caught)
	switch {
	case removed == 0:
		return exitTrouble
	case err != nil || caught != removed:
		return exitMissed
	default:
		return 0
	}
}

func carryOut(ctx context.Context, root string, wanted func(mutants.Mutant) bool) (removed, caught int, err error) {
	all, err := mutants.Load()
	if err != nil {
		return 0, 0, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bench, err := mutants.NewBench(root, dir, os.Stdout)
	if err != nil {
		return 0, 0, err
	}
	all = slices.DeleteFunc(all, func(m mutants.Mutant) bool { return !wanted(m) })
	fmt.Printf("mutants: %d guards to remove\n", len(all))
	begun := time.Now()
	for _, m := range all {
		if ctx.Err() != nil {
			break
		}
		removed++
		if err := bench.Catch(ctx, m); err != nil {
			fmt.Printf("MISSED %v\n", err)
			continue
		}
		caught++
	}
	fmt.Printf("mutants: took %s\n", time.Since(begun).Round(time.Second))
	return removed, caught, context.Cause(ctx)
}
