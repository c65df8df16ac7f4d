package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Events is the store of the service that delivers events to callers' endpoints, as a member
// of railhead_events. It may execute functions that give events without content, and
// reaches no table.
type Events struct {
	pool *pgxpool.Pool
	sql  statements
}

// OpenEvents connects lazily: it succeeds while the server is away.
func OpenEvents(ctx context.Context, config Config) (*Events, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Events{pool: pool, sql: loaded}, nil
}

// Close ends every connection.
func (e *Events) Close() { e.pool.Close() }

// Take takes an endpoint for a worker for so long (to 10 min), or keeps it. One that is not
// known yet is told of what happens from now on, or from since on where that is not zero.
// Where another worker has it, the lease says which.
func (e *Events) Take(ctx context.Context, endpoint, worker string, lease time.Duration, since time.Time) (outbox.EndpointLease, error) {
	taken := outbox.EndpointLease{Endpoint: endpoint, Worker: worker}
	var epoch pgtype.Int8
	var held, reason pgtype.Text
	var paused pgtype.Timestamptz
	from := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	err := e.pool.QueryRow(ctx, e.sql["events_take"], endpoint, worker, lease.Milliseconds(), from).Scan(&epoch, &held, &paused, &reason)
	if err != nil {
		return outbox.EndpointLease{}, fmt.Errorf("taking endpoint %s: %w", bound(endpoint, 64), refusal(err))
	}
	taken.Epoch, taken.PausedAt, taken.PauseReason = epoch.Int64, orZero(paused), reason.String
	if !epoch.Valid {
		taken.HeldBy = held.String
	}
	return taken, nil
}

// Due gives what is to be delivered: what waits to be tried again, of at most so many
// instructions, and what is in so many places of the feed (to 2,000).
// outbox.ErrNotHeld: the endpoint is not this worker's any more.
func (e *Events) Due(ctx context.Context, lease outbox.EndpointLease, participants []string, types []payment.EventType, retries, places int) (outbox.DueEvents, error) {
	rows, err := e.pool.Query(ctx, e.sql["events_due"], lease.Endpoint, lease.Worker, lease.Epoch, arrayText(participants), arrayText(types), retries, places)
	if err != nil {
		return outbox.DueEvents{}, fmt.Errorf("asking what is due to %s: %w", lease.Endpoint, refusal(err))
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
		return outbox.DueEvents{}, fmt.Errorf("asking what is due to %s: %w", lease.Endpoint, refusal(err))
	}
	return due, nil
}

// scanDue adds a row of event_deliveries, and reports whether it was the last.
func scanDue(row pgx.CollectableRow, due *outbox.DueEvents) (end bool, err error) {
	var kind string
	var at placeTargets
	var inPlace, wentBack, behind, unknown pgtype.Bool
	var tries, waiting, givenUp, number pgtype.Int4
	var oldest, created pgtype.Timestamptz
	var eventType, instruction, participant, state, rail, reference, railCode, code pgtype.Text
	var attempt, outboxID pgtype.UUID
	var sequence, notes pgtype.Int8
	err = row.Scan(&kind, &at.system, &at.xact, &at.outboxID, &at.attemptNo, &at.attempt, &inPlace, &wentBack, &behind, &tries, &waiting, &givenUp, &oldest, &notes,
		&eventType, &attempt, &outboxID, &instruction, &participant, &sequence, &number, &state, &created, &rail, &reference, &railCode, &code, &unknown)
	if err != nil {
		return false, err
	}
	switch kind {
	case "FORGOTTEN":
		due.Forgotten = append(due.Forgotten, payment.EventKey{OutboxID: payment.ID(outboxID.Bytes), AttemptNo: int(number.Int32)})
		return false, nil
	case "END":
		due.Place, due.More, due.WentBack = at.value(), !inPlace.Bool, wentBack.Bool
		due.Notes = notes.Int64
		due.Waiting, due.GivenUp, due.OldestWaiting = int(waiting.Int32), int(givenUp.Int32), orZero(oldest)
		return true, nil
	}
	due.Events = append(due.Events, outbox.DueEvent{
		Event: payment.Event{
			AttemptID: payment.ID(attempt.Bytes), Type: payment.EventType(eventType.String), OutboxID: payment.ID(outboxID.Bytes), InstructionID: instruction.String,
			ParticipantID: participant.String, SequenceID: sequence.Int64, AttemptNo: int(number.Int32), State: payment.State(state.String), CreatedAt: orZero(created),
			RailType: rail.String, RailReference: reference.String, RailCode: railCode.String, ErrorCode: code.String, OutcomeUnknown: unknown.Bool,
		},
		Retry: kind == "RETRY", Tries: int(tries.Int32), Behind: behind.Bool, At: at.value(), Last: inPlace.Bool,
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
		types, statuses, created = append(types, string(w.Type)), append(statuses, bound(w.Status, 200)), append(created, w.CreatedAt)
	}
	arguments := append([]any{lease.Endpoint, lease.Worker, lease.Epoch, within.Milliseconds()}, placeArguments(note.Place)...)
	arguments = append(arguments, doneIDs, doneNumbers, outboxes, numbers, attempts, types, created, tries, waits, statuses, note.Taken, note.Again, note.Notes)
	var noted bool
	err := e.pool.QueryRow(ctx, e.sql["events_note"], arguments...).Scan(&noted)
	if err == nil && !noted {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("noting deliveries to %s: %w", lease.Endpoint, refusal(err))
	}
	return nil
}

// Pause ends deliveries to an endpoint until an operator has them begin again, and logs
// why. outbox.ErrNotHeld: it is not this worker's any more.
func (e *Events) Pause(ctx context.Context, lease outbox.EndpointLease, reason string) error {
	var paused bool
	err := e.pool.QueryRow(ctx, e.sql["events_pause"], lease.Endpoint, lease.Worker, lease.Epoch, reason).Scan(&paused)
	if err == nil && !paused {
		err = outbox.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("pausing endpoint %s: %w", lease.Endpoint, refusal(err))
	}
	return nil
}

// Heartbeat is Executor.Heartbeat, for beats of kind "events" alone. It vouches for nothing.
func (e *Events) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return beatWithoutMemory(ctx, e.pool, e.sql["events_heartbeat"], beat)
}

// Endpoints lists the endpoints that events are delivered to.
func (r *Reader) Endpoints(ctx context.Context) ([]outbox.ListedEndpoint, error) {
	var all []outbox.ListedEndpoint
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.sql["event_endpoints"]).Query(collect(&all, scanEndpoint))
	})
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	return all, nil
}

func scanEndpoint(row pgx.CollectableRow) (outbox.ListedEndpoint, error) {
	var e outbox.ListedEndpoint
	var paused, lease, delivered, read, oldest pgtype.Timestamptz
	var reason, status pgtype.Text
	err := row.Scan(&e.Endpoint, &e.CreatedAt, &paused, &reason, &e.Worker, &lease, &delivered, &read, &e.Waiting, &e.GivenUp, &oldest, &status)
	e.PausedAt, e.LeaseUntil, e.DeliveredAt, e.ReadUntil, e.OldestWaiting = orZero(paused), orZero(lease), orZero(delivered), orZero(read), orZero(oldest)
	e.PauseReason, e.LastStatus = reason.String, status.String
	return e, err
}

// HeldEvents says whether rows of the archive are held from callers, and by what.
type HeldEvents struct {
	Since       time.Time `json:"since,omitzero"`          // when the first one was written; zero: none is
	PID         int       `json:"pid,omitempty"`           // of the session whose transaction is the oldest
	Login       string    `json:"login,omitempty"`         // of that session
	Database    string    `json:"database,omitempty"`      // that it is in
	Application string    `json:"application,omitempty"`   // its application_name
	Prepared    string    `json:"prepared_xact,omitempty"` // name of a prepared transaction
}

// HeldEvents looks for the oldest transaction that is under way in the server.
func (r *Reader) HeldEvents(ctx context.Context) (HeldEvents, error) {
	var held HeldEvents
	var since pgtype.Timestamptz
	var pid pgtype.Int4
	var login, database, application, prepared pgtype.Text
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.sql["events_held"]).QueryRow(func(row pgx.Row) error { return row.Scan(&since, &pid, &login, &database, &application, &prepared) })
	})
	if err != nil {
		return HeldEvents{}, fmt.Errorf("looking for what holds events: %w", err)
	}
	if held.Since = orZero(since); !held.Since.IsZero() {
		held.PID, held.Login, held.Database, held.Application, held.Prepared = int(pid.Int32), login.String, database.String, application.String, prepared.String
	}
	return held, nil
}

// Discard gives up for good what an endpoint never takes, and returns how many events it
// was. What waits behind them of their instructions is delivered.
func (o *Operator) Discard(ctx context.Context, endpoint, reason string) (discarded int, err error) {
	var n int32
	if err := o.act(ctx, "discard_events", &n, endpoint, reason); err != nil {
		return 0, fmt.Errorf("discarding events of endpoint %s: %w", bound(endpoint, 64), err)
	}
	return int(n), nil
}

// Redeliver has what waits for an endpoint tried again at once and ends its pause. Where
// since is not zero, everything from that moment on is delivered once more. It returns how
// many events waited.
func (o *Operator) Redeliver(ctx context.Context, endpoint string, since time.Time, reason string) (waited int, err error) {
	var waiting int32
	moment := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	if err := o.act(ctx, "redeliver_events", &waiting, endpoint, moment, reason); err != nil {
		return 0, fmt.Errorf("redelivering to endpoint %s: %w", bound(endpoint, 64), err)
	}
	return int(waiting), nil
}
