package growth

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/bench/sim"
	"github.com/railhead-pay/railhead/rails"
)

// TestTinyRun measures a few loads of two cells for a moment: it shows that the run works, and is no
// measurement.
func TestTinyRun(t *testing.T) {
	distant := open(2, 4, 400)
	distant.RailLatency = 0.01
	hot := closed(1, 4)
	hot.Hot = true
	m, err := Measure(t.Context(), Config{
		Rounds: 1, Warm: 50 * time.Millisecond, Length: 300 * time.Millisecond, Quiet: 64, Tries: 1,
		Points: []Point{
			{Name: "idle", Load: sim.Load{Cells: 1, Batch: 1, RailSlots: rails.MaxConcurrency}, Calibrates: true},
			{Name: "enqueues", Load: closed(1, 8), Calibrates: true, Unpaid: true},
			{Name: "drain", Load: sim.Load{Cells: 1, Batch: 1, Waiting: 200, RailSlots: rails.MaxConcurrency}, Calibrates: true},
			{Name: "full", Load: closed(2, 8)},
			{Name: "one participant", Load: hot},
			{Name: "a distant rail", Load: distant},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range m.Series {
		r := s.Readings[0]
		for _, f := range Figures() {
			// An idle cell may write nothing in a second: its components beat less often.
			if got := f.measured(s.Point, r); s.Point.asks(f) && !(got > 0) && !(s.Point.idle() && got == 0) {
				t.Errorf("%s: %s is %g", s.Point.Name, f, got)
			}
		}
		if paid := r.Paid > 0; paid == (s.Point.Unpaid || s.Point.idle()) {
			t.Errorf("%s: %g are paid", s.Point.Name, r.Paid)
		}
	}
	file := filepath.Join(t.TempDir(), "deep", "kept.json")
	if err := m.Write(file); err != nil {
		t.Fatal(err)
	}
	again, err := Read(file)
	if err != nil || len(again.Series) != len(m.Series) || again.Series[3].Readings[0] != m.Series[3].Readings[0] {
		t.Errorf("what was written is read as something else, or %v", err)
	}
}

// TestStopped: a run that is interrupted ends with its cause.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, Config{Rounds: 1, Length: time.Second, Tries: 1}); err == nil {
		t.Error("it ran")
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no rounds": {Length: time.Second, Tries: 1},
		"no time":   {Rounds: 1, Tries: 1},
		"no tries":  {Rounds: 1, Length: time.Second},
	} {
		if _, err := Measure(t.Context(), c); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	got, err := parseMachine([]byte("cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"))
	if want := (10 + 20 + 30 + 6 + 7 + 8) * tick; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu a b c d e f g h i", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, err := parseMachine([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestPageShowsWhatIsKept fails when what was measured, the simulation or the page was changed
// without the others.
func TestPageShowsWhatIsKept(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, DocsFile))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Read(filepath.Join(root, KeptFile))
	if err != nil {
		t.Fatal(err)
	}
	results, err := kept.Derive(DefaultAssumptions(), DefaultSeed)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withResults(page, results)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(page) {
		t.Errorf("%s does not show what %s gives: run `make bench-docs`", DocsFile, KeptFile)
	}
	if _, err := withResults([]byte("no marks"), results); err == nil || !strings.Contains(err.Error(), "marks") {
		t.Errorf("a page without marks: %v", err)
	}
}
