// Command bench measures Railhead, the queues that are its alternatives, and the bare SQL that no
// queue can beat, on one private PostgreSQL in one run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/railhead-pay/railhead/bench/against"
	"github.com/railhead-pay/railhead/bench/systems"
	"github.com/railhead-pay/railhead/internal/heap"
)

// options are the flags of the command line.
type options struct {
	quick    bool
	whole    bool // every mode, system and size, as often as it should be
	scale    bool
	docs     bool
	against  string  // the revision to compare with; "": none
	most     float64 // for against
	rounds   int
	modes    []string
	systems  []string
	out      string
	evidence string
	root     string
	postgres map[string]string // settings for experiments
	size     size
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	heap.Tune(os.Getenv) // as railhead relayer, for every system alike
	if asked, err := systems.ServeAPI(ctx); asked {
		end(err)
		return
	}
	o, err := parse(os.Args[1:])
	switch {
	case err != nil:
	case o.docs:
		err = writeDocs(".")
	case o.against != "":
		err = compare(ctx, o)
	default:
		err = run(ctx, o)
	}
	end(err)
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var modeList, systemList, archive string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one short round, for tuning; the figures are not kept")
	flags.BoolVar(&o.scale, "scale", false, "measure Railhead with archives of growing size instead")
	flags.BoolVar(&o.docs, "docs", false, "measure nothing: put the kept figures into "+docsFile)
	flags.Func("against", "compare what a payment costs with an earlier revision's instead", func(text string) error {
		if text == "" {
			return errors.New("it names no revision")
		}
		o.against = text
		return nil
	})
	flags.Float64Var(&o.most, "most", against.DefaultMost,
		"with -against: the greatest ratio of CPU and of WAL that is no failure")
	flags.IntVar(&o.rounds, "rounds", 0, fmt.Sprintf("rounds (3, with -against %d; 1 with -quick)", against.DefaultRounds))
	flags.StringVar(&modeList, "modes", "", "modes to run, by commas: "+strings.Join(modeNames(), ","))
	flags.StringVar(&systemList, "systems", "", "systems to run, by commas")
	flags.StringVar(&archive, "archive", "", "with -scale: rows in the archive, by commas (0,1000000,10000000)")
	flags.StringVar(&o.out, "out", "", "file for the figures as JSON")
	flags.StringVar(&o.evidence, "evidence", "", "folder for profiles, statement statistics and wait events; costs speed")
	flags.StringVar(&o.root, "root", "", "folder for the server's data, on a real disk (/tmp)")
	flags.Func("pg", "a server setting for an experiment, name=value; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not name=value", text)
		}
		if o.postgres == nil {
			o.postgres = make(map[string]string)
		}
		o.postgres[name] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.against != "" && (o.scale || o.docs || modeList+systemList+archive+o.out+o.evidence != "") {
		return o, errors.New("-against measures drain and enqueue of railhead, and keeps nothing: it takes -most, " +
			"-rounds, -quick, -root and -pg")
	}
	o.size = fullSize()
	if o.quick {
		o.size = quickSize()
	}
	o.whole = !o.quick && o.rounds == 0 && modeList+systemList+archive+o.evidence == "" && len(o.postgres) == 0
	if o.rounds == 0 {
		o.rounds = roundsOf(o)
	}
	if o.out == "" {
		o.out = defaultOut(o)
	}
	o.modes = modeNames()
	var err error
	if modeList != "" {
		if o.modes, err = choose("mode", modeList, modeNames()); err != nil {
			return o, err
		}
	}
	o.systems = systemNames()
	if systemList != "" {
		if o.systems, err = choose("system", systemList, systemNames()); err != nil {
			return o, err
		}
	}
	if archive != "" {
		if o.size.archives, err = numbers(archive); err != nil {
			return o, err
		}
	}
	return o, nil
}

// roundsOf returns the default number of rounds.
func roundsOf(o options) int {
	switch {
	case o.quick:
		return 1
	case o.against != "":
		return against.DefaultRounds
	default:
		return 3
	}
}

// defaultOut returns the file that keeps figures, for a whole run only: a quick run, one of some
// modes or one of an experiment must not pass for a whole one.
func defaultOut(o options) string {
	switch {
	case o.quick:
		return "build/bench/quick.json"
	case !o.whole:
		return "build/bench/part.json"
	case o.scale:
		return "bench/results/scale.json"
	default:
		return "bench/results/latest.json"
	}
}

func choose(what, list string, known []string) ([]string, error) {
	chosen := strings.Split(list, ",")
	for _, name := range chosen {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no %s %q; there are %s", what, name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of rows", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// everySystem returns the systems that can be measured, in the order of the table.
func everySystem() map[string]func(ctx context.Context) systems.System {
	return map[string]func(ctx context.Context) systems.System{
		"railhead": func(context.Context) systems.System { return systems.Railhead{} },
		"river":    func(context.Context) systems.System { return systems.River{} },
		"graphile": func(ctx context.Context) systems.System { return systems.NewGraphile(ctx, "build/bench") },
		"floor":    func(context.Context) systems.System { return systems.Floor{} },
	}
}

func systemNames() []string { return []string{"railhead", "river", "graphile", "floor"} }

func compare(ctx context.Context, o options) error {
	return against.Run(ctx, against.Config{
		Revision: o.against, Rounds: o.rounds, Most: o.most, Quick: o.quick, Root: o.root, Settings: o.postgres,
		Go: os.Getenv("GO"), Out: os.Stdout, Progress: os.Stderr,
	})
}

func run(ctx context.Context, o options) error {
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	measure := b.rounds
	if o.scale {
		measure = b.scale
	}
	if err := measure(ctx); err != nil {
		return err
	}
	if err := b.report(ctx); err != nil {
		return err
	}
	if len(b.failed) > 0 {
		return fmt.Errorf("%d measurement(s) failed: %w", len(b.failed), errors.Join(b.failed...))
	}
	return nil
}
