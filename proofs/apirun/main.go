// Command apirun is `make api`: callers over HTTP, whose answers are lost and who repeat
// their keys, while the API, the database and the relayer are killed and connections are cut.
// Each caller has a token of one participant, and an intruder tries the ids of all others.
// Its last line is counted from what the callers were told, from the database and from the
// bank's own ledger. It exits with 1 where that does not add up, and with 2 where it could
// not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are what a run is made from.
type options struct {
	payments     int
	participants int
	lost         float64 // share of the answers
	seed         uint64
	bound        time.Duration
	evidence     string
	bin          string
	log          *slog.Logger
}

// errCount: what was counted is not what was promised.
var errCount = errors.New("the run does not add up")

func run(args []string, out, notes io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("apirun", flag.ContinueOnError)
	flags.SetOutput(notes)
	var o options
	flags.IntVar(&o.payments, "payments", 800, "payments to be accepted")
	flags.IntVar(&o.participants, "participants", 8, "callers, each with a token of one participant")
	flags.Float64Var(&o.lost, "lost", 0.2, "share of the answers that are lost")
	flags.Uint64Var(&o.seed, "seed", 0, "where the faults are drawn from; 0 takes a new one")
	flags.DurationVar(&o.bound, "bound", 10*time.Minute, "end of a run that does not end by itself")
	flags.StringVar(&o.evidence, "evidence", "build/evidence/api", "where logs and the bank's ledger go; an earlier run's are replaced")
	flags.StringVar(&o.bin, "bin", "build/bin", "folder of the programs")
	if flags.Parse(args) != nil {
		return 2
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixMilli())
	}
	counted, err := breakIt(ctx, o)
	if err != nil && !errors.Is(err, errCount) {
		fmt.Fprintf(notes, "api: %v\n", err)
		return 2
	}
	fmt.Fprintf(out, "api: seed=%d, kills: api=%d database=%d relayer=%d, cuts=%d, answers lost=%d, evidence in %s\n",
		o.seed, counted.killedAPI, counted.killedDatabase, counted.killedRelayer, counted.cuts, counted.lostAnswers, o.evidence)
	fmt.Fprintf(out, "api: accepted=%d lost=%d doubled=%d foreign_reads=%d commit_unknown=%d\n",
		counted.accepted, counted.lost, counted.doubled, counted.foreignReads, counted.commitUnknown)
	if err != nil {
		fmt.Fprintf(notes, "api: %v\n", err)
		return 1
	}
	return 0
}

// breakIt is a whole run: an installation, callers and faults, then rest and the count.
func breakIt(ctx context.Context, o options) (_ count, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.bound)
	defer cancel()
	for _, folder := range []*string{&o.evidence, &o.bin} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return count{}, err
		}
	}
	if err := os.RemoveAll(o.evidence); err != nil {
		return count{}, err
	}
	if err := os.MkdirAll(o.evidence, 0o755); err != nil {
		return count{}, err
	}
	o.log = slog.New(slog.DiscardHandler)
	w, err := newWorld(ctx, o)
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	if err != nil {
		return count{}, err
	}
	callers, err := newCallers(ctx, w)
	if err != nil {
		return count{}, err
	}
	if err := w.faultsDuring(ctx, callers.run); err != nil {
		return count{}, err
	}
	return judge(ctx, w, callers)
}
