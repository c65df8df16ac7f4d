package against

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// The figures that are compared, as the benchmark names them.
const (
	drainRate, drainCPU, drainWAL       = "drain", "drain CPU", "drain WAL"
	enqueueRate, enqueueCPU, enqueueWAL = "enqueue free", "enqueue free CPU", "enqueue free WAL"
)

var compared = []string{drainRate, drainCPU, drainWAL, enqueueRate, enqueueCPU, enqueueWAL}

// run is what one run of one benchmark has measured, read from its file of
// figures.
type run struct {
	Machine struct {
		Go string `json:"go"`
	} `json:"machine"`
	PostgreSQL string        `json:"postgresql"`
	Settings   string        `json:"settings"`
	Figures    []figures.Row `json:"figures"`
}

// figure returns Railhead's row in one mode.
func (r run) figure(mode string) figures.Row {
	at := slices.IndexFunc(r.Figures, func(row figures.Row) bool { return row.System == "railhead" && row.Mode == mode })
	if at < 0 {
		return figures.Row{}
	}
	return r.Figures[at]
}

func (r run) value(mode string) float64 { return r.figure(mode).Median }

// check returns an error if a run lacks something to compare. A CPU of 0 is below the resolution
// of the clock of processes.
func (r run) check() error {
	var faults []error
	for _, mode := range compared {
		if row := r.figure(mode); len(row.Values) != 1 || row.Median <= 0 {
			faults = append(faults, fmt.Errorf("%q is %v, want one value above 0", mode, row.Values))
		}
	}
	return errors.Join(faults...)
}

// round is one run of each build.
type round struct{ rev, tree run }

// alike returns an error if the two runs of a round did not have the same server, or do not use
// the same units.
func (r round) alike() error {
	if r.rev.PostgreSQL != r.tree.PostgreSQL || r.rev.Settings != r.tree.Settings {
		return fmt.Errorf("the two did not run on the same server: %s with %s, and %s with %s",
			r.rev.PostgreSQL, r.rev.Settings, r.tree.PostgreSQL, r.tree.Settings)
	}
	for _, mode := range compared {
		if rev, tree := r.rev.figure(mode).Unit, r.tree.figure(mode).Unit; rev != tree {
			return fmt.Errorf("%q is in %s there and in %s here", mode, rev, tree)
		}
	}
	return nil
}

// measure runs both builds once in each round. Which comes first alternates.
func (c *comparison) measure(ctx context.Context) ([]round, error) {
	if err := os.Mkdir(c.workDir(), 0o755); err != nil {
		return nil, err
	}
	rounds := make([]round, c.Rounds)
	for n := range rounds {
		each := &rounds[n]
		order := []func() error{
			func() (err error) { each.rev, err = c.once(ctx, c.rev, n); return err },
			func() (err error) { each.tree, err = c.once(ctx, c.tree, n); return err },
		}
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, measure := range order {
			if err := measure(); err != nil {
				return nil, err
			}
		}
		if err := each.alike(); err != nil {
			return nil, err
		}
	}
	if rev, tree := rounds[0].rev.Machine.Go, rounds[0].tree.Machine.Go; rev != tree {
		c.notes = append(c.notes, fmt.Sprintf("%s was built by %s, the tree by %s", c.rev.name, rev, tree))
	}
	return rounds, nil
}

// workDir returns the folder in which the benchmarks run, so that files that they write without
// having been asked to do not end up in the tree.
func (c *comparison) workDir() string { return filepath.Join(c.temp, "work") }

// once runs one benchmark and reads its figures.
func (c *comparison) once(ctx context.Context, b build, n int) (run, error) {
	c.say("round %d of %d: measuring %s", n+1, c.Rounds, b.name)
	out := filepath.Join(c.temp, fmt.Sprintf("figures-%s-%d.json", b.name, n+1))
	_, err := command{
		dir: c.workDir(), env: []string{pgserver.EnvBin + "=" + c.postgres}, limit: c.RunLimit, name: b.program,
		args: c.arguments(out),
	}.run(ctx)
	if err != nil {
		return run{}, fmt.Errorf("measuring %s in round %d: %w", b.name, n+1, err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return run{}, fmt.Errorf("%s has kept no figures: %w", b.name, err)
	}
	var r run
	if err := errors.Join(json.Unmarshal(text, &r), r.check()); err != nil {
		return run{}, fmt.Errorf("the figures of %s: %w", b.name, err)
	}
	c.say("  drain   %7s/s, %s us of CPU, %s B of WAL a payment", short(r, drainRate), short(r, drainCPU),
		short(r, drainWAL))
	c.say("  enqueue %7s/s, %s us of CPU, %s B of WAL a payment", short(r, enqueueRate), short(r, enqueueCPU),
		short(r, enqueueWAL))
	return r, nil
}

func short(r run, mode string) string { return figures.Short(r.value(mode)) }

// arguments returns the flags of a benchmark. Every revision that is compared has to know them:
// after one is renamed, earlier revisions can't be compared any more.
func (c *comparison) arguments(out string) []string {
	args := []string{"-rounds", "1", "-modes", "drain,enqueue", "-systems", "railhead", "-out", out}
	if c.Quick {
		args = append(args, "-quick")
	}
	if c.Root != "" {
		args = append(args, "-root", c.Root)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		args = append(args, "-pg", name+"="+c.Settings[name])
	}
	return args
}
