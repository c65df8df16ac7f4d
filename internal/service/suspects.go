package service

import (
	"context"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Failed is a row that can't be claimed, or ended, by itself, with the error of the server.
type Failed struct {
	ID  payment.ID
	Err error
}

// Suspects remembers the rows that failed by themselves, and finds those that are at fault. The zero value remembers
// none. Its methods are for one goroutine.
type Suspects struct {
	// After is how long a row has to fail, whatever the error, before it is at fault.
	After time.Duration
	// Alone is how many rows of a turn may be at fault although no other row ever passed. If more fail, the archive is
	// at fault.
	Alone int

	rows   map[payment.ID]suspect
	at     int          // of the rows behind the first ones, the next to be tried
	behind []payment.ID // those of them that this turn is to try
}

type suspect struct {
	since  time.Time
	failed int  // turns in a row
	passed bool // in one of them another row passed
}

// suspectTurns is how many turns in a row a row has to fail in, whatever the error, before it is at fault.
const suspectTurns = 3

// Share returns the time until which a step may go on that has this part of what is left of the context's time. A step
// that tries rows one by one has no part that a statement takes: a row may fail slowly, and must not use up the time of
// the steps that follow. The context has a deadline.
func Share(ctx context.Context, divisor int) time.Time {
	now := time.Now()
	end, _ := ctx.Deadline()
	return now.Add(end.Sub(now) / time.Duration(divisor))
}

// Behind returns at most that many of the rows that are not among the first ones, to be tried if all of those failed.
// It moves on by those that were tried after each turn in which no row passed, and begins again at the end, so that
// rows that fail hide none that may pass. The first ones to which the turn did not come count as behind, and those that
// it returns are removed from untried.
func (s *Suspects) Behind(rows, first []payment.ID, untried *[]payment.ID, most int) []payment.ID {
	rows = slices.DeleteFunc(rows, func(id payment.ID) bool {
		return slices.Contains(first, id) && !slices.Contains(*untried, id)
	})
	if s.at >= len(rows) {
		s.at = 0
	}
	s.behind = rows[s.at : s.at+min(most, len(rows)-s.at)]
	*untried = slices.DeleteFunc(*untried, func(id payment.ID) bool { return slices.Contains(s.behind, id) })
	return s.behind
}

// Judge takes all rows that failed by themselves in one turn, those that the turn did not come to, and whether another
// row passed in it. It returns the failed ones that are at fault, and the rest of them.
//
// A row is at fault at once if its error is about what it has (outbox.IsOfRow) and another row passed. By any other
// error that may be the row's own (outbox.MayBeOfRow) it is at fault once it has failed in at least three turns in a
// row, for After, while another row passed in one of them, or if at most Alone rows fail and all were tried. Rows that
// are not among those given are forgotten.
func (s *Suspects) Judge(turn []Failed, untried []payment.ID, passed bool) (faulty, rest []Failed) {
	for _, id := range s.behind {
		if !passed && !slices.Contains(untried, id) {
			s.at++
		}
	}
	s.behind = nil
	alone := len(turn) <= s.Alone && len(untried) == 0
	before := s.rows
	s.rows = make(map[payment.ID]suspect, len(turn))
	for _, id := range untried {
		if one, there := before[id]; there {
			s.rows[id] = one
		}
	}
	for _, each := range turn {
		state := SQLState(each.Err)
		if passed && outbox.IsOfRow(state) {
			faulty = append(faulty, each)
			continue
		}
		if !outbox.MayBeOfRow(state) {
			rest = append(rest, each)
			continue
		}
		one, there := before[each.ID]
		if !there {
			one.since = time.Now()
		}
		one.failed++
		one.passed = one.passed || passed
		if one.failed >= suspectTurns && time.Since(one.since) >= s.After && (one.passed || alone) {
			faulty = append(faulty, each)
			continue
		}
		s.rows[each.ID] = one
		rest = append(rest, each)
	}
	return faulty, rest
}
