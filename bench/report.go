package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
)

// selves are the modes whose figure is also compared with another mode of the
// same system.
var selves = map[string]string{
	"enqueue held": "enqueue free",
	"two relayers": "one relayer",
	"held p50":     "latency p50",
	"held p99":     "latency p99",
	"held CPU":     "latency CPU",
	"held e2e":     "e2e",
}

// targets are the numbers to reach.
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
	atLeast("e2e", figures.ToRiver, 1.5)
	atLeast("e2e", figures.ToFloor, 0.5)
	atMost("e2e WAL", figures.ToRiver, 0.7)
	atLeast("slow e2e", figures.ToRiver, 1.5)
	atLeast("slow e2e", figures.ToFloor, 0.7)
	atMost("latency p50", figures.ToRiver, 1)
	atMost("latency p99", figures.ToRiver, 1)
	atMost("latency p50", figures.ToFloor, 2)
	atMost("held p50", figures.ToRiver, 0.2)
	atMost("held CPU", figures.ToRiver, 0.2)
	atLeast("enqueue held", figures.ToSelf, 0.7)
	atLeast("two relayers", figures.ToSelf, 1)
	return all
}

// results is the file of figures.
type results struct {
	Measured   time.Time         `json:"measured"`
	Quick      bool              `json:"quick"`
	Rounds     int               `json:"rounds"`
	Machine    string            `json:"machine"`
	PostgreSQL string            `json:"postgresql"`
	Settings   string            `json:"settings"`
	Systems    map[string]string `json:"systems"`
	NotRun     []string          `json:"not_run,omitempty"`
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
		Machine: machine(), PostgreSQL: b.plain.Version(), Settings: settings,
		Systems: make(map[string]string), NotRun: b.skipped, Figures: figures.Rows(b.samples, self),
	}
	for _, each := range b.systems {
		r.Systems[each.Name()] = each.Configured()
	}
	for _, target := range goals {
		at := slices.IndexFunc(r.Figures, func(row figures.Row) bool { return row.System == target.System && row.Mode == target.Mode })
		if at < 0 {
			continue // the mode was not run
		}
		verdict, ratio := target.Judge(r.Figures[at])
		r.Targets = append(r.Targets, judged{target, ratio, verdict})
	}
	if err := b.print(os.Stdout, r); err != nil {
		return err
	}
	return write(b.out, r)
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

func (b *bench) print(out io.Writer, r results) error {
	fmt.Fprintf(out, "\n%s; PostgreSQL %s\n%s\n\n", r.Machine, r.PostgreSQL, r.Settings)
	for _, each := range b.systems {
		fmt.Fprintf(out, "%-10s %s\n", each.Name(), r.Systems[each.Name()])
	}
	for _, each := range b.chosenModes() {
		if !b.options.scale {
			fmt.Fprintf(out, "%-10s %s\n", each.name, each.what)
		}
	}
	for _, line := range r.NotRun {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "\nMedian [least - most] of %d round(s). Ratios are medians of the rounds' own.\n\n", r.Rounds)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "what\tsystem\tmedian\t[least - most]\tunit\tx river\tx floor\tx self\t")
	last := ""
	for _, row := range r.Figures {
		what := row.Mode
		if what == last {
			what = ""
		}
		last = row.Mode
		fmt.Fprintf(table, "%s\t%s\t%s\t[%s - %s]\t%s\t%s\t%s\t%s\t\n", what, row.System, figures.Short(row.Median),
			figures.Short(row.Min), figures.Short(row.Max), row.Unit, times(row.RatioRiver), times(row.RatioFloor), times(row.RatioSelf))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Targets) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nTargets")
	table = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, t := range r.Targets {
		fmt.Fprintf(table, "  %s\t%s\tis %.2f\t%s\n", t.Mode, t.Target, t.Ratio, t.Verdict)
	}
	return table.Flush()
}

func times(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *ratio)
}

// machine says what this was measured on.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), %s, clients and server share them", runtime.NumCPU(), model, runtime.GOOS)
}
