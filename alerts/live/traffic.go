package live

import (
	"context"
	"fmt"
	"time"
)

// enqueue enqueues n payments to a rail as an ingest team would, and returns the
// outbox ids. Expires is their time; 0: never.
func (w *world) enqueue(ctx context.Context, rail string, n int, expires time.Duration) ([]string, error) {
	ids := make([]string, 0, n)
	for range n {
		w.enqueued++
		name := fmt.Sprintf("live-%s-%05d", rail, w.enqueued)
		var id string
		err := w.ingest.QueryRow(ctx, `SELECT e.outbox_id FROM `+cell+`.enqueue_payment_outbox($1, $2, $1, $3,
		  '{"amount": "10.50", "currency": "EUR", "debtor": {"account": "d"}, "creditor": {"account": "c"}}',
		  expires_at => CASE WHEN $4::bigint > 0 THEN now() + $4::bigint * interval '1 millisecond' END) e`,
			name, fmt.Sprintf("participant-%d", w.enqueued%20), rail, expires.Milliseconds()).Scan(&id)
		if err != nil {
			return nil, fmt.Errorf("enqueueing: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// flow enqueues n payments a second to a rail in the background until stop is
// called. It ends by itself with the context; its own errors end it too, and stop
// returns them.
func (w *world) flow(ctx context.Context, rail string, n int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(n))
		defer tick.Stop()
		for number := 0; ; number++ {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			_, err := w.ingest.Exec(ctx, `SELECT `+cell+`.enqueue_payment_outbox($1, $2, $1, $3,
			  '{"amount": "1.00", "currency": "EUR", "debtor": {"account": "d"}, "creditor": {"account": "c"}}')`,
				fmt.Sprintf("flow-%s-%d-%06d", rail, time.Now().UnixNano(), number), fmt.Sprintf("flow-%d", number%20), rail)
			if err != nil && ctx.Err() == nil {
				ended <- fmt.Errorf("the flow to %s: %w", rail, err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-ended
	}
}
