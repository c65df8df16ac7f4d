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
// Nothing is looked for there.
var ErrOtherSetting = errors.New("a setting leads to another cell")

// ErrOtherDirectory is the error if a cell is of another directory than the others that a process serves.
// Nothing is enqueued there.
var ErrOtherDirectory = route.ErrOtherDirectory

// errAway: the process has found that a cell is unavailable.
var errAway = errors.New("a cell is unavailable")

// askWithin bounds a call to a cell whose caller has no deadline.
const askWithin = 10 * time.Second

const (
	callsMost  = 64                     // calls of one cell by ask, those that no caller waits for included
	tokenAfter = 500 * time.Millisecond // in which a cell says whether it has a token, after another one has not
	noteWithin = 2 * time.Second        // of counting uses: heartbeats of the process wait for it
	tokenSkip  = time.Second            // for which one that did not say is not waited for again
)

// served is a cell of a Routed.
type served struct {
	*Door
	setting, schema string
	away            atomic.Bool
	proven          atomic.Bool // its own map was read, and is that of this setting
	take            func(*outbox.CellMap) error
	calls           chan struct{} // one for each call of ask
	skip            atomic.Int64  // the time until which it is not asked for tokens, in ns of Unix time
}

// present returns an error if the cell is away.
func (c *served) present() error {
	if c.away.Load() {
		return fmt.Errorf("%w: setting %s", errAway, c.setting)
	}
	return nil
}

// CellMap is Door.CellMap, unless the cell is away.
func (c *served) CellMap(ctx context.Context) (*outbox.CellMap, error) {
	if err := c.present(); err != nil {
		return nil, err
	}
	return c.read(ctx)
}

// read reads the cell's own map. The error is ErrOtherSetting if that says that the cell has another
// setting or schema, or that these are those of another cell; where no bucket was given to either, it
// does not say it. The error is ErrOtherDirectory if it contradicts the maps of other cells.
func (c *served) read(ctx context.Context) (*outbox.CellMap, error) {
	m, err := c.Door.CellMap(ctx)
	if err != nil {
		return nil, err
	}
	for _, of := range m {
		if of.Version > 0 && of.Here != (of.Setting == c.setting && of.Schema == c.schema) {
			err = fmt.Errorf("%w: the map there says that cell %s, with setting %s and schema %s, is %s one, for setting %s "+
				"and schema %s", ErrOtherSetting, of.Cell, of.Setting, of.Schema,
				map[bool]string{true: "this", false: "another"}[of.Here], c.setting, c.schema)
			break
		}
	}
	if err == nil {
		err = c.take(m)
	}
	c.proven.Store(err == nil)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// prove reads the cell's own map if that was not done since the cell was away.
func (c *served) prove(ctx context.Context) error {
	if c.proven.Load() {
		return nil
	}
	_, err := c.read(ctx)
	return err
}

// CellMap reads the map of cells, as this cell knows it.
func (d *Door) CellMap(ctx context.Context) (*outbox.CellMap, error) { return route.Read(ctx, d.db) }

// said is the answer of one cell.
type said[T any] struct {
	cell  *served
	value T
	err   error
}

// ask calls every cell at once, and yields the answers as they come; that of a cell which is away is an
// error. A call that is not waited for ends by itself, within the deadline of ctx: to cut it off would
// cost its connection. At most callsMost are under way in a cell; further ones wait while their caller does.
func ask[T any](
	ctx context.Context, cells []*served, call func(ctx context.Context, cell *served) (T, error),
) iter.Seq[said[T]] {
	return func(yield func(said[T]) bool) {
		end, bounded := ctx.Deadline()
		if !bounded {
			end = time.Now().Add(askWithin)
		}
		answers, waits := make(chan said[T], len(cells)), make(map[*served]bool, len(cells))
		left := make(chan struct{})
		defer close(left)
		for _, cell := range cells {
			waits[cell] = true
			go func() {
				calling, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
				defer cancel()
				a := said[T]{cell: cell, err: cell.present()}
				if a.err == nil {
					a.err = cell.enter(calling, left)
				}
				if a.err == nil {
					defer func() { <-cell.calls }()
					a.value, a.err = call(calling, cell)
				}
				answers <- a
			}()
		}
		for len(waits) > 0 {
			var next said[T]
			select {
			case next = <-answers:
			case <-ctx.Done():
				for cell := range waits {
					next = said[T]{cell: cell, err: ctx.Err()}
				}
			}
			if !waits[next.cell] {
				continue // its time was over
			}
			if delete(waits, next.cell); !yield(next) {
				return
			}
		}
	}
}

// enter begins a call, unless its caller has left before there was room.
func (c *served) enter(ctx context.Context, left <-chan struct{}) error {
	select {
	case c.calls <- struct{}{}:
		return nil
	case <-left:
		return context.Canceled
	case <-ctx.Done():
		return fmt.Errorf("%w: setting %s: %d calls of it are under way: %w", errAway, c.setting, callsMost, ctx.Err())
	}
}

// refused reports whether a cell has refused the token of a call.
func refused(err error) bool {
	return errors.Is(err, outbox.ErrToken) || errors.Is(err, outbox.ErrForbidden)
}
