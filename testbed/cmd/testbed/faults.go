package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// breakAll is "testbed faults": it runs every fault, or those that match a pattern, with some
// seeds each.
func breakAll(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("testbed faults", flag.ContinueOnError)
	name := flags.String("fault", "", "a `pattern`: only faults whose whole name it matches; all by default")
	seed := flags.Uint64("seed", 1, "the first seed")
	seeds := flags.Int("seeds", 1, "how many seeds, from the first")
	lanes := flags.Int("lanes", 2, "concurrent runs, each on a cluster of its own")
	root := flags.String("root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	evidence := flags.String("evidence", "build/evidence/faults", "`folder` of the evidence; empty keeps and skips "+
		"nothing")
	anyBuild := flags.Bool("any-build", false,
		"let good runs of earlier builds in the evidence count too; without it only those of this build do")
	table := flags.Bool("table", false, "print the evidence as a table and end")
	into := flags.String("into", "", "put the figures of the evidence next to this one's folder into a `page` and end")
	list := flags.Bool("list", false, "print the faults and end")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	pattern, err := regexp.Compile("^(?:" + *name + ")$")
	if err != nil || flags.NArg() > 0 || *seeds < 1 || *lanes < 1 {
		fmt.Fprintln(os.Stderr, "testbed faults: wrong command line; see -help")
		return exitUsage
	}
	s := faults.Series{Lanes: *lanes, Out: os.Stdout}
	if *anyBuild {
		s.Reach = faults.AnyBuild
	}
	for _, fault := range faults.All() {
		if *name == "" || pattern.MatchString(fault.Name) {
			s.Faults = append(s.Faults, fault)
		}
	}
	for n := range *seeds {
		s.Seeds = append(s.Seeds, *seed+uint64(n))
	}
	if *table {
		if err := faults.WriteMatrix(filepath.Join(*evidence, "runs.jsonl"), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "testbed faults:", err)
			return exitTrouble
		}
		return 0
	}
	if *into != "" {
		if err := faults.IntoPage(filepath.Dir(filepath.Clean(*evidence)), *into); err != nil {
			fmt.Fprintln(os.Stderr, "testbed faults:", err)
			return exitTrouble
		}
		return 0
	}
	if *list {
		for _, fault := range s.Faults {
			fmt.Printf("%-32s %s\n", fault.Name, fault.About)
		}
		return 0
	}
	if err := carryOut(ctx, s, *root, *bin, *evidence); err != nil {
		fmt.Fprintln(os.Stderr, "testbed faults:", err)
		if errors.Is(err, errBroken) {
			return exitBroken
		}
		return exitTrouble
	}
	return 0
}

var errBroken = errors.New("not every run went well")

func carryOut(ctx context.Context, s faults.Series, root, bin, evidence string) (err error) {
	if len(s.Faults) == 0 {
		return errors.New("no fault has such a name; -list names them")
	}
	begun := time.Now()
	if s.Built, err = faults.Build(ctx, root, bin); err != nil {
		return err
	}
	fmt.Printf("faults: %d faults, %d seeds, code %s built in %s\n", len(s.Faults), len(s.Seeds), s.Built.Digest,
		time.Since(begun).Round(time.Second))
	if evidence != "" {
		if s.Evidence, err = faults.OpenEvidence(filepath.Clean(evidence)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Evidence.Close()) }()
	}
	total, err := s.Run(ctx)
	fmt.Printf("faults: took %s, %d runs did not go well\n%s\n%s\n", time.Since(begun).Round(time.Second), total.Bad,
		total.Origin(), total)
	if err != nil {
		return err
	}
	if total.Bad > 0 || total.Runs != len(s.Faults)*len(s.Seeds) {
		return errBroken
	}
	return nil
}
