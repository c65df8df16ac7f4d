package against

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/railhead-pay/railhead/bench/figures"
)

// report writes the figures of both and their ratios. Its last line is for programs too. The cost
// of a payment decides; the number of payments in a second is only reported, because it differs
// most between rounds of the same build.
func (c *comparison) report(rounds []round) error {
	drain, enqueue := lineOf(rounds, drainRate), lineOf(rounds, enqueueRate)
	cpu, wal := lineOf(rounds, enqueueCPU, drainCPU), lineOf(rounds, enqueueWAL, drainWAL)
	var lines []line
	for _, mode := range shared(rounds) {
		lines = append(lines, lineOf(rounds, mode))
	}
	if err := c.table(append(lines, cpu, wal), rounds[0].rev); err != nil {
		return err
	}
	decided := []struct {
		name string
		line
	}{{"cpu", cpu}, {"wal", wal}}
	var exceeded []string
	for _, each := range decided {
		r := each.ratio()
		fmt.Fprintf(c.Out, "%s: %.3f, wanted <= %.3f: %s\n", each.name, r.median, c.Most, r.verdict(c.Most))
		if r.exceeds(c.Most) {
			exceeded = append(exceeded, fmt.Sprintf("%s is %s times that of %s", each.name, r, c.rev.name))
		}
	}
	fmt.Fprintf(c.Out, "against: drain=%s enqueue=%s cpu=%s wal=%s\n", drain.ratio(), enqueue.ratio(), cpu.ratio(),
		wal.ratio())
	if len(exceeded) > 0 {
		return fmt.Errorf("%w, %.3f times: %s", ErrExceeded, c.Most, strings.Join(exceeded, ", "))
	}
	return nil
}

func (c *comparison) table(lines []line, of run) error {
	fmt.Fprintf(c.Out, "\nThis tree against %s, %d round(s). Medians; a ratio is taken within a round. PostgreSQL %s; "+
		"%s\n",
		c.rev.name, c.Rounds, of.PostgreSQL, of.Settings)
	for _, note := range c.notes {
		fmt.Fprintf(c.Out, "note: %s\n", note)
	}
	fmt.Fprintln(c.Out)
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "what\tunit\t%s\ttree\ttree : %s\t\n", c.rev.name, c.rev.name)
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t\n", l.what, l.unit,
			figures.Short(figures.Median(l.rev)), figures.Short(figures.Median(l.tree)), l.ratio())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.Out)
	return nil
}
