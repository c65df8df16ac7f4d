package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/railhead-pay/railhead/bench/figures"
)

// print writes the table as text.
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
	for _, line := range r.Failed {
		fmt.Fprintln(out, "FAILED:", line)
	}
	fmt.Fprintf(out, "\nMedian [least - most] of %d round(s), in %s. Ratios are medians of the rounds' own.\n\n",
		r.Rounds, r.Took)
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
			figures.Short(row.Min), figures.Short(row.Max), row.Unit, times(row.RatioRiver), times(row.RatioFloor),
			times(row.RatioSelf))
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
