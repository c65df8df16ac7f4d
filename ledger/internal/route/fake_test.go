package route

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/railhead-pay/railhead/outbox"
)

// fake is a cell whose map can hang, or come late, and which counts how often it was read.
type fake struct {
	name  string // of its setting; that of the cell is the same in lower case
	reads atomic.Int64

	mu   sync.Mutex
	own  *outbox.CellMap // nil: it is away
	hung bool
	late chan struct{} // the next reading waits for it, with the map as it was
}

func (c *fake) CellMap(ctx context.Context) (*outbox.CellMap, error) {
	c.reads.Add(1)
	c.mu.Lock()
	own, hung, late := c.own, c.hung, c.late
	c.late = nil
	c.mu.Unlock()
	switch {
	case hung:
		<-ctx.Done()
		return nil, ctx.Err()
	case late != nil:
		<-late
	}
	if own == nil {
		return nil, errors.New("away")
	}
	return seenBy(own, strings.ToLower(c.name)), nil
}

func (c *fake) set(own *outbox.CellMap, hung bool) {
	c.mu.Lock()
	c.own, c.hung = own, hung
	c.mu.Unlock()
}

func (c *fake) Close() {}

func placed(setting string, version int) outbox.BucketCell {
	return outbox.BucketCell{Cell: strings.ToLower(setting), Setting: setting, Schema: "railhead", Version: version}
}

func allOf(of outbox.BucketCell) *outbox.CellMap {
	m := new(outbox.CellMap)
	for b := range m {
		m[b] = of
	}
	return m
}

// halves is a map in which p1 is of EAST, p2 of WEST and p3 of NORTH.
func halves() *outbox.CellMap {
	m := allOf(placed("EAST", 1))
	m[outbox.BucketOf("p2")], m[outbox.BucketOf("p3")] = placed("WEST", 2), placed("NORTH", 2)
	return m
}

// seenBy is a map as a cell gives it.
func seenBy(m *outbox.CellMap, cell string) *outbox.CellMap {
	own := *m
	for b := range own {
		own[b].Here = own[b].Version > 0 && own[b].Cell == cell
	}
	return &own
}

// routerOf is a router of cells, the first of which is home.
func routerOf(cells ...*fake) *Router[*fake] {
	by, names := map[string]*fake{}, make([]string, len(cells))
	for n, c := range cells {
		names[n], by[c.name] = c.name, c
	}
	open := func(setting, _ string) (*fake, error) { return by[setting], nil }
	return New(cells[0], cells[0].name, "railhead", names, open)
}
