package main

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
)

// TestMovedToSaysWhatStops: the last line of a move names what is paused or closed in the new cell.
func TestMovedToSaysWhatStops(t *testing.T) {
	t.Parallel()
	moved := cells.Moved{Buckets: 2, Participants: 1, Keys: 3}
	const line = "2 buckets were moved to cell west, with 1 participants and 3 keys"
	if said := movedTo("west", moved); said != line {
		t.Errorf("nothing stops: %s", said)
	}
	moved.Stops = []string{"rail bank is paused", "participant 'p1' is paused"}
	if said := movedTo("west", moved); said != line+"; in force there: rail bank is paused, participant 'p1' is paused" {
		t.Errorf("two stops: %s", said)
	}
}
