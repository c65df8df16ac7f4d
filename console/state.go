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
	Read   time.Time            // by this host's clock
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

// staleAfter is the age of a state from which the pages mark it.
const staleAfter = 20 * time.Second

// sample is a point of the live charts.
type sample struct {
	At       time.Time
	Depth    int64
	OldestMS int64
	InFlight int64
}

// samplesMax bounds the points of the charts: an hour, if one is taken every 5 s.
const samplesMax = 720

// state is what was read of the cell. It is safe for concurrent use.
type state struct {
	seen atomic.Pointer[seen]
	last service.Last

	mu      sync.Mutex
	samples []sample
}

// refresh reads the state of the cell. It returns an error only if no later reading can succeed: the
// pages mark a state that has become old.
func (c *Console) refresh(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	status, err := c.reader.Status(within)
	var groups []reader.LetterGroup
	var more bool
	if err == nil {
		groups, more, err = c.reader.LettersByCode(within, reader.LetterFilter{})
	}
	switch {
	case service.Fatal(err):
		return errors.Join(errors.New("the console reads as a member of railhead_readonly"), err)
	case err != nil:
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "the state of the cell was not read", "error", err)
		}
		return nil
	}
	c.state.seen.Store(&seen{Status: status, Groups: groups, More: more, Read: time.Now()})
	c.state.last.Mark()
	c.state.add(status)
	return nil
}

func (s *state) add(status reader.Status) {
	point := sample{At: status.Now}
	for _, rail := range status.Rails {
		point.Depth += rail.Pending
		point.InFlight += rail.InFlight
		point.OldestMS = max(point.OldestMS, rail.OldestDueMS)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == samplesMax {
		s.samples = append(s.samples[:0:0], s.samples[1:]...)
	}
	s.samples = append(s.samples, point)
}

// columns are the points as the charts take them: seconds since 1970, then one list for each line.
func (s *state) columns() [4][]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	columns := [4][]int64{{}, {}, {}, {}}
	for _, point := range s.samples {
		for n, value := range []int64{point.At.Unix(), point.Depth, point.OldestMS / 1000, point.InFlight} {
			columns[n] = append(columns[n], value)
		}
	}
	return columns
}
