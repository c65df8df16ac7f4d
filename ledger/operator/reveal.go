package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Revealed is the stored JSON of an instruction, which holds accounts and names.
type Revealed struct {
	// ActID is the row of the operator log by which it was revealed.
	ActID   payment.ID      `json:"act_id"`
	Payload json.RawMessage `json:"payload"`
	Headers json.RawMessage `json:"headers"`
}

// RevealPayload returns the payload of an instruction. It first appends a row to the operator log,
// and the database returns the payload only once that row is committed: a crash in between leaves
// the row alone, and so does an error that comes with an ActID. If no row of the instruction has a
// payload, the error is outbox.ErrNoPayload.
func (o *Operator) RevealPayload(ctx context.Context, outboxID payment.ID, reason string) (Revealed, error) {
	var act pgtype.UUID
	if err := o.act(ctx, "reveal_payload", &act, store.UUID(outboxID), reason); err != nil {
		return Revealed{}, fmt.Errorf("revealing the payload of %s: %w", outboxID, err)
	}
	var payload, headers string
	err := o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["revealed_payload"], act).Scan(&payload, &headers)
	})
	if err != nil {
		err = fmt.Errorf("reading the payload of %s: %w", outboxID, store.Refusal(err))
		return Revealed{ActID: payment.ID(act.Bytes)}, err
	}
	return Revealed{
		ActID: payment.ID(act.Bytes), Payload: json.RawMessage(payload), Headers: json.RawMessage(headers),
	}, nil
}
