// Command scale measures what a payment costs with 1, 2, 4 and 8 cells, compares a simulation with
// it, and prints what the simulation predicts up to a million payments a second. It fails if a
// figure is off by more than a claim allows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/bench/growth"
	"github.com/railhead-pay/railhead/internal/heap"
)

// options are the flags.
type options struct {
	config  growth.Config
	assumed growth.Assumptions
	seed    uint64
	out     string
	more    bool   // add to what out keeps
	from    string // judge and predict by what this file keeps, and measure nothing
	docs    bool   // put what is kept into the page, and measure nothing
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	heap.Tune(os.Getenv) // as railhead relayer
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// errNotClaimed says that a figure was off by too much.
var errNotClaimed = errors.New("not every claim is made: the simulation is off by more than a claim allows")

func run(ctx context.Context, o options) error {
	if o.docs {
		return growth.WriteDocs(".")
	}
	measured, err := measure(ctx, o)
	if err != nil {
		return err
	}
	results, err := measured.Derive(o.assumed, o.seed)
	if err != nil {
		return err
	}
	fmt.Print(results.Report())
	if !growth.Kept(growth.Claims(results.Judged)) {
		return errNotClaimed
	}
	return nil
}

// measure measures, or reads what was measured.
func measure(ctx context.Context, o options) (growth.Measured, error) {
	if o.from != "" {
		return growth.Read(o.from)
	}
	if o.more {
		before, err := growth.Read(o.out)
		if err != nil {
			return before, err
		}
		o.config.Before = &before
	}
	measured, err := growth.Measure(ctx, o.config)
	if len(measured.Series) > 0 {
		err = errors.Join(err, measured.Write(o.out))
	}
	return measured, err
}

func parse(args []string) (options, error) {
	o := options{config: growth.Config{Progress: os.Stderr}, assumed: growth.DefaultAssumptions()}
	c, a := &o.config, &o.assumed
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.StringVar(&o.out, "out", growth.LastFile, "file for what is measured, as JSON")
	flags.BoolVar(&o.more, "more", false, "add rounds to those in that file")
	flags.StringVar(&o.from, "from", "", "measure nothing: judge and predict by such a file, for example "+growth.KeptFile)
	flags.BoolVar(&o.docs, "docs", false, "measure nothing: put what "+growth.KeptFile+" says into "+growth.DocsFile)
	flags.StringVar(&c.Root, "root", "/tmp", "folder for the servers' data, on a real disk")
	flags.IntVar(&c.Rounds, "rounds", 5, "rounds of every point")
	flags.DurationVar(&c.Warm, "warm", 600*time.Millisecond, "what is not counted of a point")
	flags.DurationVar(&c.Length, "length", 2500*time.Millisecond, "what is counted of a point")
	flags.Float64Var(&c.Quiet, "quiet", 0.2, "CPUs that others may have meanwhile; else a point is taken again")
	flags.DurationVar(&c.Patience, "patience", 20*time.Second, "how long a point waits for that")
	flags.IntVar(&c.Tries, "tries", 3, "most readings of a point in a round; the quietest counts")
	flags.Uint64Var(&o.seed, "seed", growth.DefaultSeed, "of the simulation")

	flags.Float64Var(&a.Cores, "cores", a.Cores, "assumed: cores of a server")
	flags.Float64Var(&a.Efficiency, "efficiency", a.Efficiency, "assumed: share of them that is as good as one measured")
	flags.Float64Var(&a.Headroom, "headroom", a.Headroom, "assumed: the share of every resource that stays free")
	milliseconds(flags, &a.Flush, "flush", "assumed: time of a flush of the WAL")
	flags.Float64Var(&a.Device, "device", a.Device, "assumed: bytes of WAL that a server writes in a second")
	flags.BoolVar(&a.Standby, "standby", a.Standby, "assumed: a commit waits for a synchronous standby")
	milliseconds(flags, &a.RoundTrip, "round-trip", "assumed: time to the standby and back")
	flags.Float64Var(&a.Replay, "replay", a.Replay, "assumed: bytes of WAL that a standby replays in a second")
	flags.Float64Var(&a.PageImages, "page-images", a.PageImages, "assumed: bytes of full page images a payment")
	flags.IntVar(&a.CellsANode, "cells", a.CellsANode, "assumed: cells of a server")
	flags.IntVar(&a.Batch, "batch", a.Batch, "assumed: payments in an enqueue call")
	milliseconds(flags, &a.RailLatency, "rail-latency", "assumed: time in which a rail answers")
	flags.IntVar(&a.RailSlots, "rail-slots", a.RailSlots, "assumed: calls in flight on the rails of a cell")
	flags.IntVar(&a.Relayers, "relayers", a.Relayers, "assumed: relayers of a cell, one of them at work")
	flags.Float64Var(&a.RelayerCPUs, "relayer-cpus", a.RelayerCPUs, "assumed: CPUs of a relayer")
	flags.IntVar(&a.Doors, "doors", a.Doors, "assumed: connections of a cell that enqueue")
	flags.IntVar(&a.Connections, "connections", a.Connections, "assumed: max_connections of a server")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, a.Validate()
}

// milliseconds is a flag for a time that is kept in seconds.
func milliseconds(flags *flag.FlagSet, seconds *float64, name, usage string) {
	d := time.Duration(*seconds * float64(time.Second))
	flags.Func(name, fmt.Sprintf("%s (default %s)", usage, d), func(text string) error {
		got, err := time.ParseDuration(text)
		*seconds = got.Seconds()
		return err
	})
}
