package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// seen is the state of the cell as it was read last. Pages share it, so that many readers of the
// first page cost the database what one does.
type seen struct {
	reader.Status
	Groups []reader.LetterGroup // of open dead letters
	More   bool                 // there are more dead letters than Groups counts
	Pace   *reader.Pace         // nil: it could not be read
	// Expiring are the payments that expire soon; MoreExpiring says that there are more.
	Expiring     []reader.Expiring
	MoreExpiring bool
	Read         time.Time // by this host's clock
}

// Letters counts the open dead letters.
func (s *seen) Letters() (open int64) {
	for _, group := range s.Groups {
		open += group.Letters
	}
	return open
}

// Stale reports whether the state is so old that it may be another one by now.
func (s *seen) Stale() bool { return time.Since(s.Read) > staleAfter }

// Clock is the time of the database's clock now, as far as this host's clock goes like it.
func (s *seen) Clock() time.Time { return s.Now.Add(time.Since(s.Read)) }

// staleAfter is the age of a state from which the pages mark it.
const staleAfter = 20 * time.Second

// point is a point of the live charts: seconds since 1970, pending instructions, seconds for which the
// oldest due one has been due, and instructions in flight.
type point [4]int64

// pointsMax bounds the points of the charts: an hour, if one is taken every 5 s.
const pointsMax = 720

// state is what was read of the cell. It is safe for concurrent use.
type state struct {
	seen atomic.Pointer[seen]
	last service.Last
	away atomic.Pointer[string] // why the last reading failed; nil: it did not

	mu     sync.Mutex
	points []point
	next   chan struct{} // closed with the next reading; nil: there is no reader of it
}

// refresh reads the state of the cell, one reading at a time: the reading that began last is stored last,
// and one after an act is later than the act. It returns an error only if no later reading can succeed and no other
// cell is shown: the pages mark a state that has become old.
func (c *Console) refresh(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	select {
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-within.Done():
		return nil // the reading under way marks the state
	}
	now, err := c.look(within)
	if ctx.Err() == nil {
		c.state.away.Store(whyAway(err))
	}
	switch {
	case service.Fatal(err) && c.only != nil:
		return errors.Join(errors.New("the console reads as a member of railhead_readonly"), err)
	case err != nil:
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "the state of the cell was not read", "error", err)
		}
		return nil
	}
	now.Read = time.Now()
	c.state.seen.Store(now)
	c.state.last.Mark()
	c.state.add(now.Status)
	return nil
}

// watch reads the state again and again, until the context ends.
func (c *Console) watch(ctx context.Context) error {
	if c.only == nil { // Run has read that of the only one
		if err := c.refresh(ctx); err != nil {
			return err
		}
	}
	return service.Repeat(ctx, func() time.Duration { return c.config.RefreshEvery }, c.refresh)
}

// look reads the state of the cell.
func (c *Console) look(ctx context.Context) (*seen, error) {
	var now seen
	var err error
	if now.Status, err = c.ungated.Status(ctx); err != nil {
		return nil, err
	}
	if now.Groups, now.More, err = c.ungated.LettersByCode(ctx, reader.LetterFilter{}); err != nil {
		return nil, err
	}
	if now.Expiring, now.MoreExpiring, err = c.ungated.ExpiringSoon(ctx); err != nil {
		return nil, err
	}
	// The archive may be locked while a month is attached; the rest of the state is no less true.
	if pace, err := c.ungated.Pace(ctx); err == nil {
		now.Pace = &pace
	} else if ctx.Err() == nil {
		c.log.WarnContext(ctx, "the pace was not read", "error", err)
	}
	return &now, nil
}

func pointOf(status reader.Status) point {
	at := point{status.Now.Unix()}
	for _, rail := range status.Rails {
		at[1] += rail.Pending
		at[2] = max(at[2], rail.OldestDueMS/1000)
		at[3] += rail.InFlight
	}
	return at
}

// add adds a point, and wakes those who wait for a reading. After a step back of the database's clock, the
// points that would be later than the new one are dropped: charts need them in order.
func (s *state) add(status reader.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := pointOf(status)
	for len(s.points) > 0 && s.points[len(s.points)-1][0] >= at[0] {
		s.points = s.points[:len(s.points)-1]
	}
	if len(s.points) == pointsMax {
		s.points = append(s.points[:0:0], s.points[1:]...)
	}
	s.points = append(s.points, at)
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// changed returns a channel that is closed with the next reading.
func (s *state) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// columns are the points as the charts take them: a list for each value.
func (s *state) columns() [4][]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	columns := [4][]int64{{}, {}, {}, {}}
	for _, point := range s.points {
		for n, value := range point {
			columns[n] = append(columns[n], value)
		}
	}
	return columns
}
