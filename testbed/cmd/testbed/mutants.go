package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/testbed/mutants"
)

// removeGuards is "testbed mutants": it removes each guard of the product in turn, in copies of the
// tree, and shows that its catcher fails without it and passes with it.
func removeGuards(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed mutants", flag.ContinueOnError)
	name := flags.String("mutant", "", "a `pattern`: only mutants whose whole name it matches; all by default")
	root := flags.String("root", ".", "`folder` of the repository")
	lanes := flags.Int("lanes", 2, "mutants at once, each with a copy of the tree and a PostgreSQL of its own")
	temp := flags.String("temp", "", "`folder` for the copies and the clusters; by default the system's for temporary "+
		"files")
	evidence := flags.String("evidence", "build/evidence/mutants", "`folder` of the evidence: what was caught with "+
		"the code that its catcher sees is not tried again; empty keeps and skips nothing")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	pattern, err := regexp.Compile("^(?:" + *name + ")$")
	if err != nil || flags.NArg() > 0 || *lanes < 1 || *lanes > lanesMax {
		fmt.Fprintln(os.Stderr, "testbed mutants: wrong command line; see -help")
		return exitUsage
	}
	total, err := catchAll(ctx, mutants.Series{Root: *root, Lanes: *lanes, TempRoot: *temp, Out: os.Stdout}, *evidence,
		func(m mutants.Mutant) bool { return *name == "" || pattern.MatchString(m.Name) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed mutants:", err)
	}
	fmt.Println(total)
	switch {
	case total.Mutants == 0:
		return exitTrouble
	case err != nil || total.Caught != total.Mutants:
		return exitBroken
	default:
		return 0
	}
}

// lanesMax bounds the clusters that run at once.
const lanesMax = 16

func catchAll(
	ctx context.Context, s mutants.Series, evidence string, wanted func(mutants.Mutant) bool,
) (total mutants.Total, err error) {
	all, err := mutants.Load(s.Root)
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
