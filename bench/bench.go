package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/slowflush"
	"github.com/railhead-pay/railhead/bench/systems"
)

// bench is one run of the benchmark.
type bench struct {
	options
	systems   []systems.System
	skipped   []string // what is not run, and why
	failed    []error  // what was run in vain
	plain     *server.Server
	slow      *server.Server // nil until a mode needs it, or if it can't be had
	templates map[template]string
	samples   []figures.Sample
	round     int
	facts     facts
	begun     time.Time
	temp      string
}

// template is a system's schema on one server.
type template struct {
	server *server.Server
	system string
}

func newBench(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o, templates: make(map[template]string), begun: time.Now()}
	for _, name := range systemNames() {
		if o.scale && name != "railhead" {
			continue
		}
		if !slices.Contains(o.systems, name) {
			b.skip("%s: not asked for", name)
			continue
		}
		each := everySystem()[name](ctx)
		if why := each.Missing(); why != "" {
			b.skip("%s: %s", name, why)
			continue
		}
		b.systems = append(b.systems, each)
	}
	var err error
	if b.facts, err = lookAround(o.root); err != nil {
		return nil, err
	}
	if b.plain, err = server.Start(ctx, server.Options{Root: o.root, Statements: o.evidence != "",
		Settings: o.postgres}); err != nil {
		return nil, err
	}
	if o.evidence != "" {
		err = b.prepareEvidence(ctx)
	}
	if err == nil && !o.scale && slices.Contains(o.modes, "slow") {
		err = b.startSlow(ctx)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) startSlow(ctx context.Context) error {
	temp, err := os.MkdirTemp(b.root, "railhead-bench-")
	if err != nil {
		return err
	}
	b.temp = temp
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	library, err := slowflush.Build(ctx, temp)
	if errors.Is(err, slowflush.ErrNoCompiler) {
		b.skip("mode slow: no cc to build the shim with")
		return nil
	}
	if err != nil {
		return err
	}
	b.slow, err = server.Start(ctx, server.Options{
		Root: b.root, Preload: library, Environment: slowflush.Environment(b.size.flush), Settings: b.postgres,
	})
	return err
}

func (b *bench) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, each := range []*server.Server{b.plain, b.slow} {
		if each != nil {
			if err := each.Stop(ctx); err != nil {
				b.say("stopping PostgreSQL: %v", err)
			}
		}
	}
	if b.temp != "" {
		os.RemoveAll(b.temp)
	}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// skip prints what is not measured, at once and again under the table.
func (b *bench) skip(format string, args ...any) {
	text := "not run: " + fmt.Sprintf(format, args...)
	b.skipped = append(b.skipped, text)
	b.say("%s", text)
}

// skipOnce skips what is found missing in every round, and prints it once.
func (b *bench) skipOnce(text string) {
	if !slices.Contains(b.skipped, "not run: "+text) {
		b.skip("%s", text)
	}
}

// fail notes that a measurement failed. The others continue, but the run as a whole has failed.
func (b *bench) fail(err error) {
	b.failed = append(b.failed, err)
	b.say("FAILED: %v", err)
}

// rounds runs every mode of every round. Within a round each mode runs on every system before the
// next mode; which system comes first alternates.
func (b *bench) rounds(ctx context.Context) error {
	for b.round = range b.options.rounds {
		for _, each := range b.chosenModes() {
			for _, system := range b.order() {
				if !each.takes(system.Name()) {
					continue
				}
				b.say("round %d of %d: %s, %s", b.round+1, b.options.rounds, each.name, system.Name())
				if err := each.run(ctx, b, system); ctx.Err() != nil {
					return errors.New("interrupted")
				} else if err != nil {
					b.fail(fmt.Errorf("round %d: %s of %s: %w", b.round+1, each.name, system.Name(), err))
				}
			}
		}
	}
	return nil
}

// order returns the systems forwards in one round and backwards in the next.
func (b *bench) order() []systems.System {
	order := slices.Clone(b.systems)
	if b.round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// in runs f on a fresh database of a system.
func (b *bench) in(
	ctx context.Context, on *server.Server, system systems.System, o systems.Options,
	f func(db server.Database, session systems.Session) error,
) (err error) {
	name, err := b.template(ctx, on, system)
	if err != nil {
		return err
	}
	db, err := on.Create(ctx, system.Name(), name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Drop(context.WithoutCancel(ctx))) }()
	session, err := system.Open(ctx, db, o)
	if err != nil {
		return err
	}
	defer session.Close()
	runtime.GC() // what the run before left is not this one's to sweep
	return f(db, session)
}

func (b *bench) template(ctx context.Context, on *server.Server, system systems.System) (string, error) {
	key := template{on, system.Name()}
	if name, ok := b.templates[key]; ok {
		return name, nil
	}
	db, err := on.Create(ctx, "template_"+system.Name(), "")
	if err != nil {
		return "", err
	}
	if err := system.Install(ctx, db); err != nil {
		return "", fmt.Errorf("installing %s: %w", system.Name(), err)
	}
	b.templates[key] = db.Name
	return db.Name, nil
}

// add adds a figure of this round.
func (b *bench) add(system systems.System, mode, unit string, better figures.Better, value float64) {
	b.samples = append(b.samples, figures.Sample{
		System: system.Name(), Mode: mode, Unit: unit, Better: better, Round: b.round, Value: value,
	})
	b.say("    %-10s %-18s %10s %s", system.Name(), mode, figures.Short(value), unit)
}

// cost adds what the server used for n payments.
func (b *bench) cost(system systems.System, mode string, used server.Meter, n int) {
	b.add(system, mode+" WAL", "B/payment", figures.Lower, float64(used.WAL)/float64(n))
	if used.Records > 0 {
		b.add(system, mode+" records", "of the WAL a payment", figures.Lower, float64(used.Records)/float64(n))
	}
	b.add(system, mode+" CPU", "us/payment", figures.Lower, float64(used.CPU.Microseconds())/float64(n))
}

// check returns an error unless all outcomes of a run are in the database.
func check(ctx context.Context, session systems.Session, want int) error {
	got, err := session.Count(ctx)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%d outcomes are in the database, want %d: the figure would be of something else", got, want)
	}
	return nil
}
