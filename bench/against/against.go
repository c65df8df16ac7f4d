// Package against compares what a payment costs in an earlier revision and in
// the tree as it is now.
//
// Both are built from source, each with its own benchmark, and each benchmark
// measures its own Railhead; the runs alternate. The alternative, this tree's
// benchmark compiled with the revision's packages, would measure both by the
// same lines of code, but would stop compiling with the first change of a Go
// function that it calls. What two revisions have to share here is little and
// changes seldom: the flags of [comparison.arguments] and the file of figures.
// The price is that measuring code may differ, so that is looked at: PostgreSQL's
// programs and settings are given to both and have to be equal in both files,
// and where files that decide what is measured differ, the report names them.
package against

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// The defaults of `make bench-against`.
const (
	DefaultRounds = 7
	DefaultMost   = 1.03
)

// Bounds of a [Config].
const (
	maxRounds         = 100
	defaultBuildLimit = 10 * time.Minute // a first build downloads modules
	defaultRunLimit   = 15 * time.Minute // a whole run takes about a minute
)

// ErrExceeded says that a payment costs more than it may.
var ErrExceeded = errors.New("a payment costs more than it may")

// Config selects what to compare.
type Config struct {
	Dir      string            // a folder of the repository; "" is the working directory
	Revision string            // anything that git takes for a commit
	Rounds   int               // runs of each build, 1 to 100
	Most     float64           // the greatest ratio of CPU and of WAL, tree by revision, that is no failure
	Quick    bool              // measure less in each run; the figures are coarse
	Root     string            // folder for the server's data; "" is what the benchmark takes
	Settings map[string]string // server settings, put over those of every run
	Go       string            // the go command; "" is go
	Out      io.Writer         // receives the report
	Progress io.Writer         // receives a line for each step

	BuildLimit time.Duration // bounds each build; 0 is 10 minutes
	RunLimit   time.Duration // bounds each run; 0 is 15 minutes
}

func (c Config) withDefaults() (Config, error) {
	c.Go = cmp.Or(c.Go, "go")
	c.BuildLimit = cmp.Or(c.BuildLimit, defaultBuildLimit)
	c.RunLimit = cmp.Or(c.RunLimit, defaultRunLimit)
	settings := server.Settings()
	maps.Copy(settings, c.Settings)
	c.Settings = settings
	var faults []error
	if c.Rounds < 1 || c.Rounds > maxRounds {
		faults = append(faults, fmt.Errorf("%d rounds: want 1 to %d", c.Rounds, maxRounds))
	}
	if !(c.Most > 0) {
		faults = append(faults, fmt.Errorf("at most %v times: want a ratio above 0", c.Most))
	}
	if c.Root != "" {
		// The runs have a working directory of their own.
		var err error
		if c.Root, err = filepath.Abs(c.Root); err != nil {
			faults = append(faults, err)
		}
	}
	return c, errors.Join(faults...)
}

// comparison is one run of this package.
type comparison struct {
	Config
	temp      string // holds everything that is made; removed at the end
	postgres  string // the folder with PostgreSQL's programs, for both
	rev, tree build
	notes     []string // what the reader has to know of the figures
	begun     time.Time
}

// Run builds and measures the revision and the tree and writes the report. The
// error is ErrExceeded if CPU or WAL of a payment exceeds its bound by more than
// the rounds differ.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	found, err := pgserver.Find(ctx, 0)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "railhead-against-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	c := &comparison{Config: cfg, temp: temp, postgres: found.Dir, begun: time.Now()}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	rounds, err := c.measure(ctx)
	if err != nil {
		return err
	}
	return c.report(rounds)
}

func (c *comparison) say(format string, args ...any) {
	fmt.Fprintf(c.Progress, "%6.1fs  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
}
