package cells

import (
	"context"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// CellState is the state of one cell in a directory.
type CellState struct {
	Name      string `json:"name"`
	ID        string `json:"cell_id"`
	Setting   string `json:"setting"`
	Schema    string `json:"cell_schema"`
	Buckets   int    `json:"buckets"`        // by the newest map that is known
	Takes     int    `json:"takes"`          // by its own copy, 0 while that is not confirmed; -1: it was not reached
	Behind    int    `json:"behind"`         // changes of buckets that it has not learned of
	Confirmed bool   `json:"confirmed"`      // it takes instructions: see reader.Directory
	Standby   bool   `json:"standby"`        // it was read from a standby, which can't tell
	Later     int    `json:"later"`          // buckets that it takes once its server is accepted
	Left      int    `json:"left_behind"`    // participants whose buckets it has lost by this act
	Away      string `json:"away,omitempty"` // why it was not reached
	Refuses   string `json:"refuses,omitempty"`
}

// State is the state of a directory, as far as its cells can be reached.
type State struct {
	DirectoryID string      `json:"directory_id"`
	Cells       []CellState `json:"cells"`
	Strays      []Stray     `json:"strays"`
	// Untaken are buckets that no cell takes: their cell was reached, and has not learned that it
	// has them.
	Untaken []int `json:"untaken"`
	// Moving are buckets that no cell takes because they are being moved: the move goes on, or was broken off.
	Moving []int `json:"moving"`
	// Incomplete are buckets that were given with participants and that no cell takes: the move was broken off
	// after the gift, or the new cell was restored and may lack their keys. While a server is not accepted, its
	// buckets are untaken: nothing else says what it lacks.
	Incomplete []int `json:"incomplete"`
	// Doubled are buckets that two cells take, or another one than the newest map says: a database was
	// restored to a time before it gave them.
	Doubled []int `json:"doubled"`
	// Contradicted are buckets that no cell takes until an operator has settled them.
	Contradicted []int `json:"contradicted"`
	// Unknown are buckets of cells that were not reached.
	Unknown []int `json:"unknown"`
}

// Sound reports whether exactly one cell takes each bucket, as far as the cells that are known can tell. Cells that are
// lost for good, and have no bucket, are left out.
func (s State) Sound(lost ...string) bool {
	return len(s.Untaken) == 0 && len(s.Moving) == 0 && len(s.Incomplete) == 0 && len(s.Doubled) == 0 &&
		len(s.Contradicted) == 0 && len(s.Unknown) == 0 && len(s.Strays) == 0 &&
		!slices.ContainsFunc(s.Cells, func(c CellState) bool {
			return !slices.Contains(lost, c.Name) && (c.Away != "" || c.Refuses != "" || !c.Confirmed)
		})
}

// State compares the copies of all cells that were reached.
func (n *Net[C]) State() State {
	s := State{DirectoryID: n.Directory.ID, Strays: append([]Stray{}, n.Strays...), Untaken: []int{}, Moving: []int{},
		Incomplete: []int{}, Doubled: []int{}, Contradicted: []int{}, Unknown: []int{}}
	owners := n.Directory.Owners()
	var takers [outbox.Buckets][]string
	var moving [outbox.Buckets]bool
	settled := map[string]bool{}
	gifts := n.gifts()
	contradicted := n.contradicted()
	away := map[string]bool{}
	for i := range n.Cells {
		one := &n.Cells[i]
		state := CellState{Name: one.Name, ID: one.ID, Setting: one.Setting, Schema: one.Schema, Takes: -1}
		for _, owner := range owners {
			if owner == one.Name {
				state.Buckets++
			}
		}
		switch {
		case one.Directory.ID != "":
			state.Takes, state.Confirmed = len(one.Directory.Takes), one.Directory.Confirmed
			state.Standby = one.Directory.Server == ""
			settled[one.Name] = one.Directory.Settled
			if !state.Confirmed && !state.Standby {
				state.Takes = 0
			}
			state.Later, state.Left = one.later(), one.Left
			for _, bucket := range one.Directory.Takes {
				takers[bucket] = append(takers[bucket], one.Name)
			}
			for _, bucket := range one.Directory.Leaving {
				moving[bucket] = true
			}
			state.Behind = n.behind(one.Directory)
			if one.Err != nil {
				state.Refuses = one.Err.Error()
			}
		case one.Err != nil:
			away[one.Name] = true
			state.Away = one.Err.Error()
		}
		s.Cells = append(s.Cells, state)
	}
	for bucket, owner := range owners {
		switch takes := takers[bucket]; {
		case len(takes) > 1, len(takes) == 1 && (takes[0] != owner || contradicted[bucket]):
			s.Doubled = append(s.Doubled, bucket)
		case contradicted[bucket]:
			s.Contradicted = append(s.Contradicted, bucket)
		case len(takes) == 1:
		case away[owner]:
			s.Unknown = append(s.Unknown, bucket)
		case moving[bucket]:
			s.Moving = append(s.Moving, bucket)
		case gifts[bucket].Digest != "" && settled[owner]:
			s.Incomplete = append(s.Incomplete, bucket)
		default:
			s.Untaken = append(s.Untaken, bucket)
		}
	}
	for _, bucket := range s.Incomplete {
		for i := range s.Cells {
			if s.Cells[i].Name == owners[bucket] {
				s.Cells[i].Later-- // it doesn't wait for its server
			}
		}
	}
	return s
}

// settledAt returns the version of each bucket with which an operator settled it; 0: none. What was
// before it is history.
func settledAt(changes []reader.BucketChange) (at [outbox.Buckets]int) {
	for _, change := range changes {
		if change.Settles {
			at[change.Bucket] = max(at[change.Bucket], change.Version)
		}
	}
	return at
}

// settledFirst orders two copies of a change: what an operator has settled goes before what it replaces.
func settledFirst(x, y reader.BucketChange) int {
	switch {
	case x.Settles == y.Settles:
		return 0
	case x.Settles:
		return -1
	}
	return 1
}

// gifts are the newest changes of the buckets that any cell knows.
func (n *Net[C]) gifts() (gifts [outbox.Buckets]reader.BucketChange) {
	for _, change := range n.Directory.Changes {
		gifts[change.Bucket] = change
	}
	return gifts
}

// behind counts the changes of buckets that a copy has not learned of. One about which the copies
// contradict each other is not learned by any cell.
func (n *Net[C]) behind(copied reader.Directory) (behind int) {
	contradicted := n.contradicted()
	for _, change := range n.missing(copied).Changes {
		if !contradicted[change.Bucket] {
			behind++
		}
	}
	return behind
}

// contradicted are the buckets about which two copies contradict each other, after what was settled,
// and those of which a cell has seen that.
func (n *Net[C]) contradicted() (those [outbox.Buckets]bool) {
	settled := settledAt(n.changes)
	for i := 1; i < len(n.changes); i++ {
		a, b := n.changes[i-1], n.changes[i]
		if a.Bucket == b.Bucket && a.Version == b.Version && a.Version >= settled[a.Bucket] {
			those[a.Bucket] = true
		}
	}
	for _, one := range n.Cells {
		for _, bucket := range one.Directory.Contradicted {
			those[bucket] = true
		}
	}
	return those
}

// settle is how long Look waits before it reads maps again that seem wrong.
const settle = 500 * time.Millisecond

// Look reads the state of a directory. The cells are read one after the other, so a change that is
// made meanwhile can look like a bucket that two cells take, or none: what seems wrong is
// read a second time, and only what both times have is in the state.
func Look[C Conn](ctx context.Context, start C, at Places[C]) (State, error) {
	first, err := state(ctx, start, at)
	if err != nil || first.Sound() {
		return first, err
	}
	select {
	case <-ctx.Done():
		return State{}, ctx.Err()
	case <-time.After(settle):
	}
	second, err := state(ctx, start, at)
	if err != nil {
		return State{}, err
	}
	// A bucket that is wrong in another way the second time was wrong both times.
	wrong := slices.Concat(first.Untaken, first.Moving, first.Incomplete, first.Doubled, first.Contradicted, first.Unknown)
	for _, list := range []*[]int{
		&second.Untaken, &second.Moving, &second.Incomplete, &second.Doubled, &second.Contradicted,
	} {
		*list = slices.DeleteFunc(*list, func(bucket int) bool { return !slices.Contains(wrong, bucket) })
	}
	return second, nil
}

func state[C Conn](ctx context.Context, start C, at Places[C]) (State, error) {
	n, err := Read(ctx, start, at)
	if err != nil {
		return State{}, err
	}
	defer n.Close()
	return n.State(), nil
}
