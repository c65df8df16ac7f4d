package mutants

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// controls are the catchers that passed with every guard in place, in the tree that is
// compiled or in the one that reads its SQL from the disk.
type controls struct {
	mu     sync.Mutex
	passed map[control]bool
}

type control struct {
	read    bool
	catcher Catcher
}

func newControls() *controls { return &controls{passed: make(map[control]bool)} }

func (c *controls) has(one control) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passed[one]
}

func (c *controls) add(all ...control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range all {
		c.passed[one] = true
	}
}

// control shows, once, that a catcher passes with every guard in place.
func (b *Bench) control(ctx context.Context, t *tree, c Catcher) error {
	one := control{t.read, c}
	if b.controls.has(one) && (!t.read || t.programs[c.Package] != "") {
		return nil
	}
	program, err := b.program(ctx, t, c)
	if err != nil || b.controls.has(one) {
		return err
	}
	caught, output, err := b.run(ctx, t, program, c)
	if err == nil && caught {
		err = fmt.Errorf("%w: %s\n%s", ErrControl, c, output)
	}
	if err == nil {
		b.controls.add(one)
	}
	return err
}

// program returns the catcher's program, built once from the tree with every guard in place.
func (b *Bench) program(ctx context.Context, t *tree, c Catcher) (string, error) {
	if program, built := t.programs[c.Package]; built {
		return program, nil
	}
	program, err := b.build(ctx, t, c, "control")
	if err == nil {
		t.programs[c.Package] = program
	}
	return program, err
}

// ran finds the names of the tests in the output of a verbose run.
var ran = regexp.MustCompile(`(?m)^=== RUN +(\S+)$`)

// controlTogether runs many catchers of one package in one process, which starts and finds its
// database once, and counts them as controlled if nothing fails. If something fails, or a catcher
// is not among the tests that ran, its mutants control it individually.
func (b *Bench) controlTogether(ctx context.Context, all []control) error {
	t, first := b.built, all[0].catcher
	if all[0].read {
		t = b.read
	}
	program, err := b.program(ctx, t, first)
	if err != nil {
		return err
	}
	var tests []string
	for _, one := range all {
		tests = append(tests, one.catcher.Test)
	}
	output, err := b.test(ctx, t, program, first.Package, strings.Join(tests, "|"), "-test.v").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", first.Package, cmp.Or(ctx.Err(), err), reason(string(output)))
	}
	var names []string
	for _, match := range ran.FindAllSubmatch(output, -1) {
		names = append(names, string(match[1]))
	}
	b.controls.add(slices.DeleteFunc(slices.Clone(all), func(one control) bool { return !one.catcher.isAmong(names) })...)
	return t.forget(first)
}

// isAmong reports whether each alternative of a catcher's pattern has one of these tests.
func (c Catcher) isAmong(tests []string) bool {
	for alternative := range strings.SplitSeq(c.Test, "|") {
		pattern := strings.Split(alternative, "/")
		if !slices.ContainsFunc(tests, func(test string) bool { return fits(strings.Split(test, "/"), pattern) }) {
			return false
		}
	}
	return true
}

// fits reports whether the names of a test and its subtests match a pattern, as go test -run does.
func fits(names, pattern []string) bool {
	if len(names) < len(pattern) {
		return false
	}
	for level, expression := range pattern {
		if matched, err := regexp.MatchString(expression, names[level]); err != nil || !matched {
			return false
		}
	}
	return true
}

// isPlain reports whether a catcher's pattern can be one alternative of many.
func (c Catcher) isPlain() bool { return c.Fault == "" && !strings.ContainsAny(c.Test, "()[]") }

// controlsAtOnce bounds the catchers of one process: so many end well before its timeout on a slow
// machine, and after a failure no more have to be run one by one.
const controlsAtOnce = 40

// together returns the controls that are run together: those of each package and tree that has
// more than one.
func together(mutants []Mutant) [][]control {
	var groups [][]control
	at := make(map[control]int) // by package
	seen := make(map[control]bool)
	for _, m := range mutants {
		one := control{m.ofSQL(), m.Catcher}
		if seen[one] || !m.Catcher.isPlain() {
			continue
		}
		seen[one] = true
		group := control{one.read, Catcher{Package: m.Catcher.Package}}
		n, ok := at[group]
		if !ok || len(groups[n]) == controlsAtOnce {
			n = len(groups)
			at[group], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], one)
	}
	groups = slices.DeleteFunc(groups, func(group []control) bool { return len(group) < 2 })
	slices.SortStableFunc(groups, func(a, b []control) int { return cmp.Compare(len(b), len(a)) })
	return groups
}
