package against

import (
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/bench/figures"
)

// ratio is a figure of the tree divided by that of the revision: the median of the rounds' own
// ratios, and the least and the greatest of them.
type ratio struct{ median, lo, hi float64 }

// ratioOf divides the values of the tree by those of the revision, round by round.
func ratioOf(tree, rev []float64) ratio {
	each := make([]float64, len(tree))
	for i := range tree {
		each[i] = tree[i] / rev[i]
	}
	return ratio{figures.Median(each), slices.Min(each), slices.Max(each)}
}

func (r ratio) String() string { return fmt.Sprintf("%.3f [%.3f..%.3f]", r.median, r.lo, r.hi) }

// spread returns how far the rounds are apart.
func (r ratio) spread() float64 { return r.hi - r.lo }

// exceeds reports whether the ratio is above a bound by more than the rounds are
// apart: less is no finding on a machine that differs by so much from itself.
func (r ratio) exceeds(most float64) bool { return r.median-most > r.spread() }

// verdict compares the ratio with a bound, in words.
func (r ratio) verdict(most float64) string {
	switch {
	case r.median <= most:
		return "met"
	case r.exceeds(most):
		return fmt.Sprintf("MISSED by %.3f, more than the rounds are apart (%.3f)", r.median-most, r.spread())
	default:
		return fmt.Sprintf("met: %.3f over it, but the rounds are %.3f apart", r.median-most, r.spread())
	}
}

// line is one row of the report.
type line struct {
	what, unit string
	rev, tree  []float64 // in the order of the rounds
}

func (l line) ratio() ratio { return ratioOf(l.tree, l.rev) }

// lineOf returns the sums of the figures of some modes, for each build in each round.
func lineOf(rounds []round, modes ...string) line {
	l := line{what: strings.Join(modes, " + "), unit: rounds[0].rev.figure(modes[0]).Unit}
	for _, each := range rounds {
		var rev, tree float64
		for _, mode := range modes {
			rev += each.rev.value(mode)
			tree += each.tree.value(mode)
		}
		l.rev, l.tree = append(l.rev, rev), append(l.tree, tree)
	}
	return l
}

// shared returns the modes that every run has measured, in the order of the file. Some of them are
// not compared: a benchmark can't be asked for the free enqueue alone.
func shared(rounds []round) []string {
	var all []string
	for _, row := range rounds[0].rev.Figures {
		lacks := func(r run) bool {
			other := r.figure(row.Mode)
			return other.Median <= 0 || other.Unit != row.Unit
		}
		missing := slices.ContainsFunc(rounds, func(each round) bool { return lacks(each.rev) || lacks(each.tree) })
		if row.System == "railhead" && !missing {
			all = append(all, row.Mode)
		}
	}
	return all
}
