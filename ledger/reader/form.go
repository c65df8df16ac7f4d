package reader

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// FormLinesMax is the number of values from which a PayloadForm is cut off.
const FormLinesMax = 200

// FormLine is one value of a payload without the value itself.
type FormLine struct {
	Depth int    // 0 is the payload, at most 20
	Key   string // at most 81 characters of it; empty: it is an element of a list, or the payload
	Kind  string // object, list, text, number, true or false, null
}

// PayloadForm returns the form of the payload that the next send of an instruction would have, in the order
// of the document: at most FormLinesMax values, and one more if there are more. It is empty if no row has a
// payload. The payload itself is returned by operator.RevealPayload alone.
func (r *Reader) PayloadForm(ctx context.Context, outboxID payment.ID) ([]FormLine, error) {
	var all []FormLine
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["payload_form"], store.UUID(outboxID)).Query(store.Collect(&all,
			pgx.RowToStructByPos[FormLine]))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the form of the payload of %s: %w", outboxID, err)
	}
	return all, nil
}
