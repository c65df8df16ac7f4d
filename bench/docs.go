package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/bench/figures"
)

// The page that shows the kept figures, and where they are kept, below the root
// of the repository.
const (
	docsFile   = "docs/performance.md"
	latestFile = "bench/results/latest.json"
	scaleFile  = "bench/results/scale.json"
)

// writeDocs writes the kept figures between the marks of the page.
func writeDocs(root string) error {
	path := filepath.Join(root, docsFile)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err = withFigures(root, page)
	if err != nil {
		return err
	}
	return os.WriteFile(path, page, 0o644)
}

// withFigures returns the page with the figures that are kept now.
func withFigures(root string, page []byte) ([]byte, error) {
	for name, part := range map[string]struct {
		file, target string
		render       func(results) string
	}{
		"latest": {latestFile, "make bench", renderLatest},
		"scale":  {scaleFile, "make bench-scale", renderScale},
	} {
		text := fmt.Sprintf("No figures are kept: `%s` measures them.\n", part.target)
		raw, err := os.ReadFile(filepath.Join(root, part.file))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			var kept results
			if err := json.Unmarshal(raw, &kept); err != nil {
				return nil, fmt.Errorf("%s: %w", part.file, err)
			}
			text = part.render(kept)
		}
		if page, err = between(page, name, text); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// between replaces the text between a pair of marks.
func between(page []byte, name, text string) ([]byte, error) {
	begin, end := fmt.Appendf(nil, "<!-- %s: begin -->\n", name), fmt.Appendf(nil, "<!-- %s: end -->\n", name)
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return nil, fmt.Errorf("%s has no marks %q and %q", docsFile, begin, end)
	}
	return slices.Concat(before, begin, []byte(text), end, after), nil
}

func renderLatest(r results) string {
	var out strings.Builder
	conditions(&out, r)
	for _, name := range systemNames() {
		if configured, ok := r.Systems[name]; ok {
			fmt.Fprintf(&out, "- **%s**: %s.\n", name, configured)
		}
	}
	targetTable(&out, r)
	names := slices.DeleteFunc(systemNames(), func(name string) bool { _, ok := r.Systems[name]; return !ok })
	fmt.Fprintf(&out, "\n| what | unit | %s | railhead : river | railhead : floor | railhead : itself, plain "+
		"|\n|---|---|%s---|---|---|\n",
		strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, mode := range modesOf(r) {
		fmt.Fprintf(&out, "| %s | %s |", mode, unitOf(r, mode))
		for _, name := range names {
			row, ok := r.row(name, mode)
			fmt.Fprintf(&out, " %s |", spread(row, ok))
		}
		own, _ := r.row("railhead", mode)
		fmt.Fprintf(&out, " %s | %s | %s |\n", times(own.RatioRiver), times(own.RatioFloor), times(own.RatioSelf))
	}
	return out.String()
}

func renderScale(r results) string {
	var out strings.Builder
	conditions(&out, r)
	targetTable(&out, r)
	var sizes []string
	var whats []string
	for _, mode := range modesOf(r) {
		what, size, _ := strings.Cut(mode, ", ")
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
		if !slices.Contains(whats, what) {
			whats = append(whats, what)
		}
	}
	fmt.Fprintf(&out, "\n| what | unit | %s |\n|---|---|%s\n", strings.Join(sizes, " | "),
		strings.Repeat("---|", len(sizes)))
	for _, what := range whats {
		fmt.Fprintf(&out, "| %s | %s |", what, unitOf(r, what+", "+sizes[0]))
		for _, size := range sizes {
			row, ok := r.row("railhead", what+", "+size)
			text := spread(row, ok)
			if row.RatioSelf != nil {
				text += " = " + times(row.RatioSelf) + " x"
			}
			fmt.Fprintf(&out, " %s |", text)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// conditions writes what the figures were measured on, and what is wrong with them.
func conditions(out *strings.Builder, r results) {
	fmt.Fprintf(out, "Measured %s in %s: %d round(s). %s. PostgreSQL %s; %s.\n\n",
		r.Measured.Format("2006-01-02 15:04 MST"), r.Took, r.Rounds,
		r.Machine, r.PostgreSQL, r.Settings)
	if r.Quick {
		out.WriteString("**A quick run: short, and too small to be quoted.**\n\n")
	}
	for _, line := range r.Failed {
		fmt.Fprintf(out, "- **failed**: %s\n", line)
	}
	for _, line := range r.NotRun {
		fmt.Fprintf(out, "- %s\n", line)
	}
}

func targetTable(out *strings.Builder, r results) {
	out.WriteString("\n| target | wanted | is | |\n|---|---|---|---|\n")
	for _, t := range r.Targets {
		verdict := string(t.Verdict)
		if t.Verdict != figures.Met {
			verdict = "**" + verdict + "**"
		}
		fmt.Fprintf(out, "| %s | %s | %.2f | %s |\n", t.Mode, t.Target, t.Ratio, verdict)
	}
}

// spread formats the median and the range, or of one round its value.
func spread(row figures.Row, ok bool) string {
	switch {
	case !ok:
		return "-"
	case len(row.Values) == 1:
		return figures.Short(row.Median)
	default:
		return fmt.Sprintf("%s [%s-%s]", figures.Short(row.Median), figures.Short(row.Min), figures.Short(row.Max))
	}
}

// modesOf returns the modes in the order in which they were measured.
func modesOf(r results) []string {
	var all []string
	for _, row := range r.Figures {
		if !slices.Contains(all, row.Mode) {
			all = append(all, row.Mode)
		}
	}
	return all
}

func unitOf(r results, mode string) string {
	for _, row := range r.Figures {
		if row.Mode == mode {
			return row.Unit
		}
	}
	return ""
}
