package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
)

// Config configures a run.
type Config struct {
	Root   string  // folder for the servers' data; "" is /tmp
	Points []Point // nil: those of [Points]
	Rounds int     // of every point, 1 to 100
	Warm   time.Duration
	Length time.Duration // of a point, after Warm
	// Quiet is the most processors that others may have had while a point was measured. For that a
	// point waits, up to Patience; a reading with more is taken again, up to Tries times, and then the
	// quietest of them counts.
	Quiet    float64
	Patience time.Duration
	Tries    int
	Before   *Measured // rounds that are added to; nil: none
	Progress io.Writer
}

// Bounds of a Config.
const maxRounds = 100

func (c Config) withDefaults() (Config, error) {
	if c.Root == "" {
		c.Root = "/tmp"
	}
	if c.Points == nil {
		c.Points = Points()
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	var faults []error
	if c.Rounds < 1 || c.Rounds > maxRounds {
		faults = append(faults, fmt.Errorf("%d rounds: want 1 to %d", c.Rounds, maxRounds))
	}
	if c.Length <= 0 || c.Warm < 0 || c.Patience < 0 || c.Tries < 1 || !(c.Quiet >= 0) {
		faults = append(faults, errors.New("a point takes time and a try, and others may have no less than nothing"))
	}
	return c, errors.Join(faults...)
}

// Series are the readings of a point, a round each.
type Series struct {
	Point    Point     `json:"point"`
	Readings []Reading `json:"readings"`
}

// Measured is what a run has measured, and is kept of it: the rest follows from it.
type Measured struct {
	At         time.Time `json:"at"`
	Took       string    `json:"took"`
	Rounds     int       `json:"rounds"`
	Quiet      float64   `json:"quiet"` // see [Config]
	Again      int       `json:"again"` // readings that were taken again because of others
	PostgreSQL string    `json:"postgresql"`
	Machine    Machine   `json:"machine"`
	NotRun     []string  `json:"not_run,omitempty"`
	Series     []Series  `json:"series"`
}

// Measure measures every point. What was measured before an error is returned with it.
func Measure(ctx context.Context, cfg Config) (m Measured, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return m, err
	}
	begun := time.Now()
	m = Measured{At: begun.UTC().Truncate(time.Second), Rounds: cfg.Rounds, Quiet: cfg.Quiet}
	defer func() { m.Took = time.Since(begun).Round(time.Second).String() }()
	say := func(format string, args ...any) {
		fmt.Fprintf(cfg.Progress, "%6.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	say("installing the cells")
	rig, err := NewRig(ctx, cfg.Root, cfg.Points)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, rig.Close(ctx)) }()
	if m.PostgreSQL, err = rig.Describe(ctx); err != nil {
		return m, err
	}
	for _, p := range cfg.Points {
		if why := rig.Missing(p); why != "" {
			m.NotRun = append(m.NotRun, p.Name+": "+why)
			continue
		}
		m.Series = append(m.Series, Series{Point: p, Readings: cfg.before(p)})
	}
	if cfg.Before != nil {
		if earlier, err := time.ParseDuration(cfg.Before.Took); err == nil {
			begun = begun.Add(-earlier)
		}
		m.Rounds, m.Again = m.Rounds+cfg.Before.Rounds, cfg.Before.Again
	}
	var flushes, rates []float64
	for round := range cfg.Rounds {
		if err := cfg.await(ctx); err != nil {
			return m, err
		}
		flush, rate, err := flushTimes(cfg.Root)
		if err != nil {
			return m, err
		}
		flushes, rates = append(flushes, flush), append(rates, rate)
		m.Machine = Machine{
			CPUs: float64(runtime.NumCPU()), Flush: figures.Median(flushes), FlushRate: figures.Median(rates),
		}
		for at := range m.Series {
			if round%2 == 1 { // every second round goes backwards
				at = len(m.Series) - 1 - at
			}
			one, again, err := cfg.quietly(ctx, rig, m.Series[at].Point)
			if err != nil {
				return m, fmt.Errorf("%s: %w", m.Series[at].Point.Name, err)
			}
			m.Again += again
			m.Series[at].Readings = append(m.Series[at].Readings, one)
			say("round %d of %d: %-28s %s", round+1, cfg.Rounds, m.Series[at].Point.Name, one.line(m.Series[at].Point))
		}
	}
	return m, nil
}

// before returns the readings of a point that are added to.
func (c Config) before(p Point) []Reading {
	if c.Before != nil {
		for _, s := range c.Before.Series {
			if s.Point == p {
				return s.Readings
			}
		}
	}
	return nil
}

// counted returns the series with those readings that count: quiet ones, and all where none is.
func (m Measured) counted() []Series {
	var all []Series
	for _, s := range m.Series {
		quiet := slices.DeleteFunc(slices.Clone(s.Readings), func(r Reading) bool { return r.others() > m.Quiet })
		if len(quiet) > 0 {
			s.Readings = quiet
		}
		if len(s.Readings) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// Results are what follows from what was measured.
type Results struct {
	Measured
	Calibration Calibration
	Judged      []Judged
	Prediction  Prediction
}

// Derive calibrates, judges and predicts.
func (m Measured) Derive(a Assumptions, seed uint64) (r Results, err error) {
	r.Measured = m
	series := m.counted()
	if r.Calibration, err = calibrate(m.Machine, series); err != nil {
		return r, err
	}
	for _, s := range series {
		judged, err := r.Calibration.judge(s, seed)
		if err != nil {
			return r, err
		}
		r.Judged = append(r.Judged, judged)
	}
	r.Prediction, err = r.Calibration.Predict(a, seed)
	return r, err
}

// quietly measures a point while others leave the machine alone, as well as that can be had.
func (c Config) quietly(ctx context.Context, rig *Rig, p Point) (best Reading, again int, err error) {
	for try := range c.Tries {
		if err := c.await(ctx); err != nil {
			return best, again, err
		}
		one, err := rig.Measure(ctx, p, c.Warm, c.Length)
		if err != nil {
			return best, again, err
		}
		if try == 0 || one.others() < best.others() {
			best = one
		}
		if best.others() <= c.Quiet {
			return best, try, nil
		}
	}
	return best, c.Tries - 1, nil
}

// look is how long the machine is looked at before a point.
const look = 300 * time.Millisecond

// await waits until others leave the machine alone, or until the patience ends.
func (c Config) await(ctx context.Context) error {
	for begun := time.Now(); ; {
		at, before, err := time.Now(), time.Duration(0), error(nil)
		if before, err = machineCPU(); err != nil {
			return err
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
		after, err := machineCPU()
		if err != nil {
			return err
		}
		used := (after - before).Seconds() / time.Since(at).Seconds()
		if used <= c.Quiet || time.Since(begun) > c.Patience {
			return nil
		}
	}
}

// others are the processors that others had meanwhile.
func (r Reading) others() float64 { return r.Others / r.Seconds }

// line says in short what was measured.
func (r Reading) line(p Point) string {
	var text strings.Builder
	fmt.Fprintf(&text, "others %.2f CPUs", r.others())
	for _, f := range Figures() {
		if p.asks(f) {
			fmt.Fprintf(&text, ", %s %.5g", f, f.measured(p, r))
		}
	}
	return text.String()
}
