package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/route"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// CellMap reads the map of cells, as this cell knows it.
func (i *Ingest) CellMap(ctx context.Context) (*outbox.CellMap, error) { return route.Read(ctx, i.db) }

// Routed is an Ingest for each of several cells, over which participants are spread. A cell that
// is away stops its own participants alone. It is safe for concurrent use.
type Routed struct {
	home   *Ingest
	router *route.Router[*Ingest] // nil: there are no other cells
	mu     sync.Mutex
	calls  map[*Ingest]chan struct{} // one for each call of ask
}

// OpenRouted connects lazily to the cell of config, and to others by the names of their settings,
// each with a connection string; config has what else they have in common. Without settings it
// is the one Ingest, and no map is read.
func OpenRouted(ctx context.Context, config ledger.Config, settings map[string]string) (*Routed, error) {
	home, err := Open(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &Routed{home: home, calls: map[*Ingest]chan struct{}{}}
	if len(settings) > 0 {
		home.db.Prefer(route.Statements)
		names := slices.Sorted(maps.Keys(settings))
		homeSetting := ""
		for _, name := range names {
			if settings[name] == config.URL {
				homeSetting = name
				break
			}
		}
		r.router = route.New(home, homeSetting, config.Cell, names,
			func(setting, schema string) (*Ingest, error) {
				other := config
				other.URL, other.Cell = settings[setting], schema
				cell, err := Open(context.WithoutCancel(ctx), other)
				if err == nil {
					cell.db.Prefer(route.Statements)
					r.router.Hold(cell.db, setting, schema)
				}
				return cell, err
			})
		r.router.Hold(home.db, homeSetting, config.Cell)
	}
	return r, nil
}

// Close ends every connection.
func (r *Routed) Close() {
	if r.router == nil {
		r.home.Close()
		return
	}
	r.router.Close()
}

// Setting returns the setting of a participant's cell, by the map that was last read; empty: it
// is the cell that the Routed was opened with, and there are no others.
func (r *Routed) Setting(ctx context.Context, participantID string) (string, error) {
	if r.router == nil {
		return "", nil
	}
	return r.router.Setting(ctx, participantID)
}

// Enqueue is Ingest.Enqueue in the participant's cell.
func (r *Routed) Enqueue(ctx context.Context, in payment.Instruction) (receipt payment.Receipt, err error) {
	if r.router == nil {
		return r.home.Enqueue(ctx, in)
	}
	err = r.router.Do(ctx, in.ParticipantID, func(cell *Ingest) error {
		receipt, err = cell.Enqueue(ctx, in)
		return err
	})
	return receipt, err
}

// EnqueueTx is Ingest.EnqueueTx, in the cell of the caller's transaction. If that is not the
// participant's, the error is outbox.ErrOtherCell.
func (r *Routed) EnqueueTx(ctx context.Context, tx pgx.Tx, in payment.Instruction) (payment.Receipt, error) {
	if r.router == nil {
		return r.home.EnqueueTx(ctx, tx, in)
	}
	cell, err := r.router.Of(ctx, in.ParticipantID)
	if err == nil {
		err = r.router.Prove(ctx, cell)
	}
	if err != nil {
		return payment.Receipt{}, err
	}
	receipt, err := cell.EnqueueTx(ctx, tx, in)
	if errors.Is(err, outbox.ErrOtherCell) {
		r.router.Refused()
	}
	return receipt, err
}

// EnqueueBatch is Ingest.EnqueueBatch in a transaction of each cell. The instructions of a cell
// that is away have a fault of outbox.ErrOtherCell, those of one whose commit is not known one of
// outbox.ErrCommitUnknown, and the others are stored. After outbox.ErrCommitUnknown some may be stored.
func (r *Routed) EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	if r.router == nil {
		return r.home.EnqueueBatch(ctx, all)
	}
	return r.router.Batch(ctx, len(all), func(n int) string { return all[n].ParticipantID },
		func(ctx context.Context, cell *Ingest, items []int) ([]outbox.ReceiptOrFault, error) {
			some := make([]payment.Instruction, len(items))
			for n, item := range items {
				some[n] = all[item]
			}
			return cell.EnqueueBatch(ctx, some)
		})
}

// othersAfter is how long the answers of other cells are waited for after one that has the payment.
const othersAfter = 500 * time.Millisecond

// Status is Ingest.Status in whichever cell has the instruction. If a cell is away and no other
// has it, the error is that of the cell. If two have one of the key, it is outbox.ErrSeveralPayments;
// a cell that does not answer within othersAfter of one that has it is not waited for.
func (r *Routed) Status(ctx context.Context, key Key) (payment.Status, error) {
	_, status, err := r.find(ctx, key)
	return status, err
}

// find looks a key up in every cell at once. A key names no participant. What no cell has is not unknown before the
// maps were read again: another cell may have taken a bucket since. A cell that says payment.Elsewhere counts if no
// other one has it.
func (r *Routed) find(ctx context.Context, key Key) (*Ingest, payment.Status, error) {
	cells, err := r.all(ctx)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var found, other route.Said[*Ingest, payment.Status]
	for a := range ask(waiting, r, cells, func(ctx context.Context, cell *Ingest) (payment.Status, error) {
		return cell.Status(ctx, key)
	}) {
		switch {
		case a.Err == nil && a.Value.State == payment.Elsewhere:
			other = a
		case a.Err == nil && found.Cell != nil && a.Value.OutboxID != found.Value.OutboxID:
			return nil, payment.Status{}, several(key, found.Value, a.Value)
		case a.Err == nil:
			found = a
			defer time.AfterFunc(othersAfter, cancel).Stop()
		case !errors.Is(a.Err, outbox.ErrNotFound):
			err = errors.Join(err, a.Err)
		}
	}
	if found.Cell != nil {
		return found.Cell, found.Value, nil
	}
	if err == nil && other.Cell != nil {
		return other.Cell, other.Value, nil
	}
	if err == nil {
		err = r.fresh(ctx, cells)
	}
	if err == nil {
		err = fmt.Errorf("instruction %q with key %q: %w", key.InstructionID, key.IdempotencyKey, outbox.ErrNotFound)
	}
	return nil, payment.Status{}, err
}

func several(key Key, one, another payment.Status) error {
	return fmt.Errorf("instruction %q with key %q: %w: %s and %s", key.InstructionID, key.IdempotencyKey,
		outbox.ErrSeveralPayments, one.OutboxID, another.OutboxID)
}

// ask calls every cell at once.
func ask[T any](
	ctx context.Context, r *Routed, cells []*Ingest, call func(ctx context.Context, cell *Ingest) (T, error),
) iter.Seq[route.Said[*Ingest, T]] {
	return route.Ask(ctx, cells, func(cell *Ingest) (chan struct{}, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls[cell] == nil {
			r.calls[cell] = make(chan struct{}, route.CallsMost)
		}
		return r.calls[cell], nil
	}, func(ctx context.Context, cell *Ingest) (none T, err error) {
		if r.router != nil {
			if err = r.router.Prove(ctx, cell); err != nil {
				return none, err
			}
		}
		return call(ctx, cell)
	})
}

func (r *Routed) all(ctx context.Context) ([]*Ingest, error) {
	if r.router == nil {
		return []*Ingest{r.home}, nil
	}
	return r.router.All(ctx)
}

// fresh reads the maps of all cells, and returns an error if one has a bucket, or may have payments, that is not
// among those asked.
func (r *Routed) fresh(ctx context.Context, asked []*Ingest) error {
	if r.router == nil {
		return nil
	}
	if err := r.router.Fresh(ctx); err != nil {
		return err
	}
	cells, err := r.router.All(ctx)
	for _, cell := range cells {
		if err == nil && !slices.Contains(asked, cell) {
			err = errNewCell
		}
	}
	return err
}

// errNewCell: the map has named another cell while the others were asked. The next call asks it, too.
var errNewCell = errors.New("the map of cells has changed during the call: repeat it")

// Statuses is Ingest.Statuses over all cells. The error is that of a cell, if some key is in no
// other one.
func (r *Routed) Statuses(ctx context.Context, keys []Key) ([]*payment.Status, error) {
	cells, err := r.all(ctx)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make([]*payment.Status, len(keys))
	for a := range ask(waiting, r, cells, func(ctx context.Context, cell *Ingest) ([]*payment.Status, error) {
		return cell.Statuses(ctx, keys)
	}) {
		err = errors.Join(err, a.Err)
		for n, status := range a.Value {
			switch was := found[n]; {
			case status == nil || was != nil && status.State == payment.Elsewhere:
			case isOpen(was):
				found[n] = status
			case was.OutboxID != status.OutboxID:
				return nil, several(keys[n], *was, *status)
			}
		}
		if !slices.ContainsFunc(found, isOpen) {
			defer time.AfterFunc(othersAfter, cancel).Stop()
		}
	}
	if !slices.ContainsFunc(found, isOpen) {
		return found, nil
	}
	if err == nil && slices.Contains(found, nil) {
		err = r.fresh(ctx, cells)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// isOpen reports whether another cell may know more.
func isOpen(s *payment.Status) bool { return s == nil || s.State == payment.Elsewhere }

// Await is Ingest.Await in whichever cell has the instruction.
func (r *Routed) Await(ctx context.Context, key Key) (payment.Status, error) {
	cell, status, err := r.find(ctx, key)
	if err != nil || status.Rests() || status.State == payment.Elsewhere {
		return status, err
	}
	return cell.Await(ctx, key)
}
