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
// of railhead_events. It may execute functions that give events without content, and
// reaches no table.
type Events struct {
	db *store.DB
}

// Open connects lazily: it succeeds while the server is away.
func Open(ctx context.Context, config ledger.Config) (*Events, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Events{db: db}, nil
}

// Close ends every connection.
func (e *Events) Close() { e.db.Pool.Close() }

// Take takes an endpoint for a worker for so long (to 10 min), or keeps it. One that is not
// known yet is told of what happens from now on, or from since on where that is not zero.
// Where another worker has it, the lease says which.
func (e *Events) Take(ctx context.Context, endpoint, worker string, lease time.Duration, since time.Time) (outbox.EndpointLease, error) {
	taken := outbox.EndpointLease{Endpoint: endpoint, Worker: worker}
	var epoch pgtype.Int8
	var held, reason pgtype.Text
	var paused pgtype.Timestamptz
	from := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_take"], endpoint, worker, lease.Milliseconds(), from).Scan(&epoch, &held, &paused, &reason)
	if err != nil {
		return outbox.EndpointLease{}, fmt.Errorf("taking endpoint %s: %w", store.Bound(endpoint, 64), store.Refusal(err))
	}
	taken.Epoch, taken.PausedAt, taken.PauseReason = epoch.Int64, store.OrZero(paused), reason.String
	if !epoch.Valid {
		taken.HeldBy = held.String
	}
	return taken, nil
}

// Due gives what is to be delivered: what waits to be tried again, of at most so many
// instructions, and what is in so many places of the feed (to 2,000).
// outbox.ErrNotHeld: the endpoint is not this worker's any more.
func (e *Events) Due(ctx context.Context, lease outbox.EndpointLease, participants []string, types []payment.EventType, retries, places int) (outbox.DueEvents, error) {
	rows, err := e.db.Pool.Query(ctx, e.db.SQL["events_due"], lease.Endpoint, lease.Worker, lease.Epoch, store.ArrayText(participants), store.ArrayText(types), retries, places)
	if err != nil {
		return outbox.DueEvents{}, fmt.Errorf("asking what is due to %s: %w", lease.Endpoint, store.Refusal(err))
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
		return outbox.DueEvents{}, fmt.Errorf("asking what is due to %s: %w", lease.Endpoint, store.Refusal(err))
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
	err = row.Scan(&kind, &at.System, &at.Xact, &at.OutboxID, &at.AttemptNo, &at.Attempt, &inPlace, &wentBack, &behind, &tries, &waiting, &givenUp, &oldest, &notes,
		&eventType, &attempt, &outboxID, &instruction, &participant, &sequence, &number, &state, &created, &rail, &reference, &railCode, &code, &unknown)
	if err != nil {
		return false, err
	}
	switch kind {
	case "FORGOTTEN":
		due.Forgotten = append(due.Forgotten, payment.EventKey{OutboxID: payment.ID(outboxID.Bytes), AttemptNo: int(number.Int32)})
		return false, nil
	case "END":
		due.Place, due.More, due.WentBack = at.Value(), !inPlace.Bool, wentBack.Bool
		due.Notes = notes.Int64
		due.Waiting, due.GivenUp, due.OldestWaiting = int(waiting.Int32), int(givenUp.Int32), store.OrZero(oldest)
		return true, nil
	}
	due.Events = append(due.Events, outbox.DueEvent{
		Event: payment.Event{
			AttemptID: payment.ID(attempt.Bytes), Type: payment.EventType(eventType.String), OutboxID: payment.ID(outboxID.Bytes), InstructionID: instruction.String,
			ParticipantID: participant.String, SequenceID: sequence.Int64, AttemptNo: int(number.Int32), State: payment.State(state.String), CreatedAt: store.OrZero(created),
			RailType: rail.String, RailReference: reference.String, RailCode: railCode.String, ErrorCode: code.String, OutcomeUnknown: unknown.Bool,
		},
		Retry: kind == "RETRY", Tries: int(tries.Int32), Behind: behind.Bool, At: at.Value(), Last: inPlace.Bool,
	})
	return false, nil
}

// Note notes what was delivered and what waits; the lease goes on for so long.
// outbox.ErrNotHeld: nothing was noted.
func (e *Events) Note(ctx context.Context, lease outbox.EndpointLease, within time.Duration, note outbox.DeliveryNote) error {
	ids := func(n int) []pgtype.UUID { return make([]pgtype.UUID, 0, n) }
	doneIDs, doneNumbers := ids(len(note.Done)), make([]int32, 0, len(note.Done))
	for _, done := range note.Done {
		doneIDs, doneNumbers = append(doneIDs, pgtype.UUID{Bytes: done.OutboxID, Valid: true}), append(doneNumbers, int32(done.AttemptNo))
	}
	n := len(note.Waiting)
	outboxes, attempts := ids(n), ids(n)
	numbers, tries, waits := make([]int32, 0, n), make([]int32, 0, n), make([]pgtype.Int8, 0, n)
	types, statuses, created := make([]string, 0, n), make([]string, 0, n), make([]time.Time, 0, n)
	for _, w := range note.Waiting {
		outboxes, attempts = append(outboxes, pgtype.UUID{Bytes: w.OutboxID, Valid: true}), append(attempts, pgtype.UUID{Bytes: w.AttemptID, Valid: true})
		numbers, tries = append(numbers, int32(w.AttemptNo)), append(tries, int32(w.Tries))
		waits = append(waits, pgtype.Int8{Int64: w.Wait.Milliseconds(), Valid: !w.GivenUp})
		types, statuses, created = append(types, string(w.Type)), append(statuses, store.Bound(w.Status, 200)), append(created, w.CreatedAt)
	}
	arguments := append([]any{lease.Endpoint, lease.Worker, lease.Epoch, within.Milliseconds()}, store.PlaceArguments(note.Place)...)
	arguments = append(arguments, doneIDs, doneNumbers, outboxes, numbers, attempts, types, created, tries, waits, statuses, note.Taken, note.Again, note.Notes)
	var noted bool
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_note"], arguments...).Scan(&noted)
	if err == nil && !noted {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("noting deliveries to %s: %w", lease.Endpoint, store.Refusal(err))
	}
	return nil
}

// Pause ends deliveries to an endpoint until an operator has them begin again, and logs
// why. outbox.ErrNotHeld: it is not this worker's any more.
func (e *Events) Pause(ctx context.Context, lease outbox.EndpointLease, reason string) error {
	var paused bool
	err := e.db.Pool.QueryRow(ctx, e.db.SQL["events_pause"], lease.Endpoint, lease.Worker, lease.Epoch, reason).Scan(&paused)
	if err == nil && !paused {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("pausing endpoint %s: %w", lease.Endpoint, store.Refusal(err))
	}
	return nil
}

// Heartbeat is Executor.Heartbeat, for beats of kind "events" alone. It vouches for nothing.
func (e *Events) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return e.db.BeatWithoutMemory(ctx, "events_heartbeat", beat)
}
