package main

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestRailApplyNamesMovedParticipants: who puts a rail in order is told how many participants have payments of it in a
// cell that they have left, because the other cell does not wait for these.
func TestRailApplyNamesMovedParticipants(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	delete(w.cells, "north")
	east := w.at("east")
	east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	east.want(exitOK, "cell", "add", "west", "--setting", "WEST", "--reason", "we grow")
	for _, id := range []string{"p1", "p2"} {
		east.want(exitOK, "enqueue", "--instruction-id", id, "--participant-id", id, "--idempotency-key", id,
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR")
	}
	strict := writeFile(t, "strict.yaml", railsFile("24h")+"      order: STRICT\n")
	const says = "warning: rail bank: participants that were moved to another cell and have payments of the rail " +
		"here, in pending or with an open dead letter: 1. "
	got := east.want(exitOK, "rail", "apply", strict, "--dry-run").errors
	if strings.Contains(got, "were moved") {
		t.Errorf("before the move: %q", got)
	}
	east.want(exitOK, "cell", "move", "west", "985", "--reason", "we grow") // the bucket of p1
	longer := writeFile(t, "longer.yaml", railsFile("48h"))
	got = east.want(exitOK, "rail", "apply", longer, "--reason", "x").errors
	if strings.Contains(got, "were moved") {
		t.Errorf("a profile that orders none: %q", got)
	}
	got = w.at("west").want(exitOK, "rail", "apply", strict, "--reason", "x").errors
	if strings.Contains(got, "were moved") {
		t.Errorf("the cell that has the participant: %q", got)
	}
	for _, how := range [][]string{{"--dry-run"}, {"--reason", "the bank wants an order"}} {
		got := east.want(exitOK, append([]string{"rail", "apply", strict}, how...)...).errors
		if !strings.Contains(got, says) {
			t.Errorf("%v: %q lacks %q", how, got, says)
		}
	}
}
