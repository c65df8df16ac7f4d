package store

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// PlaceTargets are the scan targets for a place of the feed: system_identifier, xact,
// outbox_id, attempt_no, attempt_id.
type PlaceTargets struct {
	System, Xact      pgtype.Text
	OutboxID, Attempt pgtype.UUID
	AttemptNo         pgtype.Int4
}

// Columns returns the targets in the order of the columns.
func (t *PlaceTargets) Columns() []any {
	return []any{&t.System, &t.Xact, &t.OutboxID, &t.AttemptNo, &t.Attempt}
}

// Value returns the place that was read, or the zero Place if the columns have none.
func (t *PlaceTargets) Value() outbox.Place {
	system, err := strconv.ParseUint(t.System.String, 10, 64)
	xact, noNumber := strconv.ParseUint(t.Xact.String, 10, 64)
	if err != nil || noNumber != nil {
		return outbox.Place{}
	}
	return outbox.Place{
		System: system, Xact: xact, OutboxID: payment.ID(t.OutboxID.Bytes),
		AttemptNo: int(t.AttemptNo.Int32), AttemptID: payment.ID(t.Attempt.Bytes),
	}
}

// PlaceArguments returns a place as arguments, in the order of PlaceTargets.
func PlaceArguments(p outbox.Place) []any {
	if p.IsZero() {
		return []any{nil, nil, nil, nil, nil}
	}
	return []any{
		strconv.FormatUint(p.System, 10), strconv.FormatUint(p.Xact, 10),
		pgtype.UUID{Bytes: p.OutboxID, Valid: !p.OutboxID.IsZero()}, int32(p.AttemptNo),
		pgtype.UUID{Bytes: p.AttemptID, Valid: !p.AttemptID.IsZero()},
	}
}
