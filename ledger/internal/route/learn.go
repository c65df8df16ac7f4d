package route

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// learn merges the map of a cell into the router's. It is an error if that is not whole then.
func (r *Router[C]) learn(ctx context.Context, from C) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	m, err := from.CellMap(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if any(from) == any(r.home) {
		for _, of := range m {
			if of.Here {
				r.homeAt = place{of.Setting, of.Schema}
				break
			}
		}
	}
	if r.known == nil {
		r.known = m
	} else {
		r.known.Merge(m)
	}
	if !r.known.Whole() {
		return outbox.ErrNoMap
	}
	return nil
}

// look reads the maps of the other cells because one is away, which may have given its buckets
// before; not more often than awayEvery.
func (r *Router[C]) look(ctx context.Context, away C) {
	r.mu.Lock()
	if time.Since(r.read) < awayEvery {
		r.mu.Unlock()
		return
	}
	r.read = time.Now()
	r.mu.Unlock()
	for _, cell := range r.all() {
		if any(cell) != any(away) && r.learn(ctx, cell) == nil {
			return
		}
	}
}

// renew forgets what the router knows better than every cell: a failover or a restore may have taken back a
// gift that it had read. It reads all maps, and goes by the newest of these alone. The error is that of
// cells whose map could not be read.
func (r *Router[C]) renew(ctx context.Context) error {
	var fresh outbox.CellMap
	var failed error
	for _, cell := range r.all() {
		reading, cancel := context.WithTimeout(ctx, readWithin)
		m, err := cell.CellMap(reading)
		cancel()
		if err == nil {
			fresh.Merge(m)
		}
		failed = errors.Join(failed, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fresh.Whole() {
		r.known = &fresh
	}
	return failed
}

// doubt renews the map because a cell refused what it should take by it; not more often than awayEvery.
func (r *Router[C]) doubt(ctx context.Context) {
	r.mu.Lock()
	soon := time.Since(r.renewed) < awayEvery
	if !soon {
		r.renewed = time.Now()
	}
	r.mu.Unlock()
	if !soon {
		_ = r.renew(ctx) // the next try says what is wrong
	}
}
