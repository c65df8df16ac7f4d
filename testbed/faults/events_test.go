package faults

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEventsRun makes a run of a few seconds. `make events` makes the long one.
func TestEventsRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: make test LONG=1 and make events play it")
	}
	built, err := Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	report, err := Events{Seed: 1, Lasting: 8 * time.Second, Open: 4 * time.Second, Lost: 0.3}.Run(t.Context(), built,
		&log)
	if err != nil || !report.Good() {
		t.Errorf("%v\n%s\n%s\n%s\n%q\n%s\nits folder: %s", err, log.String(), report.Told, report.Report,
			report.Verdict.Broken, report.Error, report.Folder)
	}
	t.Log(report.Told)
}

// TestCountOfEvents checks that each kind of deviation is counted as what it is.
func TestCountOfEvents(t *testing.T) {
	t.Parallel()
	rows := map[string]outcomeRow{"a1": {"a", 1, "ACCEPTED", ""}, "a2": {"a", 2, "DISPATCHED", ""},
		"b1": {"b", 1, "FAILED", ""}, "c1": {"c", 1, "FAILED", ""}}
	before := map[string]outcomeRow{"a1": {"a", 1, "ACCEPTED", ""}, "x2": {"a", 2, "FAILED", ""}}
	told := func(id, outbox string, no int, state string) delivery {
		d := delivery{ID: id}
		d.Data.OutboxID, d.Data.AttemptNo, d.Data.State = outbox, no, state
		return d
	}
	got := count(rows, before, []delivery{
		told("x2", "a", 2, "FAILED"),     // forgotten
		told("a2", "a", 2, "DISPATCHED"), // before a1
		told("a1", "a", 1, "ACCEPTED"),
		told("a1", "a", 1, "ACCEPTED"),   // again
		told("b1", "b", 1, "DISPATCHED"), // says something else
		told("z1", "z", 1, "FAILED"),     // of no row
	})
	if want := (Told{Rows: 4, Delivered: 2, Missing: 2, Forged: 2, Reordered: 1, Repeated: 1, Forgotten: 1}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
