package alertdrill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/alerts"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/promrun"
)

// Scale is the factor by which the run shortens the durations of the rules.
const Scale = 30

// Options selects what to run.
type Options struct {
	Root     string // the repository
	Binaries string // the folder of railhead and railsim
	Programs promrun.Programs
	// Short runs a few faults only. Only runs the faults of these names, separated by |.
	Short bool
	Only  string
	// Keep leaves the folder of logs in place even if nothing failed.
	Keep bool
	Out  io.Writer
}

// Bounds of one fault. A stuck claim takes the longest to fire: the claim timeout and then its
// alert's own wait. A callback that was not taken takes the longest to resolve: 75 minutes of the scale.
const (
	fireWithin    = 60 * time.Second
	resolveWithin = 4 * time.Minute
)

// ErrNotAsItShould means that some alert did not fire, did not resolve, or fired without a reason.
var ErrNotAsItShould = errors.New("the alerts did not do what they should")

//go:embed explained.yaml
var explainedText []byte

// explained returns, by fault, the alerts that fire in addition to its own, and why.
func explained() (map[string]map[string]string, error) {
	all := make(map[string]map[string]string)
	err := yaml.UnmarshalWithOptions(explainedText, &all, yaml.Strict())
	return all, err
}

// tally holds the counts that the last line prints.
type tally struct {
	rules, fired, resolved int
	strays                 []string
	faults                 []string // what else went wrong
}

// Run makes one fault after the other. It prints a line for each, and a summary at the end.
func Run(ctx context.Context, o Options) (err error) {
	begun := time.Now()
	pairs, err := explained()
	if err != nil {
		return fmt.Errorf("explained.yaml: %w", err)
	}
	chosen := o.choose()
	if len(chosen) == 0 {
		return fmt.Errorf("no fault %q", o.Only)
	}
	w, err := newWorld(ctx, o.Root, o.Binaries, "", o.Programs)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.close())
		if err == nil && !o.Keep {
			err = os.RemoveAll(w.dir)
		} else {
			o.say("its logs are in %s", w.dir)
		}
	}()
	if err := w.startPrometheus(ctx, o.Programs); err != nil {
		return err
	}
	watch := newWatcher(w.prom)
	group, watching := errgroup.WithContext(ctx)
	watching, endWatch := context.WithCancel(watching)
	group.Go(func() error { return watch.run(watching) })
	defer func() { endWatch(); err = errors.Join(err, group.Wait()) }()
	steady := w.flow(ctx, "bank", 4)
	defer func() { err = errors.Join(err, steady()) }()
	o.say("ready after %s; the rules' durations are a %dth of what they are", time.Since(begun).Round(time.Second), Scale)

	var sum tally
	for n, f := range chosen {
		if n == 0 && f.name != "history" || n == 1 && chosen[0].name == "history" {
			if err := settle(ctx, watch, resolveWithin); err != nil {
				return err
			}
		}
		if err := o.runFault(ctx, w, watch, f, pairs[f.name], &sum); err != nil {
			return err
		}
	}
	o.say("took %s", time.Since(begun).Round(time.Second))
	for _, each := range append(sum.strays, sum.faults...) {
		o.say("%s", each)
	}
	o.say("rules=%d fired=%d resolved=%d stray=%d", sum.rules, sum.fired, sum.resolved, len(sum.strays))
	if sum.fired != sum.rules || sum.resolved != sum.rules || len(sum.strays)+len(sum.faults) > 0 {
		return ErrNotAsItShould
	}
	return nil
}

func (o Options) choose() []fault {
	var chosen []fault
	for _, f := range faults() {
		if (!o.Short || f.short) && named(o.Only, f.name) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// named reports whether a fault is one of some, separated by |. The empty text names all.
func named(some, fault string) bool {
	return some == "" || slices.Contains(strings.Split(some, "|"), fault)
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Out, "alerts: "+format+"\n", args...) }

func (w *world) startPrometheus(ctx context.Context, programs promrun.Programs) error {
	settings := alerts.Settings{Scale: Scale}
	rules, err := alerts.Render(settings)
	if err != nil {
		return err
	}
	if err := w.backfill(ctx, settings); err != nil {
		return err
	}
	w.prom, err = programs.Start(ctx, promrun.Config{
		Dir: w.dir, Rules: rules, Scrape: time.Second, Evaluate: time.Second, Lookback: settings.Scaled(5 * time.Minute),
		Targets: w.targets,
	})
	if err != nil {
		return err
	}
	// A rule that uses a window needs more than one sample of each component.
	return await.Until(ctx, child.StartWithin, "every component to be scraped", func() (bool, error) {
		n, err := w.prom.Count(ctx, `count_over_time(up[10s]) >= 3`)
		return n >= len(w.targets), err
	})
}

// quietFor is how long nothing may be pending or firing until it counts as quiet: a few
// evaluations.
const quietFor = 2 * time.Second

// settle waits until nothing has been pending or firing for quietFor.
func settle(ctx context.Context, watch *watcher, within time.Duration) error {
	var left []string
	since := time.Now()
	err := await.Until(ctx, within, "every alert to resolve", func() (bool, error) {
		quiet := false
		quiet, left = watch.quiet()
		if !quiet {
			since = time.Now()
		}
		return time.Since(since) > quietFor, nil
	})
	if err != nil {
		return fmt.Errorf("%w; still there: %s", err, strings.Join(left, "; "))
	}
	return nil
}

// runFault makes one fault, waits for its alerts to fire, runs the runbook's commands, heals the
// fault, and waits until every alert has resolved.
func (o Options) runFault(
	ctx context.Context, w *world, watch *watcher, f fault, pairs map[string]string, sum *tally,
) error {
	fail := func(format string, args ...any) {
		said := f.name + ": " + fmt.Sprintf(format, args...)
		o.say("%s", said) // now too: a later fault may end the run
		sum.faults = append(sum.faults, said)
	}
	sum.rules += len(f.wants)
	begun := time.Now()
	vars, err := f.inject(ctx, w)
	if err != nil {
		return fmt.Errorf("%s: breaking it: %w", f.name, err)
	}
	fired := o.awaitFiring(ctx, watch, f, fail)
	sum.fired += fired
	firedAfter := time.Since(begun)
	o.runbooks(ctx, w, f, vars, "How to check", fail)

	healed := time.Now()
	if err := errors.Join(w.heal(), f.heal(ctx, w)); err != nil {
		return fmt.Errorf("%s: healing it: %w", f.name, err)
	}
	o.runbooks(ctx, w, f, vars, "What to do", fail)
	if err := settle(ctx, watch, resolveWithin); err != nil {
		fail("%v", err)
	}
	for _, key := range f.wants {
		if !watch.firing(key) && fired == len(f.wants) {
			sum.resolved++
		}
	}
	resolvedAfter := time.Since(healed)
	o.runbooks(ctx, w, f, vars, "How to know it is over", fail)

	also := sum.addStrays(f, watch.firedSince(begun), pairs)
	o.say("%-34s %s; fired after %4.1f s, resolved after %4.1f s%s", f.name, f.about, firedAfter.Seconds(),
		resolvedAfter.Seconds(), also)
	return nil
}

func (o Options) awaitFiring(ctx context.Context, watch *watcher, f fault, fail func(string, ...any)) int {
	fired := 0
	for _, key := range f.wants {
		err := await.Until(ctx, fireWithin, key+" to fire", func() (bool, error) {
			return watch.firing(key), nil
		})
		if err != nil {
			fail("%v", err)
			continue
		}
		fired++
	}
	return fired
}

// addStrays adds the alerts that fired without an explanation, and returns a text that names the
// explained ones.
func (t *tally) addStrays(f fault, fired, pairs map[string]string) string {
	var also []string
	for _, key := range slices.Sorted(maps.Keys(fired)) {
		alert, _, _ := strings.Cut(key, "/")
		switch _, ok := pairs[alert]; {
		case slices.Contains(f.wants, key):
		case ok:
			also = append(also, alert)
		default:
			t.strays = append(t.strays, fmt.Sprintf("stray: %s while %s", fired[key], f.name))
		}
	}
	if len(also) == 0 {
		return ""
	}
	return "; with it, explained: " + strings.Join(also, ", ")
}

// runbooks runs the commands of a section of the fault's runbooks, as written. Each must succeed
// and print something.
func (o Options) runbooks(
	ctx context.Context, w *world, f fault, vars []string, section string, fail func(string, ...any),
) {
	for _, key := range f.wants {
		alert, _, _ := strings.Cut(key, "/")
		text, err := fs.ReadFile(alerts.Files, "runbooks/"+alert+".md")
		if err != nil {
			fail("%v", err)
			continue
		}
		for _, block := range alerts.Commands(string(text), section) {
			for command := range strings.Lines(block) {
				if err := w.looks(ctx, vars, strings.TrimSpace(command)); err != nil {
					fail("the runbook, %s: %v", section, err)
				}
			}
		}
	}
}

// looks runs a command that must succeed and print something. A late scrape on a busy machine
// leaves a gap of a second, so a command that prints nothing is repeated.
func (w *world) looks(ctx context.Context, vars []string, command string) error {
	for range 4 {
		said, err := w.shell(ctx, vars, command)
		if err != nil || strings.TrimSpace(said) != "" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("%s: printed nothing", command)
}
