// Package cells changes the map of cells: it adds cells to a directory, and assigns buckets of
// participants to them.
//
// Every cell has a copy of the map, and no database is above them. Only the cell that has a
// bucket can give it away; the cell that gets it takes it once it has learned of the gift. Each
// step commits in one cell, and each act of this package begins by copying what one cell knows
// and another does not, so that an act that was broken off is completed by the next one.
package cells

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/migrations"
)

// Errors that a caller branches on.
var (
	// ErrNoDirectory: the cell is in no directory, and takes the instructions of all participants.
	ErrNoDirectory = errors.New("this cell is in no directory and takes all participants: begin one with railhead cell " +
		"add --first, or begin with a cell that has a map, if this one was restored")
	// ErrAway: a cell that the act needs was not reached. Nothing was changed in it.
	ErrAway = errors.New("a cell that is needed can't be reached")
	// ErrOtherCell: a connection string leads to another cell than the one that was meant.
	ErrOtherCell = errors.New("the connection string leads to another cell")
	// ErrUnlearned: buckets were given and no cell takes them yet.
	ErrUnlearned = errors.New("no cell takes the buckets until it has learned of them: run railhead cell sync")
)

// Conn is a connection to a cell: a Reader, or an Operator.
type Conn interface {
	Directory(ctx context.Context) (reader.Directory, error)
	Close()
}

// Places is where a process finds cells.
type Places[C Conn] struct {
	// Settings are the names of all connection settings that the process has. Each is looked into,
	// whether a map names it or not: a cell that was restored may not know the others.
	Settings []string
	Schema   string // in which a cell is looked for whose schema neither a map nor Schemas names
	// Schemas are those of cells by their setting, where the process was told of another one than Schema.
	Schemas map[string]string
	// Open connects to the cell of a setting. It may connect lazily.
	Open func(ctx context.Context, setting, schema string) (C, error)
}

// schemaOf is where the cell of a setting is looked for that no map names.
func (p Places[C]) schemaOf(setting string) string { return cmp.Or(p.Schemas[setting], p.Schema) }

// without leaves out a setting.
func (p Places[C]) without(setting string) Places[C] {
	p.Settings = slices.DeleteFunc(slices.Clone(p.Settings), func(s string) bool { return s == setting })
	return p
}

// The bounds of an act.
const (
	busyFor     = 10 * time.Second // an act is tried again while transactions hold the rows that it needs
	flushWithin = 10 * time.Second // a cell's map becomes durable
)

// Reached is a cell of a directory, and what came of it.
type Reached[C Conn] struct {
	reader.Cell
	Directory reader.Directory // its own copy; empty: it was not reached
	Err       error            // why it was not reached, or refused the map
	Left      int              // participants there whose buckets it has lost by this act
	Conn      C                // unless it was not reached
	opened    bool
}

// Stray is a connection setting that leads to no cell of the directory, or that can't be reached.
type Stray struct {
	Setting string `json:"setting"`
	Why     string `json:"why"`
}

// Net is the cells of one directory, with a connection to each that was reached.
type Net[C Conn] struct {
	Directory reader.Directory // the union of all copies
	Cells     []Reached[C]     // in the order of Directory.Cells
	Strays    []Stray
	changes   []reader.BucketChange // of all copies, with those that contradict each other
}

// Close ends every connection.
func (n *Net[C]) Close() {
	for _, one := range n.Cells {
		if one.opened {
			one.Conn.Close()
		}
	}
}

// later counts the buckets that a cell has by its own copy and does not take: it takes them once its
// server is accepted and it learns again.
func (r *Reached[C]) later() (later int) {
	for bucket, owner := range r.Directory.Owners() {
		known := slices.Contains(r.Directory.Takes, bucket) || slices.Contains(r.Directory.Leaving, bucket) ||
			slices.Contains(r.Directory.Contradicted, bucket)
		if owner == r.Name && !known {
			later++
		}
	}
	return later
}

// of returns the cell of a name; nil: there is none.
func (n *Net[C]) of(name string) *Reached[C] {
	for i := range n.Cells {
		if n.Cells[i].Name == name {
			return &n.Cells[i]
		}
	}
	return nil
}

// flusher is a Conn that can wait until what it has read of the map is durable.
type flusher interface {
	FlushMap(ctx context.Context, server string) error
}

// copyOf reads the map of a cell. With an operator's connection it waits until that is durable: a
// gift that a failover forgets must not be acted on.
func copyOf(ctx context.Context, conn Conn) (reader.Directory, error) {
	d, err := conn.Directory(ctx)
	if f, can := conn.(flusher); can && err == nil && d.ID != "" {
		ctx, cancel := context.WithTimeout(ctx, flushWithin)
		defer cancel()
		err = f.FlushMap(ctx, d.Server)
	}
	if err != nil {
		return reader.Directory{}, err
	}
	return d, nil
}

// Read reads the copies of all cells that can be reached, beginning with any of them, and changes
// nothing. Close the net when done.
func Read[C Conn](ctx context.Context, start C, at Places[C]) (*Net[C], error) {
	first, err := copyOf(ctx, start)
	if err != nil {
		return nil, err
	}
	if first.ID == "" {
		return nil, ErrNoDirectory
	}
	n := &Net[C]{Directory: reader.Directory{ID: first.ID, Here: first.Here}}
	n.find(first)
	looked := map[string]bool{}
	// A copy may name cells that the ones before it did not know.
	for i := 0; ; i++ {
		if i == len(n.Directory.Cells) && !n.look(ctx, at, looked) {
			return n, nil
		}
		if i == len(n.Directory.Cells) {
			i--
			continue
		}
		n.Cells = append(n.Cells, reach(ctx, n.Directory.ID, n.Directory.Cells[i], at))
		if one := n.Cells[i]; one.Err == nil {
			n.merge(one.Directory)
		}
	}
}

// look follows the next setting that no map names. It reports whether there was one.
func (n *Net[C]) look(ctx context.Context, at Places[C], looked map[string]bool) bool {
	for _, setting := range at.Settings {
		named := slices.ContainsFunc(n.Directory.Cells, func(c reader.Cell) bool { return c.Setting == setting })
		if named || looked[setting] {
			continue
		}
		looked[setting] = true
		var d reader.Directory
		conn, err := at.Open(ctx, setting, at.schemaOf(setting))
		if err == nil {
			d, err = copyOf(ctx, conn)
			conn.Close()
		}
		switch {
		case errors.Is(err, migrations.ErrNoCell):
			n.Strays = append(n.Strays, Stray{setting, fmt.Sprintf("its database has no cell in the schema %s, in which it was "+
				"looked for: set RAILHEAD_CELL_%s to the schema of that cell, or begin with that cell (it knows this one); do not "+
				"unset the variable of a cell that exists", at.schemaOf(setting), setting)})
		case err != nil:
			n.Strays = append(n.Strays, Stray{setting, err.Error()})
		case d.ID != n.Directory.ID:
			n.Strays = append(n.Strays, Stray{setting, "leads to " + place(d)})
		default:
			n.find(d)
			if !slices.ContainsFunc(n.Directory.Cells, func(c reader.Cell) bool { return c.Setting == setting }) {
				n.Strays = append(n.Strays, Stray{setting, "leads to cell " + d.Here + ", which has another setting"})
			}
		}
		return true
	}
	return false
}

func reach[C Conn](ctx context.Context, id string, cell reader.Cell, at Places[C]) Reached[C] {
	one := Reached[C]{Cell: cell}
	conn, err := at.Open(ctx, cell.Setting, cell.Schema)
	if err == nil {
		one.Conn, one.opened = conn, true
		one.Directory, err = copyOf(ctx, conn)
	}
	if err == nil && !isCell(one.Directory, id, cell) {
		err = fmt.Errorf("%w: setting %s leads to %s, not to cell %s with id %s", ErrOtherCell, cell.Setting,
			place(one.Directory), cell.Name, cell.ID)
		one.Directory = reader.Directory{}
	}
	one.Err = err
	return one
}

// isCell reports whether a copy is that of a cell of a directory: by the id of the database, which
// no other one has.
func isCell(d reader.Directory, id string, cell reader.Cell) bool {
	return d.ID == id && slices.ContainsFunc(d.Cells, func(c reader.Cell) bool {
		return c.Name == d.Here && c.Name == cell.Name && c.ID == cell.ID
	})
}

func place(d reader.Directory) string {
	if d.ID == "" {
		return "a cell that is in no directory, and takes all participants"
	}
	for _, cell := range d.Cells {
		if cell.Name == d.Here {
			return fmt.Sprintf("cell %s (id %s) of directory %s", d.Here, cell.ID, d.ID)
		}
	}
	return fmt.Sprintf("cell %s of directory %s", d.Here, d.ID)
}

// find adds the cells that a copy names. The buckets of a cell are read where its own setting leads: any
// other database of the directory may be a copy of one.
func (n *Net[C]) find(copied reader.Directory) {
	for _, cell := range copied.Cells {
		if !slices.ContainsFunc(n.Directory.Cells, func(known reader.Cell) bool { return known.Name == cell.Name }) {
			n.Directory.Cells = append(n.Directory.Cells, cell)
		}
	}
}

// merge adds what a cell has to the union. Where two copies contradict each other, Directory has
// the first one, and changes has both.
func (n *Net[C]) merge(copied reader.Directory) {
	n.find(copied)
	n.changes = append(n.changes, copied.Changes...)
	order := func(x, y reader.BucketChange) int { return cmp.Or(x.Bucket-y.Bucket, x.Version-y.Version) }
	slices.SortStableFunc(n.changes, func(x, y reader.BucketChange) int {
		return cmp.Or(order(x, y), cmp.Compare(x.CellID, y.CellID), settledFirst(x, y), cmp.Compare(y.Digest, x.Digest))
	})
	// A cell of an older schema has learned of a gift without its digest: the copy with the digest is the whole one.
	n.changes = slices.CompactFunc(n.changes, func(x, y reader.BucketChange) bool {
		return order(x, y) == 0 && x.CellID == y.CellID && (x.Digest == y.Digest || x.Digest == "" || y.Digest == "")
	})
	n.Directory.Changes = slices.CompactFunc(slices.Clone(n.changes), func(x, y reader.BucketChange) bool {
		return order(x, y) == 0
	})
}

// reread reads the maps of the cells again that were reached. The error of one that can't be read any
// more, or leads elsewhere, is that of its Reached.
func (n *Net[C]) reread(ctx context.Context) {
	n.changes, n.Directory.Changes = nil, nil
	for i := range n.Cells {
		one := &n.Cells[i]
		if one.Directory.ID == "" {
			continue
		}
		d, err := copyOf(ctx, one.Conn)
		if err == nil && !isCell(d, n.Directory.ID, one.Cell) {
			err = fmt.Errorf("%w: setting %s leads to %s now", ErrOtherCell, one.Setting, place(d))
		}
		if err != nil {
			one.Directory, one.Err = reader.Directory{}, cmp.Or(one.Err, err)
			continue
		}
		one.Directory = d
		n.merge(d)
	}
}

// missing is the part of all copies that differs from one of them. A change that it has with another
// cell, or with other participants, is part of it, so that the cell learns of the contradiction.
func (n *Net[C]) missing(known reader.Directory) reader.Directory {
	missing := reader.Directory{ID: n.Directory.ID}
	for _, cell := range n.Directory.Cells {
		if !slices.ContainsFunc(known.Cells, func(c reader.Cell) bool { return c.Name == cell.Name }) {
			missing.Cells = append(missing.Cells, cell)
		}
	}
	type version struct{ bucket, version int }
	has := make(map[version]reader.BucketChange, len(known.Changes))
	for _, change := range known.Changes {
		has[version{change.Bucket, change.Version}] = change
	}
	settled := settledAt(known.Changes)
	for _, change := range n.changes {
		own := has[version{change.Bucket, change.Version}]
		differs := own.CellID != change.CellID || own.Digest != change.Digest && own.Digest != "" && change.Digest != ""
		if differs && change.Version >= settled[change.Bucket] {
			missing.Changes = append(missing.Changes, change)
		}
	}
	return missing
}

// away is the error of an act that needs a cell that was not reached.
func (r *Reached[C]) away() error {
	if r.Err == nil {
		return nil
	}
	return fmt.Errorf("%w: cell %s: %w", ErrAway, r.Name, r.Err)
}

// whole is the error of an act that needs every cell of the directory but some, and every setting to lead
// to one.
func (n *Net[C]) whole(but ...string) error {
	var failed []error
	for i := range n.Cells {
		if !slices.Contains(but, n.Cells[i].Name) {
			failed = append(failed, n.Cells[i].away())
		}
	}
	return errors.Join(append(failed, n.strayed())...)
}

// strayed is the error of an act that is refused while a setting leads elsewhere.
func (n *Net[C]) strayed() error {
	if len(n.Strays) == 0 {
		return nil
	}
	return fmt.Errorf("%w: setting %s, which no map names: %s", ErrOtherCell, n.Strays[0].Setting, n.Strays[0].Why)
}
