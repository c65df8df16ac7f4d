package door

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/ledger/internal/route"
	"github.com/railhead-pay/railhead/outbox"
)

// ErrOtherSetting is the error if a setting leads to another cell than the one that has this setting.
// Nothing is enqueued there, and what it does not have is not called unknown.
var ErrOtherSetting = route.ErrOtherSetting

// ErrOtherDirectory is the error if a cell is of another directory than the others that a process serves.
// Nothing is enqueued there.
var ErrOtherDirectory = route.ErrOtherDirectory

// ErrNoDirectory is the error if a cell is in no directory, and others that a process serves are in one.
var ErrNoDirectory = route.ErrNoDirectory

const (
	tokenAfter = 500 * time.Millisecond // in which a cell says whether it has a token, after another one has not
	homeWithin = 2 * time.Second        // of the map of the first cell, before that of another one is taken
	noteWithin = 2 * time.Second        // of counting uses: heartbeats of the process wait for it
	tokenSkip  = time.Second            // for which one that did not say is not waited for again
)

// served is a cell of a Routed.
type served struct {
	*Door
	setting, schema string
	away            atomic.Bool
	proven          atomic.Bool // its own map was read, and is that of this setting
	router          func() *route.Router[*served]
	home            func() *served // the one whose map is read first
	calls           chan struct{}  // one for each call of ask
	skip            atomic.Int64   // the time until which it is not asked for tokens, in ns of Unix time
}

// present returns an error if the cell is away.
func (c *served) present() error {
	if c.away.Load() {
		return fmt.Errorf("%w: setting %s", route.ErrAway, c.setting)
	}
	return nil
}

// CellMap is Door.CellMap, unless the cell is away.
func (c *served) CellMap(ctx context.Context) (*outbox.CellMap, error) {
	if err := c.present(); err != nil {
		return nil, err
	}
	return c.Door.CellMap(ctx)
}

// read reads the cell's own map, also while it is away. The error is ErrOtherSetting, ErrOtherDirectory or
// ErrNoDirectory if it does not belong to the others.
func (c *served) read(ctx context.Context) error {
	router := c.router()
	if home := c.home(); home != c && !router.Knows() {
		within := homeWithin
		if end, bounded := ctx.Deadline(); bounded {
			within = min(within, time.Until(end)/2)
		}
		asking, cancel := context.WithTimeout(ctx, within)
		_, _ = router.Read(asking, home, home.Door.CellMap) // if it can be reached, it says which directory is served
		cancel()
	}
	_, err := router.Read(ctx, c, c.Door.CellMap)
	if err == nil {
		err = router.Joined(c)
	}
	c.proven.Store(err == nil)
	return err
}

// prove reads the cell's own map if that was not done since the cell was away.
func (c *served) prove(ctx context.Context) error {
	if c.proven.Load() {
		return nil
	}
	return c.read(ctx)
}

// CellMap reads the map of cells, as this cell knows it.
func (d *Door) CellMap(ctx context.Context) (*outbox.CellMap, error) { return route.Read(ctx, d.db) }

// ask calls every cell at once; that of a cell which is away is an error.
func ask[T any](
	ctx context.Context, cells []*served, call func(ctx context.Context, cell *served) (T, error),
) iter.Seq[route.Said[*served, T]] {
	return route.Ask(ctx, cells, func(c *served) (chan struct{}, error) { return c.calls, c.present() }, call)
}

// refused reports whether a cell has refused the token of a call.
func refused(err error) bool {
	return errors.Is(err, outbox.ErrToken) || errors.Is(err, outbox.ErrForbidden)
}
