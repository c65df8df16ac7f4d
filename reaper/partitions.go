package reaper

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// partitionsAgain is the time until partitions are tried again that another session has kept from being created.
const partitionsAgain = time.Minute

// keepPartitions creates the partitions for the months ahead. A session that reads the archive for long, such as a
// dump, keeps them from being created, and fails no turn: each try holds up claims, so the next one is a minute later,
// and an alert fires long before a month is missing.
func (r *Reaper) keepPartitions(ctx context.Context, result *Result) error {
	if !r.partsNext.IsZero() && time.Now().Before(r.partsNext) {
		return nil
	}
	made, before, err := r.store.EnsurePartitions(ctx, r.config.MonthsAhead)
	held := errors.Is(err, outbox.ErrLockTimeout)
	if err != nil && !held {
		return err
	}
	if _, err := r.store.ForgetHeartbeats(ctx, r.config.ForgetAfter); err != nil {
		return err
	}
	r.partsNext, result.Partitions = time.Now().Add(r.config.PartitionsEvery), made
	if held {
		r.partsNext = time.Now().Add(min(partitionsAgain, r.config.PartitionsEvery))
		if !r.partsHeld {
			r.log.WarnContext(ctx, "no partition can be created while another session has the archive locked, as a dump, a "+
				"report or another reaper does: it is tried again every minute", "error", err)
		}
	}
	r.partsHeld = held
	if !before.IsZero() {
		r.log.ErrorContext(ctx, "the database's clock is before the oldest month of the archive: no earlier partition is "+
			"created, and rows of that time go to the DEFAULT partition", "oldest", before.UTC().Format("2006-01"))
	}
	for _, name := range made {
		r.log.InfoContext(ctx, "partition created", "partition", name)
	}
	return nil
}
