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
}

// BucketChange is a cell to which a bucket was given.
type BucketChange struct {
	Bucket  int    `json:"bucket"`  // 0 to outbox.Buckets - 1
	Version int    `json:"version"` // from 1 in each bucket
	Cell    string `json:"cell"`
	CellID  string `json:"cell_id"`
	Settles bool   `json:"settles"` // it replaces every version before it, about which maps contradicted each other

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
	// Confirmed: its map is known to be complete since the server was started or promoted. If it is
	// not, the cell takes no participant that is new to it.
	Confirmed bool
	// Server names the start and timeline of the server under which this was read; empty on a standby.
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
				err = row.Scan(&c.Name, &c.ID, &c.Setting, &c.Schema, &d.ID, &here, &c.Reason, &c.AddedBy, &c.AddedAt)
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
				err = row.Scan(&c.Bucket, &c.Version, &c.Cell, &c.CellID, &c.Settles, &c.Reason, &c.ChangedBy, &c.ChangedAt)
				return c, err
			})
			return err
		})
		batch.Queue(r.db.SQL["directory_buckets"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&d.Takes, &d.Contradicted, &d.Confirmed, &d.Server, &d.Settled)
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
