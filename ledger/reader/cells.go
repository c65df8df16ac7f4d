package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/outbox"
)

// Cell is a cell of a directory.
type Cell struct {
	Name    string `json:"name"`
	ID      string `json:"cell_id"` // a UUID, of the database that is the cell
	Setting string `json:"setting"` // the name under which a process finds its connection string
	Schema  string `json:"cell_schema"`

	Reason  string    `json:"reason"`
	AddedBy string    `json:"added_by"` // the login
	AddedAt time.Time `json:"added_at"`

	// Namespace is the UUID from which the cells of a directory derive rail keys; JoinedWith is that
	// which the database of the cell had before it joined. Both are empty in a directory that was begun
	// before migration 25.
	Namespace  string `json:"rail_key_namespace,omitempty"`
	JoinedWith string `json:"joined_with,omitempty"`
	// Server is the newest server on which the cell whose copy this is has seen the other one; empty:
	// none, or it is the cell itself.
	Server string `json:"-"`
}

// BucketChange is a cell to which a bucket was given.
type BucketChange struct {
	Bucket  int    `json:"bucket"`  // 0 to outbox.Buckets - 1
	Version int    `json:"version"` // from 1 in each bucket
	Cell    string `json:"cell"`
	CellID  string `json:"cell_id"`
	Settles bool   `json:"settles"` // it replaces every version before it, about which maps contradicted each other
	// Digest is of the participants and keys that were packed in the cell that gave the bucket; empty: there were none.
	// The new cell takes the bucket once it has stored exactly these.
	Digest string `json:"digest"`

	Reason    string    `json:"reason"`
	ChangedBy string    `json:"changed_by"` // the login
	ChangedAt time.Time `json:"changed_at"`
}

// Directory is what a cell knows of the directory that it is part of.
type Directory struct {
	ID      string         // a UUID; empty: the cell is in none, and takes the instructions of all participants
	Here    string         // the cell itself
	Cells   []Cell         // in the order in which they were added
	Changes []BucketChange // in the order of buckets and versions
	// Takes are the buckets whose participants the cell takes; without a directory all.
	Takes []int
	// Contradicted are the buckets that it does not take because another cell's map contradicts its own.
	Contradicted []int
	// Leaving are the buckets that this cell is moving to another one: no cell takes them meanwhile.
	Leaving []int
	// Confirmed: its map is known to be complete since the server was started or promoted. If it is
	// not, the cell takes no instruction.
	Confirmed bool
	// Compared: its map was compared with those of the other cells on this start of the server.
	Compared bool
	// Server names the server on which this was read: system identifier, timeline, start, and how often
	// its data was found to have gone back since; empty on a standby.
	Server string
	// Settled: the rows of the cell are known to be complete. If they are not, it is given no bucket.
	Settled bool
}

// Owners returns the cell of each bucket by the highest version that is known; empty: none.
func (d *Directory) Owners() (owners [outbox.Buckets]string) {
	for _, change := range d.Changes {
		owners[change.Bucket] = change.Cell
	}
	return owners
}

// changesMax is the most changes that are read of a directory.
const changesMax = 1_000_000

// errChanges reports a directory that is not read.
var errChanges = errors.New("the directory has more than 1,000,000 changes")

// Directory reads what this cell knows of its directory, in one snapshot.
func (r *Reader) Directory(ctx context.Context) (Directory, error) {
	var d Directory
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["directory_cells"]).Query(func(rows pgx.Rows) error {
			var err error
			d.Cells, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Cell, err error) {
				here := false
				err = row.Scan(&c.Name, &c.ID, &c.Setting, &c.Schema, &d.ID, &here, &c.Reason, &c.AddedBy, &c.AddedAt,
					&c.Namespace, &c.JoinedWith, &c.Server)
				if here {
					d.Here = c.Name
				}
				return c, err
			})
			return err
		})
		batch.Queue(r.db.SQL["directory_changes"], changesMax+1).Query(func(rows pgx.Rows) error {
			var err error
			d.Changes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c BucketChange, err error) {
				err = row.Scan(&c.Bucket, &c.Version, &c.Cell, &c.CellID, &c.Settles, &c.Digest, &c.Reason, &c.ChangedBy,
					&c.ChangedAt)
				return c, err
			})
			return err
		})
		batch.Queue(r.db.SQL["directory_buckets"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&d.Takes, &d.Leaving, &d.Contradicted, &d.Confirmed, &d.Server, &d.Settled, &d.Compared)
		})
	})
	if err == nil && len(d.Changes) > changesMax {
		err = errChanges
	}
	if err != nil {
		return Directory{}, fmt.Errorf("reading the directory of cells: %w", err)
	}
	return d, nil
}

// MapState says what a cell of several takes. A cell without a map takes everything.
type MapState struct {
	// Confirmed: it takes instructions. Otherwise its map was not compared with those of the other cells since its
	// server was started or promoted.
	Confirmed bool
	// Untaken counts buckets whose participants are refused here, and taken by no other cell: they are being moved
	// away, were given to this cell and have not arrived, or maps contradict each other about them.
	Untaken int64
}

// MapState reads what the cell takes by its map of cells.
func (r *Reader) MapState(ctx context.Context) (state MapState, err error) {
	err = r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["map_state"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&state.Confirmed, &state.Untaken)
		})
	})
	if err != nil {
		return MapState{}, fmt.Errorf("reading what the cell takes by its map: %w", err)
	}
	return state, nil
}
