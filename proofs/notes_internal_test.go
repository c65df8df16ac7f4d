package proofs

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestNotesOfOneRail: however many notes one rail has, those of another one are kept, and all are counted.
func TestNotesOfOneRail(t *testing.T) {
	t.Parallel()
	var all tally
	for range notesKept + 1 {
		all.noteOf("bank", "many")
	}
	all.noteOf("wire", "one")
	if n := len(all.notes); n != notesOfRail+1 || all.notes[n-1] != "one" || all.noted != notesKept+2 {
		t.Errorf("%d notes of %d are kept, the last one %q", n, all.noted, all.notes[n-1])
	}
}

// TestBefore: ids begin with the time of their instruction, and none is of a time before all.
func TestBefore(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	if got, want := before(next(sinceID(at)), sharedWithin), sinceID(at.Add(-sharedWithin)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := before(pgtype.UUID{Valid: true}, sharedWithin); got.Bytes != [16]byte{} || !got.Valid {
		t.Errorf("before all ids: %v", got)
	}
}
