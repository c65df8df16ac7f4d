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

// Said is what an operator says of cells, and why.
type Said struct {
	Without []string // cells that are lost, or that the operator goes on without
	Servers []string // cells that are on another server, although it does not follow the known one
	Reason  string
	// Repeated: it is said again and again, and not of one moment. A cell that knows no other one is
	// then not confirmed by the reason.
	Repeated bool
}

// syncWithin bounds the part of an act that copies maps.
const syncWithin = 2 * time.Minute

// Sync reads the copies of all cells that can be reached, and gives to each what it does not
// know, unless a setting leads to no cell of the directory. The error of a cell that was not
// reached, or refused to learn, is that of its Reached. Where every cell was reached, or is left out
// on purpose, it confirms the map of each cell whose server was started or promoted since. Before it
// reads the maps by which it does so, every other cell has recorded that server, so that an act which
// has read an earlier one can't teach it any more.
func Sync(ctx context.Context, start *operator.Operator, at Acts, said Said) (*Operators, error) {
	ctx, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	n, err := Read(ctx, start, at)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(said.Without, said.Servers) {
		if n.of(name) == nil {
			n.Close()
			return nil, fmt.Errorf("%w: the directory has no cell %s", outbox.ErrNotFound, name)
		}
	}
	// While a setting leads elsewhere, nothing is spread, nor while a cell does not know another one's server.
	if len(n.Strays) > 0 || !introduce(ctx, n, said) {
		return n, nil
	}
	servers, introduced := n.servers(), n.introduced()
	for i := range n.Cells {
		if one := &n.Cells[i]; one.Err == nil {
			one.Err = learn(ctx, one, n.missing(one.Directory), servers)
		}
	}
	confirm(ctx, n, said, introduced)
	return n, nil
}

// servers are those on which the maps were read.
func (n *Net[C]) servers() (servers []operator.CellServer) {
	for _, one := range n.Cells {
		if one.Directory.ID != "" {
			servers = append(servers, operator.CellServer{Cell: one.Name, Server: one.Directory.Server})
		}
	}
	return servers
}

// introduce tells each cell which others there are, and on which servers they are, and then reads all
// maps again. It reports whether every one that was reached agrees.
func introduce(ctx context.Context, n *Operators, said Said) (agreed bool) {
	agreed, changed := true, false
	for i := range n.Cells {
		one := &n.Cells[i]
		if one.Err != nil {
			continue
		}
		if cells := n.missing(one.Directory); len(cells.Cells) > 0 {
			cells.Changes = nil
			one.Err = patiently(ctx, func() error {
				_, err := one.Conn.LearnCells(ctx, cells, nil)
				return err
			})
			changed = true
		}
		for j := range n.Cells {
			other := &n.Cells[j]
			if i == j || one.Err != nil || other.Directory.ID == "" || one.knows(other) {
				continue
			}
			reason := ""
			if slices.Contains(said.Servers, other.Name) {
				reason = said.Reason
			}
			one.Err = patiently(ctx, func() error {
				return one.Conn.NoteCellServer(ctx, other.Name, other.Directory.Server, reason)
			})
			changed = true
		}
		agreed = agreed && (one.Err == nil || slices.Contains(said.Without, one.Name))
	}
	if changed {
		n.reread(ctx)
	}
	return agreed
}

// knows reports whether a cell has recorded the server on which another one was read.
func (r *Reached[C]) knows(other *Reached[C]) bool {
	return slices.ContainsFunc(r.Directory.Cells, func(c reader.Cell) bool {
		return c.Name == other.Name && c.Server == other.Directory.Server
	})
}

// introduced are the cells whose servers every other one that was reached had recorded when its map was read.
func (n *Net[C]) introduced() (names []string) {
	for i := range n.Cells {
		one := &n.Cells[i]
		unknown := slices.ContainsFunc(n.Cells, func(other Reached[C]) bool {
			return other.Directory.ID != "" && other.Name != one.Name && !other.knows(one)
		})
		if one.Directory.ID != "" && !unknown {
			names = append(names, one.Name)
		}
	}
	return names
}

// learn gives a cell what it does not know.
func learn(
	ctx context.Context, one *Reached[*operator.Operator], missing reader.Directory, servers []operator.CellServer,
) error {
	if len(missing.Cells) == 0 && len(missing.Changes) == 0 && one.later() == 0 {
		return nil
	}
	err := patiently(ctx, func() error {
		learned, err := one.Conn.LearnCells(ctx, missing, servers)
		one.Left = learned.LeftBehind
		return err
	})
	if err != nil {
		return err
	}
	one.Directory, err = copyOf(ctx, one.Conn)
	return err
}

// confirm confirms the map of each cell that needs it, if all of them were read after they had recorded
// its server, and it holds what they have: a failover since it was read may have taken away what it learned.
func confirm(ctx context.Context, n *Operators, said Said, introduced []string) {
	var read []string
	for i := range n.Cells {
		switch one := &n.Cells[i]; {
		case one.Err == nil:
			read = append(read, one.Name)
		case !slices.Contains(said.Without, one.Name):
			return
		}
	}
	for i := range n.Cells {
		one := &n.Cells[i]
		if one.Err != nil || one.Directory.Compared || n.behind(one.Directory) > 0 ||
			!slices.Contains(introduced, one.Name) {
			continue
		}
		reason := said.Reason
		if said.Repeated && len(n.Cells) == 1 {
			reason = ""
		}
		one.Err = one.Conn.ConfirmMap(ctx, one.Directory.Server, read, said.Without, reason)
		one.Directory.Confirmed = one.Err == nil
		one.Directory.Compared = one.Err == nil
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
