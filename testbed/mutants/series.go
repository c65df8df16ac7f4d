package mutants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// Series removes guards in several lanes. Each lane has a copy of the tree and,
// because roles belong to a whole cluster, a PostgreSQL of its own.
type Series struct {
	Root     string // of the module
	Mutants  []Mutant
	Lanes    int       // at least 1; more than one only where TEST_DATABASE_URL is not set
	TempRoot string    // where the copies and the clusters are; empty: the system's folder for temporary files
	Evidence *Evidence // nil keeps and skips nothing
	Out      io.Writer
}

// Total counts the results of a series.
type Total struct {
	Mutants, Caught, Missed int
}

func (t Total) String() string {
	return fmt.Sprintf("mutants=%d caught=%d missed=%d", t.Mutants, t.Caught, t.Missed)
}

// errOneServer means that several lanes would use one server of the caller's.
var errOneServer = errors.New("several lanes need a server each: unset " + pgserver.EnvURL + ", or ask for one lane")

// Run removes every guard once. It prints a line for each mutant as soon as its result is known. A
// missed mutant is counted and is no error.
func (s Series) Run(ctx context.Context) (total Total, err error) {
	total.Mutants = len(s.Mutants)
	if s.Lanes > 1 && os.Getenv(pgserver.EnvURL) != "" {
		return total, errOneServer
	}
	seen, err := newDigests(s.Root)
	if err != nil {
		return total, fmt.Errorf("reading the tree: %w", err)
	}
	keys := make(map[string]string) // by name
	var mu sync.Mutex
	note := func(caught bool, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if caught {
			total.Caught++
		} else {
			total.Missed++
		}
		width := len(strconv.Itoa(total.Mutants))
		fmt.Fprintf(s.Out, "[%*d/%d] %s\n", width, total.Caught+total.Missed, total.Mutants, fmt.Sprintf(format, args...))
	}
	var left []Mutant
	for _, m := range s.Mutants {
		if s.Evidence != nil {
			if keys[m.Name], err = seen.key(ctx, m); err != nil {
				return total, fmt.Errorf("%s: %w", m.Name, err)
			}
			if was, ok := s.Evidence.has(keys[m.Name]); ok {
				note(true, "caught %-30s by %s (with this code, at %s): %s", m.Name, m.Catcher, was.At.UTC().Format(time.RFC3339),
					was.Reason)
				continue
			}
		}
		left = append(left, m)
	}
	try := func(bench *Bench, m Mutant) error {
		how, err := bench.Catch(ctx, m)
		if ctx.Err() != nil {
			return nil // broken off: that says nothing of the mutant
		}
		if err != nil {
			note(false, "MISSED %v", err)
			return nil
		}
		note(true, "caught %-30s by %s (%s, control %s): %s", m.Name, m.Catcher, how.Took.Round(100*time.Millisecond),
			how.Control.Round(100*time.Millisecond), how.Reason)
		if s.Evidence == nil {
			return nil
		}
		return s.Evidence.add(Record{Key: keys[m.Name], Mutant: m.Name, At: time.Now(), TookMS: how.Took.Milliseconds(),
			Reason: how.Reason})
	}
	shared := newControls()
	jobs := make(chan job)
	failed := make([]error, s.Lanes)
	var lanes sync.WaitGroup
	for n := range s.Lanes {
		lanes.Go(func() {
			failed[n] = s.lane(ctx, jobs, shared, try)
			for range jobs { // a lane that failed takes its share without making it, so that the others end
			}
		})
	}
	for _, group := range together(left) {
		jobs <- job{controls: group}
	}
	for _, mutants := range byCatcher(left) {
		jobs <- job{mutants: mutants}
	}
	close(jobs)
	lanes.Wait()
	return total, errors.Join(append(failed, context.Cause(ctx))...)
}

// job is a lane's unit of work: controls that are run together, or the mutants of one catcher.
type job struct {
	controls []control
	mutants  []Mutant
}

// lane takes jobs until none are left.
func (s Series) lane(
	ctx context.Context, jobs <-chan job, shared *controls, try func(*Bench, Mutant) error,
) (failed error) {
	var bench *Bench
	for job := range jobs {
		if ctx.Err() != nil {
			return nil
		}
		if bench == nil {
			opened, end, err := s.open(ctx)
			defer func() { failed = errors.Join(failed, end()) }()
			if err != nil {
				return err
			}
			opened.controls, bench = shared, opened
		}
		if len(job.controls) > 0 {
			if err := bench.controlTogether(ctx, job.controls); err != nil && ctx.Err() == nil {
				fmt.Fprintf(s.Out, "controls of %v\nare run one by one\n", err)
			}
		}
		for _, m := range job.mutants {
			if err := try(bench, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// open makes the copy and the server of a lane. It returns a function that removes them, which
// must be called whatever the error is.
func (s Series) open(ctx context.Context) (bench *Bench, end func() error, err error) {
	dir, err := os.MkdirTemp(s.TempRoot, "mutants-")
	if err != nil {
		return nil, func() error { return nil }, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	url, stop, err := s.server(ctx)
	if err != nil {
		return nil, remove, err
	}
	bench, err = NewBench(s.Root, dir, pgserver.EnvURL+"="+url)
	return bench, func() error { return errors.Join(stop(), remove()) }, err
}

// server starts a PostgreSQL for one lane, unless the caller has named one.
func (s Series) server(ctx context.Context) (url string, stop func() error, err error) {
	if url := os.Getenv(pgserver.EnvURL); url != "" {
		return url, func() error { return nil }, nil
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		Settings: pgserver.TestSettings(), TempRoot: s.TempRoot, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return "", nil, fmt.Errorf("starting a server for a lane: %w", err)
	}
	return server.URL("postgres", pgserver.Superuser), func() error { return server.Stop(context.WithoutCancel(ctx)) }, nil
}

// byCatcher groups mutants by catcher, so that a catcher is controlled once. Faults come first,
// because they take longest, then the catchers of many mutants, so that no lane is left alone with
// one at the end, then packages together: what one lane has compiled another finds in the cache.
// Mutants of SQL replace the server's template of a database, so that those of Go, which share
// one, come before them.
func byCatcher(all []Mutant) [][]Mutant {
	var jobs [][]Mutant
	at := make(map[control]int)
	for _, m := range all {
		one := control{m.ofSQL(), m.Catcher}
		n, ok := at[one]
		if !ok {
			n = len(jobs)
			at[one], jobs = n, append(jobs, nil)
		}
		jobs[n] = append(jobs[n], m)
	}
	slices.SortStableFunc(jobs, func(a, b []Mutant) int {
		return cmp.Or(cmp.Compare(faultRuns(b), faultRuns(a)),
			cmp.Compare(max(len(b), manyMutants), max(len(a), manyMutants)),
			cmp.Compare(a[0].Catcher.Package, b[0].Catcher.Package), cmp.Compare(rank(a[0]), rank(b[0])))
	})
	return jobs
}

// rank orders mutants of Go before those of SQL.
func rank(m Mutant) int {
	if m.ofSQL() {
		return 1
	}
	return 0
}

// manyMutants is the number of mutants from which on a catcher is begun before others.
const manyMutants = 5

// faultRuns returns how many runs of a fault a job may take; 0 if its catcher is a test.
func faultRuns(job []Mutant) int {
	if job[0].Catcher.Fault == "" {
		return 0
	}
	return len(job) * max(job[0].Catcher.Seeds, 1)
}
