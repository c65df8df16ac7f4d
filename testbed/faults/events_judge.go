package faults

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
)

// outcomeRow is a row of the archive that is an event.
type outcomeRow struct {
	outboxID  string
	attemptNo int
	state     string
	event     string // its type
}

// rows returns the events of the archive by the names under which callers know them.
func (l *listener) rows(ctx context.Context, w *World) (all map[string]outcomeRow, err error) {
	err = pgx.BeginTxFunc(ctx, w.admin, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			all, err = l.rowsIn(ctx, w, tx)
			return err
		})
	return all, err
}

func (l *listener) rowsIn(ctx context.Context, w *World, tx pgx.Tx) (map[string]outcomeRow, error) {
	found, err := tx.Query(ctx, `
		SELECT f.attempt_id, f.outbox_id, f.attempt_no, f.state, f.event_type
		FROM `+cell+`.outcome_feed('0', '00000000-0000-0000-0000-000000000000', 0, 1000000, true) f
		WHERE f.event_type IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	all := make(map[string]outcomeRow)
	var attempts [][16]byte
	var attempt, outbox [16]byte
	var row outcomeRow
	_, err = pgx.ForEachRow(found, []any{&attempt, &outbox, &row.attemptNo, &row.state, &row.event}, func() error {
		row.outboxID = payment.ID(outbox).String()
		attempts = append(attempts, attempt)
		all[payment.Event{AttemptID: attempt, AttemptNo: row.attemptNo, Type: payment.EventType(row.event)}.Name()] = row
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Rows in these states are events without a doubt, and the feed has to contain them.
	var left int
	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM `+cell+`.payment_outbox_attempts a
		WHERE a.state IN ('DISPATCHED', 'ACCEPTED', 'PARKED', 'FAILED', 'CANCELLED', 'REPLAYED')
		  AND NOT a.attempt_id = ANY ($1)`, attempts).Scan(&left)
	if err == nil && left > 0 {
		w.Broken("the feed leaves out %d rows that are events", left)
	}
	return all, err
}

// caughtUp waits until the sink has noted every event that is in the archive now.
func (l *listener) caughtUp(ctx context.Context, w *World) error {
	rows, err := l.rows(ctx, w)
	if err != nil {
		return err
	}
	missing, asked := 0, time.Now()
	err = await.Until(ctx, 5*time.Minute, "every event to be delivered", func() (bool, error) {
		// A delivery that failed several times backs off for longer than a run lasts.
		if time.Since(asked) > 10*time.Second {
			asked = time.Now()
			if err := w.Operate(ctx, "events", "redeliver", "--endpoint", "sink", "--reason", "fault run"); err != nil {
				return false, err
			}
		}
		noted := make(map[string]bool)
		for _, d := range l.sink.noted() {
			noted[d.ID] = true
		}
		missing = 0
		for id := range rows {
			if !noted[id] {
				missing++
			}
		}
		return missing == 0, nil
	})
	if errors.Is(err, await.ErrNotInTime) {
		w.Broken("%d events are not delivered: %v", missing, err)
		return nil
	}
	return err
}

// judge waits until every event is delivered, stops the deliveries, and counts them.
func (l *listener) judge(ctx context.Context, w *World) error {
	if err := l.caughtUp(ctx, w); err != nil {
		return err
	}
	for _, p := range l.deliverers {
		if p.Alive() {
			if err := p.Stop(30 * time.Second); err != nil {
				w.Broken("%v", err)
			}
		} else if err := p.Died(); err != nil {
			w.Broken("%v", err)
		}
	}
	rows, err := l.rows(ctx, w)
	if err != nil {
		return err
	}
	l.told = count(rows, l.before, l.sink.noted())
	l.told.Losses = l.sink.losses
	return nil
}

// count compares the deliveries with the rows of the archive, and with those that a
// failover has forgotten.
func count(rows, before map[string]outcomeRow, journal []delivery) Told {
	told := Told{Rows: len(rows)}
	seen := make(map[string]bool)
	last := map[bool]map[string]int{true: {}, false: {}} // by whether it is in the archive, and by instruction
	for _, d := range journal {
		row, there := rows[d.ID]
		if !there {
			row, there = before[d.ID]
			if !there || row.outboxID != d.Data.OutboxID {
				told.Forged++
				continue
			}
		}
		if row.outboxID != d.Data.OutboxID || row.attemptNo != d.Data.AttemptNo || row.state != d.Data.State ||
			row.event != d.Type {
			told.Forged++
			continue
		}
		if seen[d.ID] {
			told.Repeated++
			continue
		}
		seen[d.ID] = true
		_, kept := rows[d.ID]
		if kept {
			told.Delivered++
		} else {
			told.Forgotten++
		}
		if d.Data.AttemptNo < last[kept][d.Data.OutboxID] {
			told.Reordered++
		}
		last[kept][d.Data.OutboxID] = max(last[kept][d.Data.OutboxID], d.Data.AttemptNo)
	}
	told.Missing = told.Rows - told.Delivered
	return told
}
