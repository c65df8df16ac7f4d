// Package route finds the cell of a participant, for processes that enqueue in several cells.
//
// The map that a router has may be old: a cell refuses what is not its own, and the router then
// reads the map of that cell. It never decides anything about money.
package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// The bounds of a router.
const (
	patience   = 2 * time.Second       // of one call, while a bucket is on its way from one cell to another
	pause      = 50 * time.Millisecond // between two tries of a call
	readWithin = 2 * time.Second       // of a map
	lastWords  = time.Second           // of a batch, after the calls of its parts
	awayEvery  = time.Second           // between two readings of the map because a cell is away
)

// Statements begins the names of the statements by which a cell that is in no directory refuses: it may have been
// restored to a time before it joined.
const Statements = "routed_"

// Cell is a connection to a cell.
type Cell interface {
	CellMap(ctx context.Context) (*outbox.CellMap, error)
	Close()
}

// Read reads the map of a cell.
func Read(ctx context.Context, db *store.DB) (*outbox.CellMap, error) {
	rows, err := db.Pool.Query(ctx, db.SQL["cell_map"])
	if err != nil {
		return nil, fmt.Errorf("reading the map of cells: %w", err)
	}
	var m outbox.CellMap
	var bucket int
	var of outbox.BucketCell
	_, err = pgx.ForEachRow(rows, []any{&bucket, &of.Cell, &of.Version, &of.Setting, &of.Schema, &of.Here}, func() error {
		m[bucket] = of
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the map of cells: %w", err)
	}
	return &m, nil
}

// place is what identifies a cell to a process.
type place struct{ setting, schema string }

// Router has the cells that a process was given connection strings for. It is safe for
// concurrent use.
type Router[C Cell] struct {
	home        C
	homeSetting string   // empty: that of none
	settings    []string // without order
	schema      string   // of home, and of a cell before the map is known
	open        func(setting, schema string) (C, error)

	asking sync.Mutex // before mu
	asked  time.Time  // when a cell was last asked which directory it is of; asking guards it

	mu      sync.Mutex
	copies  map[any]*outbox.CellMap // the last map of each cell, by the C that it was read from
	known   *outbox.CellMap         // what the copies know best
	isSure  bool                    // no cell is unsure by what is known
	opened  map[place]C
	homeAt  place     // where the map has home; zero: not known
	looked  time.Time // when a map was last read because a cell was away
	renewed time.Time // when all were last read because a cell refused what the router knew no better
	stale   bool      // a caller's own transaction was refused
	next    *renewal  // nil: none waits to begin
	under   *renewal  // the last one that began
}

// New returns a router. Its home is the cell whose map is read first; without a map it takes no call:
// it may have been restored to a time before it had one. The settings are those of the connection
// strings that open has, and homeSetting is the one that leads to home, or empty; open connects lazily.
func New[C Cell](
	home C, homeSetting, schema string, settings []string, open func(setting, schema string) (C, error),
) *Router[C] {
	return &Router[C]{home: home, homeSetting: homeSetting, schema: schema, settings: settings, open: open,
		opened: map[place]C{}, copies: map[any]*outbox.CellMap{}, known: &outbox.CellMap{}}
}

// Close ends every connection.
func (r *Router[C]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cell := range r.opened {
		cell.Close()
	}
	r.home.Close()
}

// at returns the cell of a setting. The mutex is held.
func (r *Router[C]) at(of outbox.BucketCell) (C, error) {
	where := place{of.Setting, of.Schema}
	if of.Version == 0 {
		var none C
		return none, outbox.ErrNoMap
	}
	if where == r.homeAt {
		return r.home, nil
	}
	if cell, there := r.opened[where]; there {
		return cell, nil
	}
	if !slices.Contains(r.settings, of.Setting) {
		var none C
		return none, fmt.Errorf("%w: cell %s has setting %s", outbox.ErrNoSetting, of.Cell, of.Setting)
	}
	cell, err := r.open(of.Setting, of.Schema)
	if err == nil {
		r.opened[where] = cell
	}
	return cell, err
}

// of returns the cell of a participant, and the version of its bucket.
func (r *Router[C]) of(ctx context.Context, participantID string) (cell C, version int, err error) {
	of, err := r.bucket(ctx, participantID)
	if err != nil {
		return cell, of.Version, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cell, err = r.at(of)
	return cell, of.Version, err
}

// bucket returns what the router knows of a participant's bucket. It is an error if the maps contradict each
// other about that: both cells may take it.
func (r *Router[C]) bucket(ctx context.Context, participantID string) (of outbox.BucketCell, err error) {
	if err = r.load(ctx); err != nil {
		return of, err
	}
	if err = r.sure(ctx); err != nil {
		return of, err
	}
	if of = r.entry(participantID); of.Disputed {
		r.doubt(ctx)
		of = r.entry(participantID)
	}
	if of.Disputed {
		return of, refusal("the maps of two cells contradict each other about the participant's bucket")
	}
	return of, nil
}

func (r *Router[C]) entry(participantID string) outbox.BucketCell {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known.Of(participantID)
}

// load reads the map of home for the first time, or of any other cell while home is away or has none.
func (r *Router[C]) load(ctx context.Context) error {
	r.mu.Lock()
	known := r.known.Whole()
	r.mu.Unlock()
	if known {
		return nil
	}
	err := r.learn(ctx, r.home)
	for _, setting := range r.settings {
		if err == nil {
			return nil
		}
		r.mu.Lock()
		cell, failed := r.at(outbox.BucketCell{Setting: setting, Schema: r.schema, Version: 1})
		r.mu.Unlock()
		if failed == nil {
			failed = r.learn(ctx, cell)
		}
		if failed == nil {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return err
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

// Of returns the cell of a participant, by the map that the router has.
func (r *Router[C]) Of(ctx context.Context, participantID string) (C, error) {
	cell, _, err := r.of(ctx, participantID)
	return cell, err
}

// Setting returns the setting of a participant's cell, by the map that the router has.
func (r *Router[C]) Setting(ctx context.Context, participantID string) (string, error) {
	if err := r.load(ctx); err != nil {
		return "", err
	}
	r.mu.Lock()
	stale := r.stale
	r.stale = false
	r.mu.Unlock()
	if stale {
		if r.renew(ctx) != nil {
			r.Refused()
		}
	}
	of, err := r.bucket(ctx, participantID)
	if err == nil && of.Version == 0 {
		err = outbox.ErrNoMap
	}
	return of.Setting, err
}

// Refused notes that a cell has refused a participant in a transaction of the caller's own: the
// next Setting reads the maps of all cells.
func (r *Router[C]) Refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// Do calls the cell of a participant. If that refuses the participant, Do reads its map and calls
// the cell that it names, for up to 2 s: in between no cell may take a bucket. If the cell is
// away, Do reads the map of another one, and calls once more where that knows better. A call
// must be one that may be repeated.
func (r *Router[C]) Do(ctx context.Context, participantID string, call func(C) error) error {
	for end := time.Now().Add(patience); ; {
		cell, version, err := r.of(ctx, participantID)
		if err != nil {
			return err
		}
		err = call(cell)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, outbox.ErrCommitUnknown):
			return err
		case errors.Is(err, outbox.ErrOtherCell):
			if r.learn(ctx, cell) != nil || time.Now().After(end) {
				return err
			}
		case away(err):
			if r.look(ctx, cell); time.Now().After(end) {
				return err
			}
		default:
			return err
		}
		_, now, failed := r.of(ctx, participantID)
		if failed == nil && now == version && errors.Is(err, outbox.ErrOtherCell) {
			r.doubt(ctx)
			_, now, failed = r.of(ctx, participantID)
		}
		switch {
		case failed == nil && now != version: // the map knew better
		case !errors.Is(err, outbox.ErrOtherCell):
			return err
		default:
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
	}
}

// away reports whether a call has failed because its cell is away: it is no refusal, and not full.
func away(err error) bool {
	_, refused := errors.AsType[*outbox.Fault](err)
	return !refused && !errors.Is(err, outbox.ErrBusy) && !outbox.Unfit(err)
}
