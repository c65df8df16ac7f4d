package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
	var other said[outbox.Tracked] // says that it is elsewhere
	var denied, failed error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) (outbox.Tracked, error) {
		found, err := c.Status(ctx, who, id)
		if errors.Is(err, outbox.ErrNotFound) {
			err = cmp.Or(c.prove(ctx), err)
		}
		return found, err
	}) {
		switch {
		case a.err == nil && a.value.State != payment.Elsewhere:
			return a.cell, a.value, nil
		case a.err == nil:
			other = a
		case refused(a.err):
			denied = errors.Join(denied, a.err)
		case !errors.Is(a.err, outbox.ErrNotFound):
			failed = errors.Join(failed, a.err)
		}
	}
	switch {
	case failed != nil:
		return nil, outbox.Tracked{}, failed
	case other.cell != nil:
		return other.cell, other.value, nil
	case denied != nil:
		return nil, outbox.Tracked{}, denied
	}
	if _, err := r.router.All(ctx); err != nil { // a cell that this process does not serve may have it
		return nil, outbox.Tracked{}, err
	}
	return nil, outbox.Tracked{}, fmt.Errorf("instruction %s: %w", id, outbox.ErrNotFound)
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

// Cancel is Door.Cancel in the cell that has the instruction.
func (r *Routed) Cancel(
	ctx context.Context, who outbox.Bearer, id payment.ID, reason string,
) (attemptNo int, err error) {
	cell, _, err := r.find(ctx, who, id)
	switch {
	case err == nil:
		return cell.Cancel(ctx, who, id, reason)
	case !errors.Is(err, outbox.ErrForbidden):
		return 0, err
	}
	// The token may cancel, and not read. No other cell than the one that has the instruction changes it.
	var denied, barred, failed error
	for _, cell := range r.cells {
		if err = cell.present(); err == nil {
			attemptNo, err = cell.Cancel(ctx, who, id, reason)
		}
		switch {
		case err == nil, errors.Is(err, outbox.ErrCommitUnknown):
			return attemptNo, err
		case refused(err):
			denied = errors.Join(denied, err)
		case errors.Is(err, outbox.ErrNotAllowed):
			barred = err
		case !errors.Is(err, outbox.ErrNotFound):
			failed = errors.Join(failed, err)
		}
	}
	if _, unserved := r.router.All(ctx); failed == nil {
		failed = unserved
	}
	return 0, cmp.Or(failed, barred, denied, err)
}

// List is Door.List over all cells. The participant's cell knows each of its instructions, and the cells
// in which these were enqueued know what became of them. It is an error if one is away.
func (r *Routed) List(ctx context.Context, who outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error) {
	home, err := r.router.Of(ctx, page.ParticipantID)
	if err != nil {
		return nil, err
	}
	found := map[payment.ID]outbox.Tracked{}
	var failed, denied error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) ([]outbox.Tracked, error) {
		return c.List(ctx, who, page)
	}) {
		switch {
		case a.err == nil:
			for _, each := range a.value {
				if _, there := found[each.OutboxID]; !there || each.State != payment.Elsewhere {
					found[each.OutboxID] = each
				}
			}
		case refused(a.err) && a.cell != home:
			denied = errors.Join(denied, a.err)
		default:
			failed = errors.Join(failed, a.err)
		}
	}
	if failed == nil && denied != nil {
		failed = r.stays(ctx, home, page.ParticipantID, denied)
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

// stays returns denied unless a cell says itself that it takes a participant: then no cell that has
// refused the token knows an instruction which this one does not.
func (r *Routed) stays(ctx context.Context, home *served, participantID string, denied error) error {
	m, err := home.CellMap(ctx)
	if err != nil {
		return err
	}
	if !m.Of(participantID).Here {
		return denied
	}
	return nil
}
