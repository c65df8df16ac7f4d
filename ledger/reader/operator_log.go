package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// LoggedAct is one row of the operator log: an act of an operator, or an automatic pause by
// a relayer.
type LoggedAct struct {
	ActID payment.ID `json:"act_id"`
	At    time.Time  `json:"at"`
	Actor string     `json:"actor"` // the login
	// Person is on whose behalf the login acted, by the login's own claim; empty: it names none.
	Person   string          `json:"person,omitempty"`
	Act      string          `json:"act"`
	Subject  string          `json:"subject"` // an instruction, a rail, a participant, a setting
	OutboxID payment.ID      `json:"outbox_id,omitzero"`
	Reason   string          `json:"reason"`
	Detail   json.RawMessage `json:"detail"`
}

// By names the login, and the person on whose behalf it acted if it names one.
func (a LoggedAct) By() string { return byOf(a.Actor, a.Person) }

func byOf(actor, person string) string {
	if person == "" {
		return actor
	}
	return actor + " for " + person
}

// LogFilter selects acts of the operator log; the zero value selects all.
type LogFilter struct {
	Actor    string
	Person   string
	Act      string // one of LoggedKinds, in any case; any other is refused (outbox.ErrUnanswerable)
	Subject  string
	OutboxID payment.ID
	// Since is how far back to read, by the database clock; 0: to the beginning.
	Since time.Duration
	// Before is an act; only older ones are read. Zero: all.
	Before payment.ID
	// Limit is the maximum of acts, the newest; 0 is 100, at most 10,000.
	Limit int
}

// The bounds of one read of the operator log.
const (
	logLimitDefault = 100
	logLimitMax     = 10_000
)

// OperatorLog reads the newest acts, the oldest of them first. It reports whether the limit
// left out older ones.
func (r *Reader) OperatorLog(ctx context.Context, filter LogFilter) (acts []LoggedAct, cutShort bool, err error) {
	if filter.Limit == 0 {
		filter.Limit = logLimitDefault
	}
	if filter.Limit < 0 || filter.Limit > logLimitMax || filter.Since < 0 {
		return nil, false, fmt.Errorf("%w: limit is %d and since %s, must be 1 to %d and not negative",
			outbox.ErrUnanswerable, filter.Limit, filter.Since, logLimitMax)
	}
	if filter.Act, err = kindOf(filter.Act); err != nil {
		return nil, false, err
	}
	var from payment.ID
	if filter.Since > 0 {
		now, err := r.Now(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("reading the operator log: %w", err)
		}
		from = payment.FloorID(now.Add(-filter.Since))
	}
	acts, err = r.logged(ctx, filter, from, filter.Limit+1)
	if err != nil {
		return nil, false, err
	}
	if cutShort = len(acts) > filter.Limit; cutShort {
		acts = acts[1:]
	}
	return acts, cutShort, nil
}

func (r *Reader) logged(ctx context.Context, filter LogFilter, from payment.ID, limit int) ([]LoggedAct, error) {
	var acts []LoggedAct
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["operator_log"], pgtype.UUID{Bytes: from, Valid: true}, store.Text(filter.Actor),
			store.Text(filter.Act), store.Text(filter.Subject), store.UUID(filter.OutboxID), store.Text(filter.Person),
			store.UUID(filter.Before), limit).
			Query(store.Collect(&acts, scanLoggedAct))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the operator log: %w", err)
	}
	slices.Reverse(acts)
	return acts, nil
}

func scanLoggedAct(row pgx.CollectableRow) (LoggedAct, error) {
	var id, outboxID pgtype.UUID
	var detail string
	var a LoggedAct
	err := row.Scan(&id, &a.At, &a.Actor, &a.Person, &a.Act, &a.Subject, &outboxID, &a.Reason, &detail)
	a.ActID, a.OutboxID, a.Detail = payment.ID(id.Bytes), payment.ID(outboxID.Bytes), json.RawMessage(detail)
	return a, err
}
