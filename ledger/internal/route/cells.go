package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// load reads the map of home for the first time, or of any other cell while home is away or has none. Calls share
// that, and none is read again for awayEvery.
func (r *Router[C]) load(ctx context.Context) error {
	r.mu.Lock()
	known, failed := r.known.Whole(), r.notLoaded
	soon := time.Since(r.loaded) < awayEvery
	r.mu.Unlock()
	switch {
	case known:
		return nil
	case soon && failed != nil:
		return failed
	}
	return r.loading.join(ctx, func(ctx context.Context) error {
		err := r.loadAny(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notLoaded, r.loaded = err, time.Now()
		return err
	})
}

func (r *Router[C]) loadAny(ctx context.Context) error {
	err := r.learn(ctx, r.home)
	if err == nil {
		return nil
	}
	failed := []error{err}
	var others []C
	for _, setting := range r.settings {
		r.mu.Lock()
		cell, err := r.at(outbox.BucketCell{Setting: setting, Schema: r.schema, Version: 1})
		r.mu.Unlock()
		switch {
		case err != nil:
			failed = append(failed, err)
		case any(cell) != any(r.home):
			others = append(others, cell)
		}
	}
	failed = append(failed, r.loadOthers(ctx, others))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known.Whole() {
		return nil
	}
	return errors.Join(append(failed, outbox.ErrNoMap)...)
}

// loadOthers reads the maps of cells, and takes them if they are all of one directory, or of that which home has said:
// which of two the process is meant to serve, home has to say.
func (r *Router[C]) loadOthers(ctx context.Context, cells []C) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	found, errs, numbers := make([]*outbox.CellMap, len(cells)), make([]error, len(cells)), make([]int, len(cells))
	var reading sync.WaitGroup
	for n, cell := range cells {
		numbers[n] = r.begin()
		reading.Go(func() { found[n], errs[n] = cell.CellMap(ctx) })
	}
	reading.Wait()
	first := ""
	for _, m := range found {
		if m == nil || m.Directory() == "" || r.Knows() {
			continue
		}
		if first = cmp.Or(first, m.Directory()); m.Directory() != first {
			return wrong(fmt.Errorf("%w: the first cell has given no map, and of the others one is of directory %s and one of "+
				"directory %s", ErrOtherDirectory, first, m.Directory()))
		}
	}
	for n, m := range found {
		if m != nil {
			_, errs[n] = r.take(cells[n], numbers[n], m)
		}
	}
	return errors.Join(errs...)
}

// all are the cells of the map for which there is a connection string, home first, and those of settings that
// the map does not name: a cell without buckets may have payments.
func (r *Router[C]) all() []C {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, named := []C{r.home}, []string{r.homeAt.setting}
	add := func(of outbox.BucketCell) {
		if cell, err := r.at(of); err == nil && !slices.ContainsFunc(all, func(c C) bool { return any(c) == any(cell) }) {
			all = append(all, cell)
		}
	}
	for _, of := range r.known {
		add(of)
		named = append(named, of.Setting)
	}
	for _, setting := range r.settings {
		if !slices.Contains(named, setting) {
			add(outbox.BucketCell{Setting: setting, Schema: r.schema, Version: 1})
		}
	}
	return all
}

// All returns every cell of the map, and of each other setting. The error is that of one for which there is
// no connection string, or that no map could be read.
func (r *Router[C]) All(ctx context.Context) ([]C, error) {
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	all := r.all()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.known {
		if _, err := r.at(of); err != nil {
			return all, err
		}
	}
	return all, nil
}
