package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/ledger/internal/route"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Status is Door.Status in the cell that has the instruction. If no cell that was reached has it and one
// was not reached, or is not served, the error is that of the cell, and never outbox.ErrNotFound.
func (r *Routed) Status(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	_, found, err := r.find(ctx, who, id)
	return found, err
}

// find asks every cell for an instruction: an id names no participant. The cell that has the payment
// counts more than one that says payment.Elsewhere, and that more than one that refuses the token.
func (r *Routed) find(ctx context.Context, who outbox.Bearer, id payment.ID) (*served, outbox.Tracked, error) {
	var other route.Said[*served, outbox.Tracked] // says that it is elsewhere
	var denied, failed error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) (outbox.Tracked, error) {
		found, err := c.Status(ctx, who, id)
		if errors.Is(err, outbox.ErrNotFound) {
			err = cmp.Or(c.prove(ctx), err)
		}
		return found, err
	}) {
		switch {
		case a.Err == nil && a.Value.State != payment.Elsewhere:
			return a.Cell, a.Value, nil
		case a.Err == nil:
			other = a
		case refused(a.Err):
			denied = errors.Join(denied, a.Err)
		case !errors.Is(a.Err, outbox.ErrNotFound):
			failed = errors.Join(failed, a.Err)
		}
	}
	switch {
	case failed != nil:
		return nil, outbox.Tracked{}, failed
	case other.Cell != nil:
		return other.Cell, other.Value, nil
	case denied != nil:
		return nil, outbox.Tracked{}, denied
	}
	if err := r.served(ctx); err != nil {
		return nil, outbox.Tracked{}, err
	}
	return nil, outbox.Tracked{}, fmt.Errorf("instruction %s: %w", id, outbox.ErrNotFound)
}

// served reads the maps of all cells, and returns an error if one of them has a cell that the process does not
// serve: it may have what the others do not. The map that was read before may be older than a payment there.
func (r *Routed) served(ctx context.Context) error {
	err := r.router.Fresh(ctx)
	if err == nil {
		_, err = r.router.All(ctx)
	}
	return err
}

// Await is Door.Await in the cell that has the instruction.
func (r *Routed) Await(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	cell, last, err := r.find(ctx, who, id)
	if err != nil || last.Rests() || last.State == payment.Elsewhere {
		return last, err
	}
	return cell.Await(ctx, who, id)
}

// Attempts is Door.Attempts in the cell that has the instruction.
func (r *Routed) Attempts(
	ctx context.Context, who outbox.Bearer, id payment.ID, after, most int,
) ([]outbox.ArchiveRow, error) {
	cell, _, err := r.find(ctx, who, id)
	if err != nil {
		return nil, err
	}
	return cell.Attempts(ctx, who, id, after, most)
}

// Cancel is Door.Cancel in the cell that has the instruction. Every cell is asked to, because the token may not
// allow to look where it is: no other cell than that one changes it.
func (r *Routed) Cancel(
	ctx context.Context, who outbox.Bearer, id payment.ID, reason string,
) (found outbox.Tracked, replayed bool, err error) {
	type ended struct {
		found    outbox.Tracked
		replayed bool
	}
	var denied, barred, failed error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) (e ended, err error) {
		e.found, e.replayed, err = c.Cancel(ctx, who, id, reason)
		if errors.Is(err, outbox.ErrNotFound) {
			err = cmp.Or(c.prove(ctx), err)
		}
		return e, err
	}) {
		switch {
		case a.Err == nil:
			return a.Value.found, a.Value.replayed, nil
		case ctx.Err() != nil: // it may still be cancelled there
			//nolint:errorlint // a refusal that came late is no answer
			unknown := fmt.Errorf("%w: setting %s: %v", outbox.ErrCommitUnknown, a.Cell.setting, a.Err)
			failed = errors.Join(failed, unknown)
		case refused(a.Err):
			denied = errors.Join(denied, a.Err)
		case errors.Is(a.Err, outbox.ErrNotAllowed):
			barred = a.Err
		case !errors.Is(a.Err, outbox.ErrNotFound):
			failed = errors.Join(failed, a.Err)
		}
	}
	if err = cmp.Or(failed, barred, denied); err != nil {
		return outbox.Tracked{}, false, err
	}
	if err = r.served(ctx); err != nil {
		return outbox.Tracked{}, false, err
	}
	return outbox.Tracked{}, false, fmt.Errorf("instruction %s: %w", id, outbox.ErrNotFound)
}

// List is Door.List over all cells. The participant's cell knows each of its instructions, and the cells
// in which these were enqueued know what became of them. It is an error if one is away.
func (r *Routed) List(ctx context.Context, who outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error) {
	if err := r.served(ctx); err != nil {
		return nil, err
	}
	home, err := r.router.Of(ctx, page.ParticipantID)
	if err != nil {
		return nil, err
	}
	before := r.router.Own(home, page.ParticipantID)
	found := map[payment.ID]outbox.Tracked{}
	var failed, denied error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) ([]outbox.Tracked, error) {
		return c.List(ctx, who, page)
	}) {
		switch {
		case a.Err == nil:
			for _, each := range a.Value {
				if _, there := found[each.OutboxID]; !there || each.State != payment.Elsewhere {
					found[each.OutboxID] = each
				}
			}
		case refused(a.Err) && a.Cell != home:
			denied = errors.Join(denied, a.Err)
		default:
			failed = errors.Join(failed, a.Err)
		}
	}
	if failed == nil && denied != nil {
		failed = r.stayed(ctx, home, page.ParticipantID, before, denied)
	}
	if failed != nil {
		return nil, failed
	}
	all := make([]outbox.Tracked, 0, len(found))
	for _, each := range found {
		all = append(all, each)
	}
	// What a cell has left out has a higher number than all that it gave, if it gave page.Most.
	slices.SortFunc(all, func(a, b outbox.Tracked) int {
		return cmp.Or(cmp.Compare(a.SequenceID, b.SequenceID), slices.Compare(a.OutboxID[:], b.OutboxID[:]))
	})
	return all[:min(len(all), max(page.Most, 1), outbox.PageMax)], nil
}

// stayed returns denied unless a cell has said itself, before and after a list, that it takes a participant: then no
// cell that has refused the token knows an instruction which this one does not.
func (r *Routed) stayed(
	ctx context.Context, home *served, participantID string, before outbox.BucketCell, denied error,
) error {
	m, err := home.CellMap(ctx)
	if err != nil {
		return err
	}
	if after := m.Of(participantID); !before.Takes || !after.Takes || after.Version != before.Version {
		return denied
	}
	return nil
}
