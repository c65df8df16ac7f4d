package ha

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/testbed/faults"
)

// Options says what to run.
type Options struct {
	Failovers int    // how often the cell is broken, 1 to 1000
	Seed      uint64 // of what is drawn; how the processes interleave is not
	PerSec    int    // instructions a second
	Break     string // only what has these words in its name; empty: everything, in turn
	Root      string // the repository
	Out       io.Writer
}

// UnavailableMax bounds the time without a commit, from the loss of a primary, at the ttl
// of 20 s that the page sets.
const UnavailableMax = 45 * time.Second

// Report is the result of a run.
type Report struct {
	faults.Report
	Failovers   int             `json:"failovers"`
	Unavailable []time.Duration `json:"unavailable"` // by failover: the longest without an acknowledgement
	Paid        []time.Duration `json:"paid"`        // by failover: until a bank had executed a later payment
	Kinds       map[string]int  `json:"kinds"`
}

// String returns the line that a run is judged by.
func (r Report) String() string {
	v := r.Verdict
	return fmt.Sprintf("ha: failovers=%d lost=%d doubled=%d false=%d unavailable_p99=%s paid_p99=%s payments=%d",
		r.Failovers, v.Lost, v.Doubled+v.Unexpected, v.False(), tenth(p99(r.Unavailable)), tenth(p99(r.Paid)),
		v.Acknowledged+v.Recovered)
}

func tenth(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// p99 returns the 99th percentile: the longest of up to a hundred.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)*99+99)/100-1]
}

// Good reports whether every bound was kept.
func (r Report) Good(want int) bool {
	return r.Report.Good() && r.Failovers == want && len(r.Unavailable) >= want && p99(r.Unavailable) <= UnavailableMax
}

// run is a run under way.
type run struct {
	Options
	hosts  *Hosts
	w      *faults.World
	report *Report
	leader *host // after the last break
	fed    int
	begun  time.Time
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.Out, "ha: "+format+"\n", args...) }

// logins of the installation, by component.
var logins = map[string]string{"relayer": install.Relayer, "ingest": install.Ingest}

func (r *run) login(component string) string { return logins[component] }

// installation returns the options of the installation. Its times are a third to a fifth of
// the defaults, so that a claim that was lost with a relayer is repaired between two breaks.
func (o Options) installation() faults.Options {
	i := faults.Standard("ha", o.Seed)
	i.Relayers, i.Reapers, i.Participants, i.Callers, i.Pace, i.ThroughAPI = 2, 2, 12, 4, 0, true
	i.ClaimTimeout, i.StartWithin, i.RecordWithin, i.Drain = 30*time.Second, 2*time.Second, 5*time.Second, 5*time.Second
	i.HeartbeatEvery, i.HeartbeatStale, i.StoreTimeout = time.Second, 5*time.Second, 5*time.Second
	i.ReapEvery, i.ReapGrace, i.NotifierTestEvery = time.Second, 3*time.Second, 5*time.Second
	i.HealWithin = 4 * time.Minute
	return i
}

// breakWithin bounds one break with all that follows; the rest of a run has restWithin.
const (
	breakWithin = 5 * time.Minute
	restWithin  = 15 * time.Minute
)

// Run builds the cell and breaks it.
func Run(ctx context.Context, built faults.Binaries, o Options) (report Report, err error) {
	within := time.Duration(o.Failovers)*breakWithin + restWithin
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: the run took longer than %s", await.ErrNotInTime,
		within))
	defer cancel()
	report = Report{Kinds: make(map[string]int)}
	hosts, err := NewHosts(ctx, Programs{Root: o.Root, Railhead: filepath.Dir(built.Railhead)})
	if err != nil {
		return report, err
	}
	r := &run{Options: o, hosts: hosts, report: &report}
	r.say("seed %d; the logs of the hosts are in %s", o.Seed, hosts.dir)
	defer func() {
		err = errors.Join(err, hosts.Close())
		if err == nil && report.Good(o.Failovers) {
			err = hosts.Discard()
		}
	}()
	for _, step := range []string{"2", "3", "4"} {
		if err := hosts.Step(ctx, step); err != nil {
			return report, err
		}
	}
	lane, err := r.lane(ctx, built)
	if err != nil {
		return report, err
	}
	fault := faults.Fault{Name: "ha", Quiet: true, Inject: r.breakAll}
	report.Report = faults.RunOn(ctx, lane, fault, o.installation())
	return report, nil
}

// lane builds the template of the cell, once HAProxy has found the primary.
func (r *run) lane(ctx context.Context, built faults.Binaries) (*faults.Lane, error) {
	var last error
	var lane *faults.Lane
	err := await.Until(ctx, time.Minute, "the cell to be created through HAProxy", func() (bool, error) {
		if lane, last = faults.NewLaneOn(ctx, built, r.hosts.URL, secret); last == nil {
			return true, nil
		}
		time.Sleep(time.Second)
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, last)
	}
	return lane, nil
}

// breakAll breaks the cell as often as was asked for.
func (r *run) breakAll(ctx context.Context, w *faults.World) error {
	r.w, r.begun = w, time.Now()
	if err := r.spoilBanks(ctx); err != nil {
		return err
	}
	all := breakages()
	if !r.hosts.mounted {
		r.say("no disk is filled: a small file system for it can be mounted by root alone")
		all = slices.DeleteFunc(all, func(b breakage) bool { return b.name == "the disk of the primary is full" })
	}
	all = slices.DeleteFunc(all, func(b breakage) bool { return !strings.Contains(b.name, r.Break) })
	if len(all) == 0 {
		return fmt.Errorf("nothing is broken by the words %q", r.Break)
	}
	for n := range r.Failovers {
		b := all[n%len(all)]
		if err := r.breakOnce(ctx, n+1, b); err != nil {
			return fmt.Errorf("failover %d, %s: %w", n+1, b.name, err)
		}
		r.report.Kinds[b.name]++
		r.report.Failovers++
		w.Hit++
	}
	return r.spoilNoMore(ctx)
}

// until keeps the traffic flowing until done returns true.
func (r *run) until(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	end := time.Now().Add(within)
	for {
		if err := r.feed(ctx); err != nil {
			return err
		}
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: waited %s for %s", await.ErrNotInTime, within, what)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// feedFor keeps the traffic flowing for some time. The time is part of the fault.
func (r *run) feedFor(ctx context.Context, lasting time.Duration) error {
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		if err := r.feed(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// callersMax bounds the caller processes at once.
const callersMax = 6

// feed starts another caller when its instructions are due by the clock.
func (r *run) feed(context.Context) error {
	due := int(time.Since(r.begun).Seconds()*float64(r.PerSec)) - r.fed
	if due < r.PerSec || r.w.Calling() >= callersMax {
		return nil
	}
	due = min(due, 3*r.PerSec) // what was not called for during an outage is not called for later
	if _, err := r.w.Traffic(due); err != nil {
		return err
	}
	r.fed = int(time.Since(r.begun).Seconds() * float64(r.PerSec))
	return nil
}
