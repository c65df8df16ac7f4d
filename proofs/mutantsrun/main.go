// Command mutantsrun removes each guard of the product in turn, in copies of the
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
	"path/filepath"
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
	lanes := flag.Int("lanes", 2, "mutants at once, each with a copy of the tree and a PostgreSQL of its own")
	temp := flag.String("temp", "", "`folder` for the copies and the clusters; by default the system's for temporary files")
	evidence := flag.String("evidence", "build/evidence/mutants", "`folder` of the evidence: what was caught in this very tree is not tried again; empty keeps and skips nothing")
	flag.Parse()
	pattern, err := regexp.Compile("^(?:" + *name + ")$")
	if err != nil || flag.NArg() > 0 || *lanes < 1 || *lanes > lanesMax {
		fmt.Fprintln(os.Stderr, "mutantsrun: wrong command line; see -help")
		return exitUsage
	}
	total, err := carryOut(ctx, mutants.Series{Root: *root, Lanes: *lanes, TempRoot: *temp, Out: os.Stdout}, *evidence,
		func(m mutants.Mutant) bool { return *name == "" || pattern.MatchString(m.Name) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutantsrun:", err)
	}
	fmt.Println(total)
	switch {
	case total.Mutants == 0:
		return exitTrouble
	case err != nil || total.Caught != total.Mutants:
		return exitMissed
	default:
		return 0
	}
}

// lanesMax bounds the clusters that run at once.
const lanesMax = 16

func carryOut(ctx context.Context, s mutants.Series, evidence string, wanted func(mutants.Mutant) bool) (total mutants.Total, err error) {
	all, err := mutants.Load()
	if err != nil {
		return total, err
	}
	s.Mutants = slices.DeleteFunc(all, func(m mutants.Mutant) bool { return !wanted(m) })
	if s.TempRoot != "" {
		if s.TempRoot, err = filepath.Abs(s.TempRoot); err != nil {
			return total, err
		}
	}
	if evidence != "" {
		if s.Evidence, err = mutants.OpenEvidence(filepath.Clean(evidence)); err != nil {
			return total, err
		}
		defer func() { err = errors.Join(err, s.Evidence.Close()) }()
	}
	begun := time.Now()
	total, err = s.Run(ctx)
	fmt.Printf("mutants: took %s with %d lanes\n", time.Since(begun).Round(time.Second), s.Lanes)
	return total, err
}
