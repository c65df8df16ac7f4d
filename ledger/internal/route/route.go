// Package route finds the cell of a participant, for processes that enqueue in several cells.
//
// The map that a router has may be old: a cell refuses what is not its own, and the router then
// reads the map of that cell. It never decides anything about money.
package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	rows, err := db.Pool.Query(ctx, db.SQL["routing_map"])
	if err != nil {
		return nil, fmt.Errorf("reading the map of cells: %w", err)
	}
	var m outbox.CellMap
	var bucket int
	var of outbox.BucketCell
	columns := []any{&bucket, &of.Cell, &of.Version, &of.Setting, &of.Schema, &of.Here, &of.Takes, &of.Directory}
	_, err = pgx.ForEachRow(rows, columns, func() error {
		m[bucket] = of
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the map of cells: %w", err)
	}
	return &m, nil
}

// Hold has each new connection to the cell of a setting refused that leads to another cell, or to a cell of another
// directory: an address can change after its map was read. Without a setting another cell of the directory passes.
func (r *Router[C]) Hold(db *store.DB, setting, schema string) {
	text := db.SQL["routing_directory"]
	db.OnConnect(func(ctx context.Context, tx pgx.Tx) error {
		first := r.directory.Load() // without the mutex: a pool that is closed waits for this
		if first == nil {           // the map that is read next says it
			return nil
		}
		var its string
		var another bool
		switch err := tx.QueryRow(ctx, text, setting, schema).Scan(&its, &another); {
		case errors.Is(err, pgx.ErrNoRows): // a statement that enqueues is refused there
			return nil
		case err != nil:
			return fmt.Errorf("reading which cell a connection leads to: %w", err)
		case its != *first:
			return fmt.Errorf("%w: the connection leads to directory %s, and the first map was of directory %s",
				ErrOtherDirectory, its, *first)
		case another && setting != "":
			return fmt.Errorf("%w: by the map there, the connection does not lead to the cell with setting %s and schema %s",
				ErrOtherSetting, setting, schema)
		}
		return nil
	})
}

// errEnded: a cell was to be opened after Close.
var errEnded = errors.New("the connections to the cells are closed")

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

	directory atomic.Pointer[string] // of the map that was taken first; nil: of none yet. Set with the mutex

	fresh   shared // readings of all maps
	asking  shared // readings of the maps of cells that no map names
	loading shared // the first readings

	mu        sync.Mutex
	learners  map[any]*learner // by the C
	readings  int              // of maps, that have begun
	known     *outbox.CellMap  // what the maps of all cells know best
	isSure    bool             // no cell is unsure by what is known
	opened    map[place]C
	homeAt    place     // where the map has home; zero: not known
	looked    time.Time // when a map was last read because a cell was away
	renewed   time.Time // when all were last read because a cell refused what the router knew no better
	loaded    time.Time // when the first reading of a map ended
	notLoaded error     // its error
	asked     time.Time // when cells were last asked which directory they are of
	askedFor  error     // what they answered
	stale     bool      // a caller's own transaction was refused
	unread    time.Time // when the maps could not all be read after that
	ended     bool      // it was closed: no cell is opened any more
}

// New returns a router. Its home is the cell whose map is read first; without a map it takes no call:
// it may have been restored to a time before it had one. The settings are those of the connection
// strings that open has, and homeSetting is the one that leads to home, or empty; open connects lazily.
func New[C Cell](
	home C, homeSetting, schema string, settings []string, open func(setting, schema string) (C, error),
) *Router[C] {
	r := &Router[C]{home: home, homeSetting: homeSetting, schema: schema, settings: settings, open: open,
		opened: map[place]C{}, learners: map[any]*learner{}, known: &outbox.CellMap{}}
	if homeSetting != "" {
		r.homeAt = place{homeSetting, schema}
		r.learner(home).at = r.homeAt
	}
	return r
}

// Place says as which a cell was opened, by whose map it is held to.
func (r *Router[C]) Place(cell C, setting, schema string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learner(cell).at = place{setting, schema}
}

// Close ends every connection. A call that needs another one then fails.
func (r *Router[C]) Close() {
	r.mu.Lock()
	r.ended = true
	all := append(slices.Collect(maps.Values(r.opened)), r.home)
	r.mu.Unlock()
	for _, cell := range all {
		cell.Close()
	}
}

// Knows reports whether a map was taken, whose directory the process serves from then on.
func (r *Router[C]) Knows() bool { return r.directory.Load() != nil }

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
	if r.ended {
		var none C
		return none, errEnded
	}
	cell, err := r.open(of.Setting, of.Schema)
	if err == nil {
		r.opened[where] = cell
		if l := r.learner(cell); l.at == (place{}) {
			l.at = where
		}
	}
	return cell, err
}

// of returns the cell of a participant, and the version of its bucket.
func (r *Router[C]) of(ctx context.Context, participantID string) (cell C, version int, err error) {
	if err := r.ready(ctx); err != nil {
		return cell, 0, err
	}
	return r.now(ctx, participantID)
}

// ready returns an error if no map could be read, or if cells may be of several directories.
func (r *Router[C]) ready(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	return r.sure(ctx)
}

// now is of, by what the router knows.
func (r *Router[C]) now(ctx context.Context, participantID string) (cell C, version int, err error) {
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
	if of = r.entry(participantID); of.Disputed {
		r.dispute(ctx)
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

// Of returns the cell of a participant, by the map that the router has.
func (r *Router[C]) Of(ctx context.Context, participantID string) (C, error) {
	cell, _, err := r.of(ctx, participantID)
	return cell, err
}

// Prove returns an error if a cell may not be called, by its own map.
func (r *Router[C]) Prove(ctx context.Context, cell C) error { return r.prove(ctx, cell) }

// Own returns what a cell itself says of a participant's bucket, by its map that was read last; zero if none was
// taken.
func (r *Router[C]) Own(cell C, participantID string) (of outbox.BucketCell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.learner(cell).own; own != nil {
		of = own.Of(participantID)
	}
	return of
}

// Setting returns the setting of a participant's cell, by the map that the router has.
func (r *Router[C]) Setting(ctx context.Context, participantID string) (string, error) {
	if err := r.ready(ctx); err != nil {
		return "", err
	}
	r.mu.Lock()
	stale := r.stale && time.Since(r.unread) >= awayEvery
	if stale {
		r.stale = false
	}
	r.mu.Unlock()
	if stale && r.reread(ctx) != nil {
		r.mu.Lock()
		r.stale, r.unread = true, time.Now()
		r.mu.Unlock()
	}
	of, err := r.bucket(ctx, participantID)
	if err == nil && of.Version == 0 {
		err = outbox.ErrNoMap
	}
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	cell, err := r.at(of)
	r.mu.Unlock()
	if err == nil {
		err = r.prove(ctx, cell)
	}
	return of.Setting, err
}

// Refused notes that a cell has refused a participant in a transaction of the caller's own: the
// next Setting reads the maps of all cells. Where one can't be read, that is tried again after awayEvery.
func (r *Router[C]) Refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}
