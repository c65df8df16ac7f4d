package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Delivery is how far the events of one instruction are delivered to one endpoint.
type Delivery struct {
	Endpoint string
	PausedAt time.Time // zero: the endpoint is not paused
	// LastNo is the number of the last row that may be an event, and PassedNo that of the last one up to
	// the endpoint's cursor; 0: none. Each event up to PassedNo was accepted, was discarded, was not for
	// the endpoint, is from before the endpoint was to begin, or waits.
	LastNo, PassedNo int
	Waiting          []WaitingEvent
}

// WaitingEvent is an event that an endpoint has not accepted.
type WaitingEvent struct {
	AttemptNo int
	Type      payment.EventType
	Tries     int       // that failed since the last redeliver; 0: none was recorded
	FailedAt  time.Time // of the last try that failed; zero: there was none
	NextAt    time.Time // of the next try; zero: an operator has to ask for it
	Status    string    // why the last delivery failed
}

// Deliveries returns how far the events of an instruction are delivered, for at most a hundred endpoints.
func (r *Reader) Deliveries(ctx context.Context, outboxID payment.ID) ([]Delivery, error) {
	var all []Delivery
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["payment_deliveries"], store.UUID(outboxID)).
			Query(store.Each(func(row pgx.CollectableRow) error { return scanDelivery(row, &all) }))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the deliveries of %s: %w", outboxID, err)
	}
	return all, nil
}

// scanDelivery adds a row to the endpoints; those of one follow each other.
func scanDelivery(row pgx.CollectableRow, all *[]Delivery) error {
	var endpoint string
	var paused, failed, next pgtype.Timestamptz
	var last, passed, number, tries pgtype.Int4
	var kind, status pgtype.Text
	if err := row.Scan(&endpoint, &paused, &last, &passed, &number, &kind, &tries, &failed, &next, &status); err != nil {
		return err
	}
	if n := len(*all); n == 0 || (*all)[n-1].Endpoint != endpoint {
		*all = append(*all, Delivery{
			Endpoint: endpoint, PausedAt: store.OrZero(paused), LastNo: int(last.Int32), PassedNo: int(passed.Int32),
		})
	}
	if number.Valid {
		of := &(*all)[len(*all)-1]
		of.Waiting = append(of.Waiting, WaitingEvent{
			AttemptNo: int(number.Int32), Type: payment.EventType(kind.String), Tries: int(tries.Int32),
			FailedAt: store.OrZero(failed), NextAt: store.OrZero(next), Status: status.String,
		})
	}
	return nil
}
