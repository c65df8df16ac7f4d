// Command faultsrun breaks installations on purpose and counts what became of
// the money: see package faults. It is what make faults calls, and, as
// "faultsrun caller", the ingest client of its own runs.
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
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/railhead-pay/railhead/proofs/faults"
)

// Exit codes: 1 is trouble, 2 a wrong command line.
const (
	exitTrouble = 1
	exitUsage   = 2
	exitBroken  = 8 // a rule did not hold, or a fault was never hit
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// The proxies' library says each step of its own on the output.
	zerolog.SetGlobalLevel(zerolog.Disabled)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == "caller" {
		return caller(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "nemesis" {
		return nemesis(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "events" {
		return events(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "recovery" {
		return recovery(ctx, args[1:])
	}
	return series(ctx, args)
}

func caller(ctx context.Context, args []string) int {
	c := faults.Caller{Tries: 6, CallWithin: 3 * time.Second}
	flags := flag.NewFlagSet("faultsrun caller", flag.ContinueOnError)
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
		fmt.Fprintln(os.Stderr, "faultsrun caller:", err)
		return exitTrouble
	}
	return 0
}

func series(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("faultsrun", flag.ContinueOnError)
	name := flags.String("fault", "", "a `pattern`: only faults whose whole name it matches; all by default")
	seed := flags.Uint64("seed", 1, "the first seed")
	seeds := flags.Int("seeds", 1, "how many seeds, from the first")
	lanes := flags.Int("lanes", 2, "concurrent runs, each on a cluster of its own")
	root := flags.String("root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	evidence := flags.String("evidence", "build/evidence/faults", "`folder` of the evidence; empty keeps and skips nothing")
	anyBuild := flags.Bool("any-build", false, "let good runs of earlier builds in the evidence count too; without it only those of this build do")
	table := flags.Bool("table", false, "print the evidence as a table and end")
	into := flags.String("into", "", "put the figures of the evidence next to this one's folder into a `page` and end")
	list := flags.Bool("list", false, "print the faults and end")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	pattern, err := regexp.Compile("^(?:" + *name + ")$")
	if err != nil || flags.NArg() > 0 || *seeds < 1 || *lanes < 1 {
		fmt.Fprintln(os.Stderr, "faultsrun: wrong command line; see -help")
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
			fmt.Fprintln(os.Stderr, "faultsrun:", err)
			return exitTrouble
		}
		return 0
	}
	if *into != "" {
		if err := faults.IntoPage(filepath.Dir(filepath.Clean(*evidence)), *into); err != nil {
			fmt.Fprintln(os.Stderr, "faultsrun:", err)
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
		fmt.Fprintln(os.Stderr, "faultsrun:", err)
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
	fmt.Printf("faults: %d faults, %d seeds, code %s built in %s\n", len(s.Faults), len(s.Seeds), s.Built.Digest, time.Since(begun).Round(time.Second))
	if evidence != "" {
		if s.Evidence, err = faults.OpenEvidence(filepath.Clean(evidence)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Evidence.Close()) }()
	}
	total, err := s.Run(ctx)
	fmt.Printf("faults: took %s, %d runs did not go well\n%s\n%s\n", time.Since(begun).Round(time.Second), total.Bad, total.Origin(), total)
	if err != nil {
		return err
	}
	if total.Bad > 0 || total.Runs != len(s.Faults)*len(s.Seeds) {
		return errBroken
	}
	return nil
}
