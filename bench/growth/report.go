package growth

import (
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/bench/figures"
)

// Report writes the results as Markdown, which is what `make scale` prints and docs/scale.md shows.
func (r Results) Report() string {
	var out strings.Builder
	c := r.Calibration
	fmt.Fprintf(&out, "Measured %s in %s: %d round(s), %d readings taken again because others used the machine "+
		"meanwhile. %.0f CPUs, shared by server and clients; a flush takes %.0f us. %s.\n\n",
		r.At.Format("2006-01-02 15:04 MST"), r.Took, r.Rounds, r.Again, c.Machine.CPUs, c.Machine.Flush*1e6, r.PostgreSQL)
	for _, line := range r.NotRun {
		fmt.Fprintf(&out, "- not run: %s\n", line)
	}
	out.WriteString("Calibrated by one cell alone:\n\n")
	pointTable(&out, r.Judged, true)
	out.WriteString("\nWhich gives, of a processor in us, and of WAL in bytes:\n\n" +
		"| step | server | clients | WAL |\n|---|---|---|---|\n")
	for _, each := range []struct {
		name                string
		server, client, wal float64
	}{
		{"an enqueue call", c.Server.Call, c.Client.Call, c.WAL.Call},
		{"each payment in it", c.Server.Item, c.Client.Item, c.WAL.Item},
		{"a turn", c.Server.Turn, c.Client.Turn, c.WAL.Turn},
		{"the same, if it claims or records", c.Server.Written, c.Client.Written, c.WAL.Written},
		{"a payment claimed and recorded", c.Server.Payment, c.Client.Payment, c.WAL.Payment},
		{"a call that waits for its participant", c.Server.Blocked, c.Client.Blocked, c.WAL.Blocked},
		{"a cell, a second", c.Server.Idle, c.Client.Idle, c.WAL.Idle},
	} {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", each.name, figures.Short(each.server*1e6),
			figures.Short(each.client*1e6), figures.Short(each.wal))
	}
	fmt.Fprintf(&out, "\nand, by the rates of its full loads, %s of badly spread jobs, %d share(s) of the processors "+
		"for the process of the clients, and %s ms of round trips a transaction. Vacuum, which is in no figure of a point, "+
		"uses %s us a payment.\n",
		figures.Short(c.Collide), c.Threads, figures.Short(c.Wait*1e3), figures.Short(c.Vacuum*1e6))
	out.WriteString("\nJudged by what it was not calibrated by:\n\n")
	pointTable(&out, r.Judged, false)
	out.WriteString("\n")
	for _, claim := range Claims(r.Judged) {
		fmt.Fprintf(&out, "- %s\n", claim)
	}
	out.WriteString("\n" + r.Prediction.Report())
	return out.String()
}

// pointTable writes a table of those that calibrate, or of the others.
func pointTable(out *strings.Builder, all []Judged, calibrate bool) {
	out.WriteString("| load | CPUs left by others |")
	for _, f := range Figures() {
		fmt.Fprintf(out, " %s, %s: measured [rounds] | simulated | error |", f, f.Unit())
	}
	out.WriteString("\n|---|---|" + strings.Repeat("---|---|---|", len(Figures())) + "\n")
	for _, j := range all {
		if j.Point.Calibrates != calibrate {
			continue
		}
		fmt.Fprintf(out, "| %s | %.2f |", j.Point.Name, j.Ours)
		for _, f := range Figures() {
			cells := " - | - | - |"
			for _, c := range j.Figures {
				if c.Figure == f {
					cells = c.cells(calibrate)
				}
			}
			out.WriteString(cells)
		}
		out.WriteString("\n")
	}
}

func (c Compared) cells(calibrates bool) string {
	low, high := c.Rounds[0], c.Rounds[0]
	for _, v := range c.Rounds {
		low, high = min(low, v), max(high, v)
	}
	off := fmt.Sprintf("%+.0f %%", c.Error()*100)
	if !c.Within() && !calibrates {
		off = "**" + off + "**"
	}
	return fmt.Sprintf(" %s [%s-%s] | %s | %s |", figures.Short(c.Measured), figures.Short(low), figures.Short(high),
		figures.Short(c.Simulated), off)
}

// String says whether the claim is made.
func (c Claim) String() string {
	if c.Points == 0 {
		return fmt.Sprintf("%s: not claimed, because no point was judged", c.Figure)
	}
	worst := fmt.Sprintf("the worst of %d points is off by %+.0f %% (%s)", c.Points, c.Worst*100, c.At)
	switch {
	case !c.Figure.claimed():
		return fmt.Sprintf("%s: not claimed, because they are one process here and one a cell elsewhere; %s", c.Figure, worst)
	case c.Made():
		return fmt.Sprintf("%s: claimed; %s", c.Figure, worst)
	default:
		return fmt.Sprintf("%s: **not claimed**; %s, and %.0f %% is the most", c.Figure, worst, MostError*100)
	}
}

// Report writes what is predicted, with what it rests on.
func (p Prediction) Report() string {
	var out strings.Builder
	out.WriteString(p.Assumptions.String() + "\n\n")
	out.WriteString("| payments/s | servers | cells | connections | WAL, MB/s | relayers | CPUs of relayers | " +
		"what breaks first, at what rate of a server | next | server busy | relayers busy | log flushing | " +
		"p50, p99 to the durable outcome, ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	whole := 1 - p.Assumptions.Headroom
	for _, s := range p.Steps {
		fmt.Fprintf(&out, "| %s | %d | %d | %s | %s | %d | %s |", short(s.Rate), s.Nodes, s.Cells,
			short(float64(s.Connections)), short(s.WAL/1e6), s.Relayers, short(s.RelayerCPUs))
		for _, limit := range s.Limits[:2] {
			fmt.Fprintf(&out, " %s, %s |", limit.Of, short(limit.Rate/whole))
		}
		fmt.Fprintf(&out, " %.0f %% | %.0f %% | %.0f %% | %s, %s |\n",
			s.ServerShare*100, s.RelayerShare*100, s.FlushShare*100, short(s.P50*1e3), short(s.P99*1e3))
	}
	fmt.Fprintf(&out, "\nThe same for %s payments/s, with one assumption changed:\n\n"+
		"| assumed | servers | what breaks first |\n|---|---|---|\n", short(p.Steps[len(p.Steps)-1].Rate))
	for _, other := range p.Others {
		fmt.Fprintf(&out, "| %s | %d | %s |\n", other.What, other.Nodes, other.First)
	}
	fmt.Fprintf(&out, "\nOne participant, whose calls follow one another: %s payments/s at most, by %d.\n", short(p.Hot),
		p.Assumptions.Batch)
	return out.String()
}

// String lists the assumptions.
func (a Assumptions) String() string {
	standby := "no standby"
	if a.Standby {
		standby = fmt.Sprintf("a synchronous standby %s ms away (there and back) that replays %s MB/s",
			short(a.RoundTrip*1e3), short(a.Replay/1e6))
	}
	return fmt.Sprintf("Predicted, not measured, for servers of %s cores of which each is as good as %s of one measured; "+
		"%s %% of every resource stays free; a flush takes %s ms, the device writes %s MB/s of WAL, %s; %d cells a server, "+
		"each with a relayer of %s CPUs at work and %d in all, %d connections that enqueue by %d; rails answer after %s ms "+
		"and take %d calls of a cell at once; full page images add %s bytes a payment; a server takes %d connections.",
		short(a.Cores), short(a.Efficiency), short(a.Headroom*100), short(a.Flush*1e3), short(a.Device/1e6), standby,
		a.CellsANode, short(a.RelayerCPUs), a.Relayers, a.Doors, a.Batch, short(a.RailLatency*1e3), a.RailSlots,
		short(a.PageImages), a.Connections)
}

func short(v float64) string {
	if v == float64(int64(v)) && v < 1000 {
		return fmt.Sprint(int64(v))
	}
	return figures.Short(v)
}
