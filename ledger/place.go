package ledger

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// placeTargets takes a place of the feed as statements return it: system_identifier, xact,
// outbox_id, attempt_no, attempt_id.
type placeTargets struct {
	system, xact      pgtype.Text
	outboxID, attempt pgtype.UUID
	attemptNo         pgtype.Int4
}

func (t *placeTargets) columns() []any {
	return []any{&t.system, &t.xact, &t.outboxID, &t.attemptNo, &t.attempt}
}

// value is zero where the server has no such place, or counts what no server does.
func (t *placeTargets) value() outbox.Place {
	system, err := strconv.ParseUint(t.system.String, 10, 64)
	xact, noNumber := strconv.ParseUint(t.xact.String, 10, 64)
	if err != nil || noNumber != nil {
		return outbox.Place{}
	}
	return outbox.Place{
		System: system, Xact: xact, OutboxID: payment.ID(t.outboxID.Bytes), AttemptNo: int(t.attemptNo.Int32), AttemptID: payment.ID(t.attempt.Bytes),
	}
}

// placeArguments gives a place to a statement, in the order of placeTargets.
func placeArguments(p outbox.Place) []any {
	if p.IsZero() {
		return []any{nil, nil, nil, nil, nil}
	}
	return []any{
		strconv.FormatUint(p.System, 10), strconv.FormatUint(p.Xact, 10),
		pgtype.UUID{Bytes: p.OutboxID, Valid: !p.OutboxID.IsZero()}, int32(p.AttemptNo), pgtype.UUID{Bytes: p.AttemptID, Valid: !p.AttemptID.IsZero()},
	}
}
