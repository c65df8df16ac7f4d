package latematrix_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

var (
	one = flag.Uint64("one-of", 0, "play one of so many combinations on every rail; 0: the part that every test "+
		"run plays")
	account = flag.String("account", "", "file that TestLateMatrix writes its account to")
)

func TestMain(m *testing.M) {
	flag.Parse()
	pgtest.Main(m)
}

// tally counts the results of combinations.
type tally struct {
	combinations int
	possible     int
	played       int
	impossible   map[string]int
	found        []finding
}

func (a *tally) add(one *tally) {
	a.combinations += one.combinations
	a.possible += one.possible
	a.played += one.played
	for why, n := range one.impossible {
		a.impossible[why] += n
	}
	a.found = append(a.found, one.found...)
}

// The part of the matrix in every test run: each path on a number of rails that can take it, and
// one of a number of combinations there.
const (
	railsOfPart = 3
	shortPart   = 4 // one of so many paths is played in short
	partOfRail  = 30
)

// enough returns the number of findings from which on that part is not continued: one under
// -failfast.
func enough() int {
	if flag.Lookup("test.failfast").Value.String() == "true" {
		return 1
	}
	return 20
}

// TestLateMatrix plays the matrix, or a part of it that is always the same.
func TestLateMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := &tally{impossible: map[string]int{}}
	var adding sync.Mutex
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(lanes)
	for m, path := range paths {
		if *one == 0 && testing.Short() && m%shortPart != 0 {
			continue
		}
		group.Go(func() error {
			went := 0
			for n := range w.rails {
				adding.Lock()
				found := len(all.found)
				adding.Unlock()
				if *one == 0 && (went == railsOfPart || found >= enough()) {
					break
				}
				r := n // the one with the most states first, and then of different kinds
				if n > 0 {
					r = 1 + 2*(n+m)%(len(w.rails)-1)
				}
				played, err := w.play(ctx, fmt.Sprintf("g%d-%d", r, m), &w.rails[r], path)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", w.rails[r].name, pathName(path), err)
				}
				if played.possible > 0 {
					went++
				}
				adding.Lock()
				all.add(played)
				adding.Unlock()
			}
			return nil
		})
	}
	w.must(group.Wait())
	w.prove(all)
	w.report(all)
}

// play plays the combinations of one rail with one path.
func (w *world) play(ctx context.Context, name string, r *rail, path []step) (*tally, error) {
	done := &tally{impossible: map[string]int{}}
	all := combinations(r, path)
	done.combinations = len(all)
	probe, err := w.enqueue(ctx, name+"-probe", []combination{{rail: r, path: path}})
	if err != nil {
		return done, err
	}
	err = w.walk(ctx, probe, path)
	if errors.Is(err, errNoState) {
		done.impossible[noState] = len(all)
		return done, nil
	}
	if err != nil {
		return done, err
	}
	var chosen []combination
	state := probe[0].state()
	for _, c := range all {
		switch why := c.impossible(state); {
		case why != "":
			done.impossible[why]++
		default:
			done.possible++
			if c.drawn(cmp.Or(*one, partOfRail)) {
				chosen = append(chosen, c)
			}
		}
	}
	if _, err := w.lose(ctx, probe); err != nil || len(chosen) == 0 {
		return done, err
	}
	lives, err := w.enqueue(ctx, name, chosen)
	if err == nil {
		err = w.playAll(ctx, lives, path, done)
	}
	for _, p := range lives {
		done.found = append(done.found, p.found...)
	}
	return done, err
}

func combinations(r *rail, path []step) []combination {
	var all []combination
	for _, first := range evidences(false) {
		for _, second := range evidences(true) {
			for _, answer := range answers {
				all = append(all, combination{r, path, first, second, answer})
			}
		}
	}
	return all
}

func (p *life) state() state {
	s := state{vetoed: p.vetoed, lost: p.lostActions(), sentOnce: p.claims > 1 || p.vetoed}
	if p.held != nil {
		s.open = actionKind(p.held.Action)
	}
	return s
}

// playAll takes payments of one path through the steps of their combinations.
func (w *world) playAll(ctx context.Context, lives []*life, path []step, done *tally) error {
	if err := w.walk(ctx, lives, path); err != nil {
		return err
	}
	if err := w.look(ctx, "before any evidence", lives); err != nil {
		return err
	}
	for _, each := range []struct {
		when  string
		which func(*life) evidence
	}{
		{"behind the first evidence", func(p *life) evidence { return p.first }},
		{"behind the second evidence", func(p *life) evidence { return p.second }},
	} {
		if err := w.bring(ctx, lives, each.when, each.which); err != nil {
			return err
		}
		if err := w.look(ctx, each.when, lives); err != nil {
			return err
		}
	}
	if err := w.answerAll(ctx, lives, done); err != nil {
		return err
	}
	if err := w.rest(ctx, lives); err != nil {
		return err
	}
	return w.endAll(ctx, lives)
}

// answerAll gives each open claim its answer.
func (w *world) answerAll(ctx context.Context, lives []*life, done *tally) error {
	const when = "behind the answer"
	var told, lost []*life
	for _, p := range lives {
		switch {
		case p.dead, p.answer == "":
			done.played++
		case p.answer == lostAnswer:
			lost = append(lost, p)
		default:
			done.played++
			told = append(told, p)
		}
	}
	if err := w.say(ctx, told, when, func(p *life) word { return p.answer }); err != nil {
		return err
	}
	taken, err := w.lose(ctx, lost)
	if err != nil {
		return err
	}
	done.played += taken
	done.impossible[endedFirst] += len(lost) - taken
	done.possible -= len(lost) - taken
	return w.look(ctx, when, lives)
}

// rest lets the installation work by itself: it claims once more what is pending, and the reaper
// repairs the open claims.
func (w *world) rest(ctx context.Context, lives []*life) error {
	if len(lives) == 0 {
		return nil
	}
	if _, err := w.lose(ctx, lives); err != nil {
		return err
	}
	const when = "afterwards"
	if err := w.look(ctx, when, lives); err != nil {
		return err
	}
	var waiting []*life
	for _, p := range lives {
		if p.view.waiting && !p.view.aside && !p.dead {
			waiting = append(waiting, p)
		}
	}
	if len(waiting) > 0 {
		if err := w.claim(ctx, waiting, when); err != nil && !errors.Is(err, errNoState) {
			return err
		}
		if _, err := w.lose(ctx, waiting); err != nil {
			return err
		}
	}
	return w.look(ctx, when, lives)
}

// prove runs the product's own proofs over everything that was played.
func (w *world) prove(all *tally) {
	w.t.Helper()
	if _, err := w.executor.CloseClaims(w.t.Context(), nil); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, proof := range proofs.All() {
		// No rail of the matrix keeps an order, and no payment comes over HTTP.
		if proof.Ledger && proof.Name != "order" && proof.Name != "callers" {
			names = append(names, proof.Name)
		}
	}
	report, err := proofs.Run(w.t.Context(), w.cell.Conn(w.t, ""), proofs.Options{Cell: w.cell.Schema, Names: names})
	w.must(err)
	for _, result := range report.Proofs {
		if result.Status != proofs.Passed {
			all.found = append(all.found, finding{rule: "proof " + result.Name, when: "at the end",
				rows: fmt.Sprintf("%d offences: %s", result.Offences, strings.Join(result.First, "; "))})
		}
	}
}

// report prints the counts, and fails the test if there are findings: each rule with a few of the
// combinations that break it.
func (w *world) report(all *tally) {
	w.t.Helper()
	var text strings.Builder
	byTwo := w.slow.Compared() + w.reports.slow.Compared()
	fmt.Fprintf(&text, "late: combinations=%d possible=%d played=%d by_the_rule_too=%d findings=%d\n",
		all.combinations, all.possible, all.played, byTwo, len(all.found))
	if byTwo == 0 {
		w.t.Error("no outcome was held to the rule of the vocabulary")
	}
	for _, why := range slices.Sorted(maps.Keys(all.impossible)) {
		fmt.Fprintf(&text, "late: impossible=%d: %s\n", all.impossible[why], why)
	}
	byRule := map[string][]finding{}
	for _, f := range all.found {
		key := f.rule + ", " + f.when
		byRule[key] = append(byRule[key], f)
	}
	const shown = 8
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		found := byRule[rule]
		slices.SortFunc(found, func(a, b finding) int {
			return cmp.Or(cmp.Compare(len(a.String()), len(b.String())), cmp.Compare(a.String(), b.String()))
		})
		var lines []string
		for _, f := range found[:min(len(found), shown)] {
			if f.rail == nil {
				lines = append(lines, f.rows)
				continue
			}
			lines = append(lines, f.combination.String()+"\n\t\t"+f.rows)
		}
		w.t.Errorf("%d times: %s\n\t%s", len(found), rule, strings.Join(lines, "\n\t"))
	}
	w.t.Log("\n" + text.String())
	if *account != "" {
		w.must(os.WriteFile(*account, []byte(text.String()), 0o644))
	}
	if all.possible == 0 || all.played == 0 {
		w.t.Error("nothing was played: this shows nothing")
	}
}
