package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

type (
	// Operators are the cells of a directory, with operators' connections.
	Operators = Net[*operator.Operator]
	// Acts is where an operator's process finds cells.
	Acts = Places[*operator.Operator]
)

// Without names cells that an operator goes on without, and why.
type Without struct {
	Cells  []string
	Reason string
}

// Sync reads the copies of all cells that can be reached, and gives to each what it does not
// know, unless a setting leads to no cell of the directory. The error of a cell that was not
// reached, or refused to learn, is that of its Reached. Where every cell was reached, or is left out
// on purpose, it confirms the map of each cell whose server was started or promoted since.
func Sync(ctx context.Context, start *operator.Operator, at Acts, without Without) (*Operators, error) {
	n, err := Read(ctx, start, at)
	if err != nil {
		return nil, err
	}
	for _, name := range without.Cells {
		if n.of(name) == nil {
			n.Close()
			return nil, fmt.Errorf("%w: the directory has no cell %s to go on without", outbox.ErrNotFound, name)
		}
	}
	for i := range n.Cells {
		// While a setting leads elsewhere, nothing is spread.
		if one := &n.Cells[i]; one.Err == nil && len(n.Strays) == 0 {
			one.Err = learn(ctx, one, n.missing(one.Directory))
		}
	}
	confirm(ctx, n, without)
	return n, nil
}

// learn gives a cell what it does not know.
func learn(ctx context.Context, one *Reached[*operator.Operator], missing reader.Directory) error {
	if len(missing.Cells) == 0 && len(missing.Changes) == 0 && one.later() == 0 {
		return nil
	}
	err := patiently(ctx, func() error {
		learned, err := one.Conn.LearnCells(ctx, missing)
		one.Left = learned.LeftBehind
		return err
	})
	if err != nil {
		return err
	}
	one.Directory, err = copyOf(ctx, one.Conn)
	return err
}

// confirm confirms the map of each cell that needs it, if all of them were read, and it holds what they
// have: a failover since it was read may have taken away what it learned.
func confirm(ctx context.Context, n *Operators, without Without) {
	var read []string
	for i := range n.Cells {
		switch one := &n.Cells[i]; {
		case one.Err == nil:
			read = append(read, one.Name)
		case !slices.Contains(without.Cells, one.Name):
			return
		}
	}
	if len(n.Strays) > 0 {
		return
	}
	for i := range n.Cells {
		one := &n.Cells[i]
		if one.Err != nil || one.Directory.Confirmed || n.behind(one.Directory) > 0 {
			continue
		}
		one.Err = one.Conn.ConfirmMap(ctx, one.Directory.Server, read, without.Cells, without.Reason)
		one.Directory.Confirmed = one.Err == nil
	}
}

// patiently repeats an act that waited too long for a lock, for a while.
func patiently(ctx context.Context, act func() error) error {
	for end := time.Now().Add(busyFor); ; {
		err := act()
		if !errors.Is(err, outbox.ErrLockTimeout) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
