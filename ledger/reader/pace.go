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

// Pace is how many payments were dispatched lately, and how long they took. Those that an operator
// ended by evidence are left out.
type Pace struct {
	Now time.Time // database clock
	// Since is when the counts begin: PaceWindow before Now, or later if there were more rows than are
	// read.
	Since      time.Time
	Dispatched int64 // since Since
	LastMinute int64 // of them, in the last minute before Now

	// The percentiles of the time from the enqueue, or from not_before, to the row DISPATCHED, of the
	// Measured payments that were dispatched last.
	Measured      int64
	P50, P95, P99 time.Duration
}

// The bounds of a Pace.
const (
	PaceWindow     = time.Hour
	paceRows       = 5_000 // rows of the archive that are read
	paceMeasureMax = 1_000
)

// Pace reads how many payments were dispatched lately, from the newest rows of the archive, of which it
// reads a bounded number by their index.
func (r *Reader) Pace(ctx context.Context) (Pace, error) {
	var p Pace
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["pace_settings"])
		batch.Queue(r.db.SQL["pace"], PaceWindow.Milliseconds(), paceRows, paceMeasureMax, payment.CodeResolved).
			QueryRow(func(row pgx.Row) error { return scanPace(row, &p) })
	})
	if err != nil {
		return Pace{}, fmt.Errorf("reading the pace: %w", err)
	}
	return p, nil
}

func scanPace(row pgx.Row, p *Pace) error {
	var cutShort bool
	var since pgtype.Timestamptz
	var millis []int64
	if err := row.Scan(&p.Now, &cutShort, &since, &p.Dispatched, &p.LastMinute, &p.Measured, &millis); err != nil {
		return err
	}
	if p.Since = p.Now.Add(-PaceWindow); cutShort {
		p.Since = store.OrZero(since)
	}
	if len(millis) == 3 {
		for n, into := range []*time.Duration{&p.P50, &p.P95, &p.P99} {
			*into = time.Duration(millis[n]) * time.Millisecond
		}
	}
	return nil
}

// PerSecond returns the payments that were dispatched per second in the last minute, and since Since. If
// Since is in the last minute, both are the same.
func (p Pace) PerSecond() (lastMinute, all float64) {
	span := p.Now.Sub(p.Since)
	if span <= 0 {
		return 0, 0
	}
	all = float64(p.Dispatched) / span.Seconds()
	return float64(p.LastMinute) / min(span, time.Minute).Seconds(), all
}
