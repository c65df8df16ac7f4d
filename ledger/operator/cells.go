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

// FlushMap returns once every change of the map that this Operator has read is durable: on disk,
// and on the synchronous standby if there is one. Only then may another cell act on it.
func (o *Operator) FlushMap(ctx context.Context) error {
	if err := o.act(ctx, "flush_map", nil); err != nil {
		return fmt.Errorf("waiting until the map is durable: %w", err)
	}
	return nil
}

// NameCell makes this database a cell, and returns the id of its directory. With an empty ID
// in copied the cell begins a new directory, all of whose buckets it takes; it may have payments.
// Otherwise it joins the directory of copied, must be empty, and takes no bucket until one is
// given to it. With an ID of the cell it is a cell that copied knows, whose database was restored
// to a time before it had a map: it takes what copied gives it once its server is accepted. A
// cell keeps its name and its directory; a repeated call changes nothing.
func (o *Operator) NameCell(
	ctx context.Context, cell reader.Cell, reason string, copied reader.Directory,
) (string, error) {
	cells, changes, err := documents(copied)
	if err != nil {
		return "", err
	}
	var id string
	err = o.act(ctx, "name_cell", &id, cell.Name, cell.Setting, cell.Schema, reason, store.Text(copied.ID), cells, changes,
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

// LearnCells stores what another cell of the directory knows and this one does not. From then on
// this cell takes the buckets that were given to it, and none that the copy gives to another one.
// What the copy has must be durable: see FlushMap.
func (o *Operator) LearnCells(ctx context.Context, of reader.Directory) (Learned, error) {
	cells, changes, err := documents(of)
	if err != nil {
		return Learned{}, err
	}
	var l Learned
	err = o.decide(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["learn_cells"], of.ID, cells, changes).
			Scan(&l.Changes, &l.Contradicted, &l.Later, &l.LeftBehind)
	})
	if err != nil {
		return Learned{}, fmt.Errorf("learning the map of cells: %w", store.Refusal(err))
	}
	return l, nil
}

// ConfirmMap records that the map of this cell, as it was read under the given server, was compared
// with those of the named cells. Gone are those that are left out on purpose, which needs a
// reason. Every cell that this one knows must be named. It is refused (outbox.ErrNotAllowed) if the
// server was started or promoted since.
func (o *Operator) ConfirmMap(ctx context.Context, server string, compared, gone []string, reason string) error {
	err := o.act(ctx, "confirm_map", nil, server, append([]string{}, compared...), append([]string{}, gone...),
		store.Text(reason))
	if err != nil {
		return fmt.Errorf("confirming the map of cells: %w", err)
	}
	return nil
}

// SettleBuckets says which cell takes buckets about which the maps of cells contradict each other,
// and returns how many were settled by this call. Versions are those of the change that says so, for
// each bucket higher than any that any cell knows. It is called in every cell, and last in
// the one that is to take them.
func (o *Operator) SettleBuckets(ctx context.Context, buckets, versions []int, to, reason string) (int, error) {
	var settled int
	if err := o.act(ctx, "settle_buckets", &settled, buckets, versions, to, reason); err != nil {
		return 0, fmt.Errorf("settling %d buckets for cell %s: %w", len(buckets), store.Bound(to, 64), err)
	}
	return settled, nil
}

// GiveBuckets gives buckets of this cell to another one. From the commit on, this cell refuses
// their participants; the other one takes them once it has learned of it. A bucket whose
// participants have payments here is not given (outbox.ErrNotAllowed), and then none is.
func (o *Operator) GiveBuckets(ctx context.Context, buckets []int, to, reason string) error {
	var given int
	if err := o.act(ctx, "give_buckets", &given, buckets, to, reason); err != nil {
		return fmt.Errorf("giving %d buckets to cell %s: %w", len(buckets), store.Bound(to, 64), err)
	}
	return nil
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
