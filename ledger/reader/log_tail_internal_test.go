package reader

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestLogTailAdvances tests from when on acts are read again: from the last look at which no transaction was in
// progress that still is.
func TestLogTailAdvances(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	old, recent := payment.FloorID(at(-1)), payment.FloorID(at(2))
	tail := &LogTail{mark: logLook{at: at(0), oldest: 90, next: 100}}
	tail.emitted = map[payment.ID]bool{old: true, recent: true}
	for n, step := range []struct {
		look logLook
		from time.Time // zero: the beginning
		kept int
	}{
		{logLook{at(1), 90, 120}, time.Time{}, 2},
		{logLook{at(2), 99, 140}, time.Time{}, 2},
		{logLook{at(3), 101, 160}, at(0).Add(-logOverlap), 1}, // what was in progress at the mark has ended
		{logLook{at(4), 101, 180}, at(0).Add(-logOverlap), 1}, // and 101, which began since, has not
		{logLook{at(5), 160, 200}, at(3).Add(-logOverlap), 0},
		{logLook{at(6), 10, 20}, at(3).Add(-logOverlap), 0}, // another server, whose numbers are lower
	} {
		tail.advance(step.look)
		want := payment.ID{}
		if !step.from.IsZero() {
			want = payment.FloorID(step.from)
		}
		if tail.from != want || len(tail.emitted) != step.kept {
			t.Errorf("look %d: from %s with %d acts, want %s with %d", n, tail.from, len(tail.emitted), want, step.kept)
		}
	}
}
