package route

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// sure returns an error unless every cell that the process serves is known to be of the directory: the map
// names its setting, or its own map was read. Otherwise one key could be stored in two directories, in
// whichever the process reaches when it begins. Such a cell is asked not more often than awayEvery.
func (r *Router[C]) sure(ctx context.Context) error {
	unsure := r.unsure()
	if len(unsure) == 0 {
		return nil
	}
	r.mu.Lock()
	soon, failed := time.Since(r.asked) < awayEvery, r.askedFor
	r.mu.Unlock()
	if !soon {
		failed = r.asking.join(ctx, func(ctx context.Context) error {
			var none C
			err := r.readAll(ctx, slices.DeleteFunc(slices.Collect(maps.Values(r.unsure())), func(cell C) bool {
				return any(cell) == any(none)
			}))
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asked, r.askedFor = time.Now(), err
			return err
		})
		if unsure = r.unsure(); len(unsure) == 0 {
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
		if err != nil || r.learner(cell).own == nil {
			all[setting] = cell
		}
	}
	if r.homeSetting == "" && r.learner(r.home).own == nil {
		all["of home"] = r.home
	}
	r.isSure = len(all) == 0
	return all
}
