package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
)

// selves are the modes whose figure is also compared with another mode of the
// same system.
var selves = map[string]string{
	"enqueue held": "enqueue free",
	"two relayers": "one relayer",
	"one waits":    "none waits",
	"held p50":     "latency p50",
	"held p99":     "latency p99",
	"held CPU":     "latency CPU",
	"held e2e":     "e2e",
	"held drain":   "drain",
	"slow drain":   "drain",
	"slow e2e":     "e2e",
	"enqueue hot":  "enqueue free",
	"http of 8":    "in process of 8",
	"http of 64":   "in process of 64",
	"http of 256":  "in process of 256",
	// The cost of a payment in a call of several, relative to a call of one.
	"batch of 2 CPU":          "batch of 1 CPU",
	"batch of 4 CPU":          "batch of 1 CPU",
	"batch of 8 CPU":          "batch of 1 CPU",
	"batch of 32 CPU":         "batch of 1 CPU",
	"batch of 1000 CPU":       "batch of 1 CPU",
	"lanes p50":               "latency p50",
	"lanes p99":               "latency p99",
	"steady half 2 pending":   "steady half 1 pending",
	"steady half 2 dead rows": "steady half 1 dead rows",
	"replay":                  "e2e",
	// The floor with another client.
	"pgbench drain":   "drain",
	"pgbench enqueue": "enqueue free",
}

// targets returns the numbers to reach.
func targets() []figures.Target {
	var all []figures.Target
	atLeast := func(mode string, against figures.Against, n float64) {
		all = append(all, figures.Target{System: "railhead", Mode: mode, Against: against, AtLeast: n})
	}
	atMost := func(mode string, against figures.Against, n float64) {
		all = append(all, figures.Target{System: "railhead", Mode: mode, Against: against, AtMost: n})
	}
	atLeast("drain", figures.ToRiver, 1.75)
	atLeast("drain", figures.ToFloor, 0.6)
	atLeast("e2e", figures.ToRiver, 2)
	atLeast("e2e", figures.ToFloor, 0.5)
	atMost("e2e WAL", figures.ToRiver, 0.7)
	atMost("e2e call p50", figures.ToRiver, 0.5)
	atMost("e2e call p99", figures.ToRiver, 0.6)
	atLeast("e2e of 32", figures.ToRiver, 3.4)
	atLeast("e2e of 256", figures.ToRiver, 4.5)
	atLeast("e2e of 256 gathered", figures.ToRiver, 1.25)
	atLeast("singles", figures.ToRiver, 1)
	atLeast("http of 8", figures.ToSelf, 0.7)
	atLeast("http of 64", figures.ToSelf, 0.55)
	atLeast("http of 256", figures.ToSelf, 0.55)
	atMost("batch of 2 CPU", figures.ToSelf, 1)
	atMost("batch of 4 CPU", figures.ToSelf, 0.55)
	atMost("batch of 8 CPU", figures.ToSelf, 0.35)
	atMost("batch of 1000 CPU", figures.ToSelf, 0.14)
	atLeast("slow e2e", figures.ToRiver, 2.2)
	atLeast("slow e2e", figures.ToFloor, 0.75)
	atMost("latency p50", figures.ToRiver, 1)
	atMost("latency p99", figures.ToRiver, 1)
	atMost("latency p50", figures.ToFloor, 2)
	atMost("held p50", figures.ToRiver, 0.2)
	atMost("held CPU", figures.ToRiver, 0.2)
	atLeast("enqueue held", figures.ToSelf, 0.7)
	atLeast("two relayers", figures.ToSelf, 1)
	atLeast("one waits", figures.ToSelf, 0.95)
	atMost("lanes p99", figures.ToSelf, 1.2)
	atMost("steady half 2 pending", figures.ToSelf, 1.2)
	atLeast("replay", figures.ToSelf, 1)
	return all
}

// results is the content of the file of figures.
type results struct {
	Measured   time.Time         `json:"measured"`
	Quick      bool              `json:"quick"`
	Rounds     int               `json:"rounds"`
	Took       string            `json:"took"`
	Machine    facts             `json:"machine"`
	PostgreSQL string            `json:"postgresql"`
	Settings   string            `json:"settings"`
	Systems    map[string]string `json:"systems"`
	NotRun     []string          `json:"not_run,omitempty"`
	Failed     []string          `json:"failed,omitempty"`
	Figures    []figures.Row     `json:"figures"`
	Targets    []judged          `json:"targets,omitempty"`
}

type judged struct {
	figures.Target
	Ratio   float64         `json:"ratio"`
	Verdict figures.Verdict `json:"verdict"`
}

func (b *bench) report(ctx context.Context) error {
	settings, err := b.plain.Describe(ctx)
	if err != nil {
		return err
	}
	self, goals := selves, targets()
	if b.options.scale {
		self, goals = b.scaleSelves(), b.scaleTargets()
	}
	r := results{
		Measured: b.begun.UTC().Truncate(time.Second), Quick: b.quick, Rounds: b.options.rounds,
		Took: time.Since(b.begun).Round(time.Second).String(), Machine: b.facts, PostgreSQL: b.plain.Version(),
		Settings: settings,
		Systems:  make(map[string]string), NotRun: b.skipped, Figures: figures.Rows(b.samples, self),
	}
	for _, each := range b.systems {
		r.Systems[each.Name()] = each.Configured()
	}
	for _, err := range b.failed {
		r.Failed = append(r.Failed, err.Error())
	}
	for _, target := range goals {
		row, ok := r.row(target.System, target.Mode)
		if !ok && !b.whole {
			continue // it was not asked for
		}
		verdict, ratio := target.Judge(row)
		r.Targets = append(r.Targets, judged{target, ratio, verdict})
	}
	if err := b.print(os.Stdout, r); err != nil {
		return err
	}
	return write(b.out, r)
}

// row returns the figure of a system in a mode.
func (r results) row(system, mode string) (figures.Row, bool) {
	at := slices.IndexFunc(r.Figures, func(row figures.Row) bool { return row.System == system && row.Mode == mode })
	if at < 0 {
		return figures.Row{}, false
	}
	return r.Figures[at], true
}

func write(path string, r results) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "figures in", path)
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
