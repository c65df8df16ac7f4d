package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// Directory reads what this cell knows of its directory: see reader.Reader.
func (o *Operator) Directory(ctx context.Context) (reader.Directory, error) {
	return o.Reader().Directory(ctx)
}

// FlushMap returns once every change of the map that this Operator has read on a server is durable: on
// disk, and on the synchronous standby if there is one. Only then may another cell act on it. It is
// refused (outbox.ErrNotAllowed) if the server was started or promoted since.
func (o *Operator) FlushMap(ctx context.Context, server string) error {
	if err := o.bulk(ctx, "flush_map", nil, server); err != nil {
		return fmt.Errorf("waiting until the map is durable: %w", err)
	}
	return nil
}

// NameCell makes this database a cell, and returns the id of its directory. With an empty ID
// in of the cell begins a new directory, all of whose buckets it takes; it may have payments.
// Otherwise it joins the directory of which of has the cells, must be empty, takes no bucket until one
// is given to it, and knows no bucket before LearnCells. With an ID of the cell it is a cell of that
// directory, whose database was restored to a time before it had a map. A cell keeps its name and its
// directory; a repeated call changes nothing.
func (o *Operator) NameCell(ctx context.Context, cell reader.Cell, reason string, of reader.Directory) (string, error) {
	cells, _, err := documents(of)
	if err != nil {
		return "", err
	}
	var id string
	err = o.bulk(ctx, "name_cell", &id, cell.Name, cell.Setting, cell.Schema, reason, store.Text(of.ID), cells,
		store.Text(cell.ID))
	if err != nil {
		return "", fmt.Errorf("naming cell %s: %w", store.Bound(cell.Name, 64), err)
	}
	return id, nil
}

// Learned is what came of LearnCells.
type Learned struct {
	Changes      int // that were new
	Contradicted int // buckets that this cell does not take, because the copy contradicts its own map
	Later        int // buckets that this cell takes once its server is accepted and it learns again
	LeftBehind   int // participants here whose buckets the cell has lost: it was restored, and they enqueued since
}

// CellServer is the server on which the map of a cell was read: reader.Directory.Server.
type CellServer struct {
	Cell   string `json:"cell"`
	Server string `json:"server"`
}

// LearnCells stores what another cell of the directory knows and this one does not. From then on
// this cell takes the buckets that were given to it, and none that the copy gives to another one.
// What the copy has must be durable: see FlushMap. Servers are those of every cell whose map went
// into the copy, this one's included: it is refused (outbox.ErrNotAllowed) if one of them is not the
// one that this cell knows of that cell (NoteCellServer). Without servers only cells are learned.
func (o *Operator) LearnCells(ctx context.Context, of reader.Directory, servers []CellServer) (Learned, error) {
	cells, changes, err := documents(of)
	if err != nil {
		return Learned{}, err
	}
	var read any // null
	if servers != nil {
		if read, err = written(servers); err != nil {
			return Learned{}, err
		}
	}
	var l Learned
	err = o.decideWithin(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["learn_cells"], of.ID, cells, changes, read).
			Scan(&l.Changes, &l.Contradicted, &l.Later, &l.LeftBehind)
	})
	if err != nil {
		return Learned{}, fmt.Errorf("learning the map of cells: %w", store.Refusal(err))
	}
	return l, nil
}

// NoteCellServer records in this cell on which server another one was read (reader.Directory.Server).
// From then on this cell learns nothing that was read there on an earlier one. Without a reason the
// server must follow the one that is known: a later timeline, or start, of the same system.
func (o *Operator) NoteCellServer(ctx context.Context, cell, server, reason string) error {
	if err := o.bulk(ctx, "note_cell_server", nil, cell, server, store.Text(reason)); err != nil {
		return fmt.Errorf("recording the server of cell %s: %w", store.Bound(cell, 64), err)
	}
	return nil
}

// ForeignParticipants counts the participants of other cells who have enqueued in this one: it was
// restored to a time before it gave their buckets away, or before it had a map.
func (o *Operator) ForeignParticipants(ctx context.Context) (int, error) {
	var foreign int
	if err := o.bulk(ctx, "foreign_participants", &foreign); err != nil {
		return 0, fmt.Errorf("counting the participants of other cells: %w", err)
	}
	return foreign, nil
}

// ConfirmMap records that the map of this cell, as it was read under the given server, was compared
// with those of the named cells. Gone are those that are left out on purpose, which needs a
// reason. Every cell that this one knows must be named. It is refused (outbox.ErrNotAllowed) if the
// server was started or promoted since.
func (o *Operator) ConfirmMap(ctx context.Context, server string, compared, gone []string, reason string) error {
	err := o.bulk(ctx, "confirm_map", nil, server, append([]string{}, compared...), append([]string{}, gone...),
		store.Text(reason))
	if err != nil {
		return fmt.Errorf("confirming the map of cells: %w", err)
	}
	return nil
}

// SettleBuckets says which cell takes buckets about which the maps of cells contradict each other,
// and returns how many were settled by this call. Versions are those of the change that says so, for
// each bucket higher than any that any cell knows. It is called in every cell, and last in
// the one that is to take them. Servers are as in LearnCells, and have the cells that are left out, too,
// with the server that this cell knew: one that came back meanwhile is on another.
func (o *Operator) SettleBuckets(
	ctx context.Context, buckets, versions []int, to, reason string, servers []CellServer,
) (int, error) {
	read, err := written(servers)
	if err != nil {
		return 0, err
	}
	var settled int
	if err := o.bulk(ctx, "settle_buckets", &settled, buckets, versions, to, reason, read); err != nil {
		return 0, fmt.Errorf("settling %d buckets for cell %s: %w", len(buckets), store.Bound(to, 64), err)
	}
	return settled, nil
}

// GiveBuckets gives buckets of this cell to another one. From the commit on, this cell refuses
// their participants; the other one takes them once it has learned of it. A bucket whose
// participants have payments here is not given (outbox.ErrNotAllowed), and then none is.
func (o *Operator) GiveBuckets(ctx context.Context, buckets []int, to, reason string) error {
	var given int
	if err := o.bulk(ctx, "give_buckets", &given, buckets, to, reason); err != nil {
		return fmt.Errorf("giving %d buckets to cell %s: %w", len(buckets), store.Bound(to, 64), err)
	}
	return nil
}

// written returns servers as the functions of the schema take them.
func written(servers []CellServer) (string, error) {
	text, err := json.Marshal(append([]CellServer{}, servers...))
	if err != nil {
		return "", fmt.Errorf("writing the servers: %w", err)
	}
	return string(text), nil
}

// documents returns cells and changes as the functions of the schema take them.
func documents(d reader.Directory) (cells, changes string, err error) {
	all, err := json.Marshal(append([]reader.Cell{}, d.Cells...))
	if err != nil {
		return "", "", fmt.Errorf("writing the cells: %w", err)
	}
	some, err := json.Marshal(append([]reader.BucketChange{}, d.Changes...))
	if err != nil {
		return "", "", fmt.Errorf("writing the changes of buckets: %w", err)
	}
	return string(all), string(some), nil
}
