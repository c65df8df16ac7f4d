package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// nemesis is "testbed nemesis": one long run with all faults that can be mixed.
func nemesis(ctx context.Context, args []string) int {
	n := faults.Nemesis{Relayers: 3, Reapers: 2}
	flags := flag.NewFlagSet("testbed nemesis", flag.ContinueOnError)
	flags.Uint64Var(&n.Seed, "seed", 0, "the seed; 0 draws one")
	minutes := flags.Float64("minutes", 30, "how long traffic and faults last")
	flags.DurationVar(&n.RewindEvery, "rewind-every", 4*time.Minute,
		"how often the data goes back, by a restore, a snapshot or a failover; 0: never")
	flags.IntVar(&n.PerSec, "rate", 32, "instructions a second")
	root := flags.String("root", ".", "`folder` of the module")
	bin := flags.String("bin", "build/faults", "`folder` for the programs under test")
	evidence := flags.String("evidence", "build/evidence/nemesis", "`folder` to whose runs.jsonl the run is appended")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if *minutes <= 0 || *minutes > 24*60 || n.PerSec < 1 || n.PerSec > 1000 || n.RewindEvery < 0 || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testbed nemesis: wrong command line; see -help")
		return exitUsage
	}
	if n.Seed == 0 {
		n.Seed = rand.Uint64N(1_000_000) + 1
	}
	n.Lasting = time.Duration(*minutes * float64(time.Minute))
	if err := rage(ctx, n, *root, *bin, *evidence); err != nil {
		fmt.Fprintln(os.Stderr, "testbed nemesis:", err)
		if errors.Is(err, errBroken) {
			return exitBroken
		}
		return exitTrouble
	}
	return 0
}

func rage(ctx context.Context, n faults.Nemesis, root, bin, evidence string) error {
	built, err := faults.Build(ctx, root, bin)
	if err != nil {
		return err
	}
	report, err := n.Run(ctx, built, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Printf("nemesis: blows %v\nnemesis: %s\n", report.Blows, report.Report)
	for _, broken := range report.Verdict.Broken {
		fmt.Printf("     %s\n", broken)
	}
	if !report.Good() {
		fmt.Printf("     %s\n     logs and ledgers: %s\n", report.Error, report.Folder)
	}
	err = keep(evidence, report)
	fmt.Println(report)
	if err == nil && !report.Good() {
		err = errBroken
	}
	return err
}

// keep appends a run to the evidence.
func keep(dir string, report any) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, "runs.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("keeping the evidence: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(append(line, '\n'))
	return err
}
