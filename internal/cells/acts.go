package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// First begins a directory with a cell, which takes all buckets, and may have payments. It is
// refused while another setting of the process leads to a cell of a directory.
func First(ctx context.Context, cell reader.Cell, reason string, at Acts) (id string, err error) {
	conn, err := at.Open(ctx, cell.Setting, cell.Schema)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	own, err := conn.Directory(ctx)
	if err != nil {
		return "", err
	}
	for _, setting := range at.without(cell.Setting).Settings {
		d, err := peek(ctx, setting, at)
		if err != nil && own.ID == "" {
			return "", fmt.Errorf("%w: whether setting %s leads to a directory is not known: %w", ErrAway, setting, err)
		}
		if err == nil && d.ID != "" && d.ID != own.ID {
			return "", fmt.Errorf("%w: setting %s leads to %s: a second directory would take its participants, too. Add the "+
				"cell to that one, or, if it was restored, have it rejoin", outbox.ErrNotAllowed, setting, place(d))
		}
	}
	err = patiently(ctx, func() error {
		id, err = conn.NameCell(ctx, cell, reason, reader.Directory{})
		return err
	})
	if err != nil || own.ID != "" {
		return id, err
	}
	// It goes on taking instructions when it learns of a second cell.
	if own, err = conn.Directory(ctx); err != nil {
		return id, err
	}
	return id, conn.ConfirmMap(ctx, own.Server, nil, nil, reason)
}

// peek reads the map of the cell of a setting.
func peek(ctx context.Context, setting string, at Acts) (reader.Directory, error) {
	conn, err := at.Open(ctx, setting, at.schemaOf(setting))
	if err != nil {
		return reader.Directory{}, err
	}
	defer conn.Close()
	return conn.Directory(ctx)
}

// Add adds an empty cell to the directory of start. It takes no bucket until one is assigned to
// it. The net is that after the act; changed is whether the cell was not in the directory before.
func Add(
	ctx context.Context, start *operator.Operator, cell reader.Cell, reason string, at Acts,
) (after *Operators, changed bool, err error) {
	n, err := Sync(ctx, start, at.without(cell.Setting), Said{})
	if err != nil {
		return nil, false, err
	}
	defer n.Close()
	changed = true
	for _, there := range n.Directory.Cells {
		if there.Name == cell.Name && (there.Setting != cell.Setting || there.Schema != cell.Schema) {
			return nil, false, fmt.Errorf("%w: cell %s is there with setting %s and schema %s", outbox.ErrNotAllowed,
				cell.Name, there.Setting, there.Schema)
		}
		if there.Name != cell.Name && there.Setting == cell.Setting && there.Schema == cell.Schema {
			return nil, false, fmt.Errorf("%w: setting %s and schema %s are those of cell %s", outbox.ErrNotAllowed,
				cell.Setting, cell.Schema, there.Name)
		}
		changed = changed && there.Name != cell.Name
	}
	conn, err := at.Open(ctx, cell.Setting, cell.Schema)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	err = patiently(ctx, func() error {
		_, err := conn.NameCell(ctx, cell, reason, n.Directory)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	after, err = Sync(ctx, conn, at, Said{})
	return after, changed, err
}

// Rejoin gives a cell its map again whose database was restored to a time before it had one. All
// other cells must be reached. It takes what they know to be its own once its server is accepted. The
// Left of the cell is how many participants of other cells have enqueued there since it was restored.
func Rejoin(
	ctx context.Context, start *operator.Operator, name, reason string, at Acts,
) (*Operators, error) {
	n, err := Sync(ctx, start, at, Said{})
	if err != nil {
		return nil, err
	}
	defer n.Close()
	cell := n.of(name)
	if cell == nil {
		return nil, fmt.Errorf("%w: the directory has no cell %s", outbox.ErrNotFound, name)
	}
	if cell.Err == nil {
		return nil, fmt.Errorf("%w: cell %s has its map: run railhead cell sync", outbox.ErrNotAllowed, name)
	}
	if err := n.whole(name); err != nil {
		return nil, err
	}
	conn, err := at.Open(ctx, cell.Setting, cell.Schema)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = patiently(ctx, func() error {
		_, err := conn.NameCell(ctx, cell.Cell, reason, n.Directory)
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := Sync(ctx, start, at, Said{Servers: []string{name}, Reason: reason})
	if err != nil {
		return nil, err
	}
	if after.of(name).Left, err = conn.ForeignParticipants(ctx); err != nil {
		after.Close()
		return nil, err
	}
	return after, nil
}

// Assign assigns buckets to a cell: each cell that has some of them gives them, and then the cell
// learns of it. It returns how many were given. The cell, and each that ever had one of the
// buckets and is not left out on purpose, must be reached, or nothing is changed. The net is that after
// the act; with ErrUnlearned no cell takes the buckets until an act is repeated.
func Assign(
	ctx context.Context, start *operator.Operator, to string, buckets []int, said Said, at Acts,
) (after *Operators, given int, err error) {
	n, err := Sync(ctx, start, at, said)
	if err != nil {
		return nil, 0, err
	}
	given, err = give(ctx, n, to, buckets, said)
	if given == 0 && err != nil {
		n.Close()
		return nil, 0, err
	}
	if given == 0 {
		return n, 0, nil
	}
	n.Close()
	after, failed := Sync(ctx, start, at, said)
	if failed == nil {
		failed = after.of(to).Err
	}
	if failed == nil && slices.ContainsFunc(buckets, func(bucket int) bool {
		gift := after.gifts()[bucket] // one for another cell is of a later act
		return gift.Cell == to && gift.Digest != "" && !slices.Contains(after.of(to).Directory.Takes, bucket)
	}) {
		failed = fmt.Errorf("%w: participants were packed with them: run railhead cell move", outbox.ErrNotAllowed)
	}
	if failed != nil {
		failed = fmt.Errorf("cell %s was given %d buckets: %w: %w", to, given, ErrUnlearned, failed)
	}
	return after, given, errors.Join(err, failed)
}

// give has each owner give its buckets. It checks first that every cell that ever had one was
// reached: one that was restored may take it again.
func give(ctx context.Context, n *Operators, to string, buckets []int, said Said) (given int, err error) {
	target := n.of(to)
	if target == nil {
		return 0, fmt.Errorf("%w: the directory has no cell %s", outbox.ErrNotFound, to)
	}
	if err := n.strayed(); err != nil {
		return 0, err
	}
	if err := n.answering(said.Without); err != nil {
		return 0, err
	}
	owners := n.Directory.Owners()
	needs, by := []string{to}, map[string][]int{}
	for _, bucket := range buckets {
		if owner := owners[bucket]; owner != to {
			by[owner] = append(by[owner], bucket)
		}
	}
	for _, bucket := range buckets {
		if one := n.of(owners[bucket]); one != nil && slices.Contains(one.Directory.Leaving, bucket) {
			return 0, fmt.Errorf("%w: bucket %d is being moved: complete it with railhead cell move, or end it with --cancel",
				outbox.ErrNotAllowed, bucket)
		}
	}
	for _, change := range n.changes {
		if slices.Contains(buckets, change.Bucket) && owners[change.Bucket] != to && !slices.Contains(needs, change.Cell) {
			needs = append(needs, change.Cell)
		}
	}
	var away []error
	for _, name := range needs {
		if slices.Contains(said.Without, name) && len(by[name]) == 0 && name != to {
			continue
		}
		if one := n.of(name); one == nil {
			away = append(away, fmt.Errorf("%w: cell %s is not in the directory", ErrAway, name))
		} else if err := one.away(); err != nil {
			away = append(away, err)
		}
	}
	if len(away) > 0 {
		return 0, errors.Join(away...)
	}
	if len(by) > 0 && (!target.Directory.Settled || !target.Directory.Confirmed) {
		return 0, fmt.Errorf("%w: cell %s would not take the buckets: its server was started, promoted or restored, and is "+
			"not accepted yet, or its map was not compared with those of all cells", outbox.ErrNotAllowed, to)
	}
	for _, owner := range needs[1:] {
		if len(by[owner]) == 0 {
			continue
		}
		err := patiently(ctx, func() error { return n.of(owner).Conn.GiveBuckets(ctx, by[owner], to, said.Reason) })
		if err != nil && (errors.Is(err, outbox.ErrCommitUnknown) || ctx.Err() != nil) {
			return given, fmt.Errorf("cell %s may have given %d buckets, which is not known: run railhead cell sync: %w", owner,
				len(by[owner]), err)
		}
		if err != nil {
			return given, fmt.Errorf("cell %s: %w", owner, err)
		}
		given += len(by[owner])
	}
	return given, nil
}
