package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// ErrOtherDirectory is the error if a cell is of another directory than the cells that a process has read
// before. Its map is not used.
var ErrOtherDirectory = errors.New("a cell is of another directory")

// Take takes a copy of the map as that of a cell, in place of the one that it gave before. The router goes
// by what any of these copies knows best. The error is ErrOtherDirectory if it contradicts that of
// another cell on every bucket for which both have one version.
func (r *Router[C]) Take(from C, m *outbox.CellMap) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cell, other := range r.copies {
		if cell == any(from) {
			continue
		}
		if bucket, apart := m.Apart(other); apart {
			return fmt.Errorf("%w: by its map version %d of bucket %d is that of cell %s, and by another one that of cell %s",
				ErrOtherDirectory, m[bucket].Version, bucket, m[bucket].Cell, other[bucket].Cell)
		}
	}
	if any(from) == any(r.home) {
		for _, of := range m {
			if of.Here {
				r.homeAt = place{of.Setting, of.Schema}
				break
			}
		}
	}
	r.copies[from] = m
	known := &outbox.CellMap{}
	for _, each := range r.copies {
		known.Merge(each)
	}
	r.known, r.isSure = known, false
	return nil
}

// read reads the map of a cell, and takes it.
func (r *Router[C]) read(ctx context.Context, from C) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	m, err := from.CellMap(ctx)
	if err != nil {
		return err
	}
	return r.Take(from, m)
}

// learn reads the map of a cell. It is an error if the router does not know every bucket then.
func (r *Router[C]) learn(ctx context.Context, from C) error {
	if err := r.read(ctx, from); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known.Whole() {
		return outbox.ErrNoMap
	}
	return nil
}

// look reads the maps of the other cells because one is away, which may have given its buckets
// before; not more often than awayEvery.
func (r *Router[C]) look(ctx context.Context, away C) {
	r.mu.Lock()
	if time.Since(r.looked) < awayEvery {
		r.mu.Unlock()
		return
	}
	r.looked = time.Now()
	r.mu.Unlock()
	for _, cell := range r.all() {
		if any(cell) != any(away) && r.learn(ctx, cell) == nil {
			return
		}
	}
}

// renew reads the maps of all cells at once. What a cell knew before a failover or a restore is forgotten,
// unless its map can't be read: then its last one counts, because the map of another cell must not decide
// alone what the two contradict each other about. The error is that of cells whose map could not be read.
func (r *Router[C]) renew(ctx context.Context) error {
	var seen []C
	var failed error
	for {
		// A map that was just read may name a cell that was not known.
		next := slices.DeleteFunc(r.all(), func(cell C) bool {
			return slices.ContainsFunc(seen, func(c C) bool { return any(c) == any(cell) })
		})
		if len(next) == 0 {
			return failed
		}
		seen = append(seen, next...)
		errs := make([]error, len(next))
		var reading sync.WaitGroup
		for n, cell := range next {
			reading.Go(func() { errs[n] = r.read(ctx, cell) })
		}
		reading.Wait()
		failed = errors.Join(failed, errors.Join(errs...))
	}
}

// doubt renews the map because a cell refused what it should take by it, or because maps contradict each
// other; not more often than awayEvery.
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

// renewal is a reading of all maps that calls of Fresh wait for.
type renewal struct {
	done chan struct{}
	err  error // once done is closed
}

// Fresh reads the maps of all cells, for a caller that is about to say what no cell has. The error is that of
// cells whose map could not be read. Every call waits for a reading that has begun after it, and one is under
// way at a time, which all calls since the one before share.
func (r *Router[C]) Fresh(ctx context.Context) error {
	r.mu.Lock()
	next, before := r.next, r.under
	if next == nil {
		next = &renewal{done: make(chan struct{})}
		r.next = next
		go r.freshen(context.WithoutCancel(ctx), next, before)
	}
	r.mu.Unlock()
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return fmt.Errorf("reading the maps of all cells: %w", ctx.Err())
	}
}

// freshen renews the map after the reading before. It ends, because each map is read within readWithin.
func (r *Router[C]) freshen(ctx context.Context, now, before *renewal) {
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	r.next, r.under = nil, now
	r.mu.Unlock()
	now.err = r.renew(ctx)
	close(now.done)
}

// sure returns an error unless every cell that the process serves is known to be of the directory: the map
// names its setting, or its own map was read. Otherwise one key could be stored in two directories, in
// whichever the process reaches when it begins. Such a cell is asked not more often than awayEvery.
func (r *Router[C]) sure(ctx context.Context) error {
	if len(r.unsure()) == 0 {
		return nil
	}
	r.asking.Lock() // the first calls of a process wait for one reading
	defer r.asking.Unlock()
	unsure := r.unsure()
	if len(unsure) == 0 {
		return nil
	}
	var failed error
	if time.Since(r.asked) >= awayEvery {
		for setting, cell := range unsure {
			if err := r.read(ctx, cell); err != nil {
				failed = errors.Join(failed, fmt.Errorf("setting %s: %w", setting, err))
			}
		}
		r.asked = time.Now()
		if failed == nil {
			return nil
		}
	}
	fault := refusal("no map names the cell of a connection setting, and its own map was not taken: " +
		strings.Join(slices.Sorted(maps.Keys(unsure)), ", "))
	if failed != nil {
		fault.Detail = failed.Error()
	}
	return fault
}

// unsure are the cells that may be of another directory, by their settings.
func (r *Router[C]) unsure() map[string]C {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isSure {
		return nil
	}
	named := map[string]bool{}
	for _, of := range r.known {
		named[of.Setting] = true
	}
	all := map[string]C{}
	for _, setting := range r.settings {
		if named[setting] {
			continue
		}
		cell, err := r.at(outbox.BucketCell{Setting: setting, Schema: r.schema, Version: 1})
		if _, read := r.copies[cell]; err != nil || !read {
			all[setting] = cell
		}
	}
	if _, read := r.copies[r.home]; r.homeSetting == "" && !read {
		all["of home"] = r.home
	}
	r.isSure = len(all) == 0
	return all
}

// refusal is the fault of an instruction for which the router finds no cell.
func refusal(message string) *outbox.Fault {
	return &outbox.Fault{
		SQLState: outbox.StateOtherCell, Message: message, Field: "participant_id", Rule: "CELL",
		Hint: "Nothing was stored. Repeat the call with the same key and content.",
	}
}
