// Package events is the ledger of the service that delivers events to callers' endpoints,
// as a member of railhead_events.
package events

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Events is the store of the service that delivers events to callers' endpoints, as a member
// of railhead_events. That role may execute functions that return events without content,
// and has no rights on tables.
type Events struct {
	db *store.DB
}

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Events, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Events{db: db}, nil
}

// Close ends every connection.
func (e *Events) Close() { e.db.Pool.Close() }

// Take takes or extends the lease of an endpoint for a worker, by at most 10 min. A new
// endpoint receives the events from now on, or from since on if that is not zero. If another
// worker has the lease, the result names it.
func (e *Events) Take(
	ctx context.Context, endpoint, worker string, lease time.Duration, since time.Time,
) (outbox.EndpointLease, error) {
	taken := outbox.EndpointLease{Endpoint: endpoint, Worker: worker}
	var epoch pgtype.Int8
	var held, reason pgtype.Text
	var paused pgtype.Timestamptz
	from := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_take"], endpoint, worker, lease.Milliseconds(), from).
		Scan(&epoch, &held, &paused, &reason)
	if err != nil {
		return outbox.EndpointLease{}, fmt.Errorf("taking endpoint %s: %w", store.Bound(endpoint, 64), store.Refusal(err))
	}
	taken.Epoch, taken.PausedAt, taken.PauseReason = epoch.Int64, store.OrZero(paused), reason.String
	if !epoch.Valid {
		taken.HeldBy = held.String
	}
	return taken, nil
}

// Due returns the events to deliver: retries of at most retries instructions, and the events
// in the next places of the feed, at most 2,000. The error is outbox.ErrNotHeld if this
// worker no longer has the lease.
func (e *Events) Due(
	ctx context.Context, lease outbox.EndpointLease, participants []string, types []payment.EventType,
	retries, places int,
) (outbox.DueEvents, error) {
	rows, err := e.db.Pool.Query(ctx, e.db.SQL["events_due"], lease.Endpoint, lease.Worker, lease.Epoch,
		store.ArrayText(participants), store.ArrayText(types), retries, places)
	if err != nil {
		return outbox.DueEvents{}, fmt.Errorf("reading the events due to %s: %w", lease.Endpoint, store.Refusal(err))
	}
	var due outbox.DueEvents
	ended := false
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		end, err := scanDue(row, &due)
		ended = ended || end
		return struct{}{}, err
	})
	if err == nil && !ended {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return outbox.DueEvents{}, fmt.Errorf("reading the events due to %s: %w", lease.Endpoint, store.Refusal(err))
	}
	return due, nil
}

// scanDue adds a row of event_deliveries, and reports whether it was the last.
func scanDue(row pgx.CollectableRow, due *outbox.DueEvents) (end bool, err error) {
	var kind string
	var at store.PlaceTargets
	var inPlace, wentBack, behind, unknown pgtype.Bool
	var tries, waiting, givenUp, number pgtype.Int4
	var oldest, created pgtype.Timestamptz
	var eventType, instruction, participant, state, rail, reference, railCode, code pgtype.Text
	var attempt, outboxID pgtype.UUID
	var sequence, notes pgtype.Int8
	err = row.Scan(&kind, &at.System, &at.Xact, &at.OutboxID, &at.AttemptNo, &at.Attempt, &inPlace, &wentBack,
		&behind, &tries, &waiting, &givenUp, &oldest, &notes, &eventType, &attempt, &outboxID, &instruction,
		&participant, &sequence, &number, &state, &created, &rail, &reference, &railCode, &code, &unknown)
	if err != nil {
		return false, err
	}
	switch kind {
	case "FORGOTTEN":
		key := payment.EventKey{OutboxID: payment.ID(outboxID.Bytes), AttemptNo: int(number.Int32)}
		due.Forgotten = append(due.Forgotten, key)
		return false, nil
	case "END":
		due.Place, due.More, due.WentBack = at.Value(), !inPlace.Bool, wentBack.Bool
		due.Notes = notes.Int64
		due.Waiting, due.GivenUp, due.OldestWaiting = int(waiting.Int32), int(givenUp.Int32), store.OrZero(oldest)
		return true, nil
	}
	due.Events = append(due.Events, outbox.DueEvent{
		Event: payment.Event{
			AttemptID: payment.ID(attempt.Bytes), Type: payment.EventType(eventType.String),
			OutboxID: payment.ID(outboxID.Bytes), InstructionID: instruction.String,
			ParticipantID: participant.String, SequenceID: sequence.Int64, AttemptNo: int(number.Int32),
			State: payment.State(state.String), CreatedAt: store.OrZero(created),
			RailType: rail.String, RailReference: reference.String, RailCode: railCode.String,
			ErrorCode: code.String, OutcomeUnknown: unknown.Bool,
		},
		Retry: kind == "RETRY", Tries: int(tries.Int32), Behind: behind.Bool, At: at.Value(), Last: inPlace.Bool,
	})
	return false, nil
}

// Note records which events were delivered and which wait, and extends the lease by within.
// The error is outbox.ErrNotHeld if nothing was recorded.
func (e *Events) Note(
	ctx context.Context, lease outbox.EndpointLease, within time.Duration, note outbox.DeliveryNote,
) error {
	ids := func(n int) []pgtype.UUID { return make([]pgtype.UUID, 0, n) }
	doneIDs, doneNumbers := ids(len(note.Done)), make([]int32, 0, len(note.Done))
	for _, done := range note.Done {
		doneIDs = append(doneIDs, pgtype.UUID{Bytes: done.OutboxID, Valid: true})
		doneNumbers = append(doneNumbers, int32(done.AttemptNo))
	}
	n := len(note.Waiting)
	outboxes, attempts := ids(n), ids(n)
	numbers, tries, waits := make([]int32, 0, n), make([]int32, 0, n), make([]pgtype.Int8, 0, n)
	types, statuses, created := make([]string, 0, n), make([]string, 0, n), make([]time.Time, 0, n)
	for _, w := range note.Waiting {
		outboxes = append(outboxes, pgtype.UUID{Bytes: w.OutboxID, Valid: true})
		attempts = append(attempts, pgtype.UUID{Bytes: w.AttemptID, Valid: true})
		numbers, tries = append(numbers, int32(w.AttemptNo)), append(tries, int32(w.Tries))
		waits = append(waits, pgtype.Int8{Int64: w.Wait.Milliseconds(), Valid: !w.GivenUp})
		types, statuses = append(types, string(w.Type)), append(statuses, store.Bound(w.Status, 200))
		created = append(created, w.CreatedAt)
	}
	arguments := []any{lease.Endpoint, lease.Worker, lease.Epoch, within.Milliseconds()}
	arguments = append(arguments, store.PlaceArguments(note.Place)...)
	arguments = append(arguments, doneIDs, doneNumbers, outboxes, numbers, attempts, types, created, tries, waits,
		statuses, note.Taken, note.Again, note.Notes)
	var noted bool
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_note"], arguments...).Scan(&noted)
	if err == nil && !noted {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("recording deliveries to %s: %w", lease.Endpoint, store.Refusal(err))
	}
	return nil
}

// Pause stops deliveries to an endpoint until an operator resumes them, and logs the
// reason. The error is outbox.ErrNotHeld if this worker no longer has the lease.
func (e *Events) Pause(ctx context.Context, lease outbox.EndpointLease, reason string) error {
	var paused bool
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_pause"], lease.Endpoint, lease.Worker, lease.Epoch, reason).
		Scan(&paused)
	if err == nil && !paused {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("pausing endpoint %s: %w", lease.Endpoint, store.Refusal(err))
	}
	return nil
}

// Heartbeat is Executor.Heartbeat, for heartbeats of kind "events" only, without a memory of
// the server.
func (e *Events) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return e.db.BeatWithoutMemory(ctx, "events_heartbeat", beat)
}
