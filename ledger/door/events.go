package door

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Events returns the events of all subscriptions after a place of the feed. It reads at
// most most rows of the feed, up to 2,000, and checks the token, the participants and the
// types of each subscription anew. At the zero place it begins with the oldest event in the
// archive, or with the first one at since if that is not zero.
func (d *Door) Events(
	ctx context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int,
) (outbox.Heard, error) {
	return d.events(ctx, all, from, since, max(most, 1))
}

// Newest returns the place after which a subscription receives only new events.
func (d *Door) Newest(ctx context.Context, who outbox.Subscription) (outbox.Place, error) {
	heard, err := d.events(ctx, []outbox.Subscription{who}, outbox.Place{}, time.Time{}, 0)
	if err == nil {
		err = heard.Refused[0]
	}
	return heard.Place, err
}

func (d *Door) events(
	ctx context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int,
) (outbox.Heard, error) {
	tokens, certificates := make([][]byte, len(all)), make([][]byte, len(all))
	participants, types := make([]pgtype.Text, len(all)), make([]pgtype.Text, len(all))
	for n := range all {
		tokens[n], certificates[n] = all[n].Token[:], all[n].Certificate
		participants[n], types[n] = store.ArrayText(all[n].Participants), store.ArrayText(all[n].Types)
	}
	arguments := []any{tokens, certificates, participants, types, store.Timestamp(since)}
	arguments = append(arguments, store.PlaceArguments(from)...)
	rows, err := d.db.Pool.Query(ctx, d.db.SQL["door_events"], append(arguments, most)...)
	if err != nil {
		return outbox.Heard{}, fmt.Errorf("reading events: %w", store.Refusal(err))
	}
	var heard outbox.Heard
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, scanHeard(row, &heard)
	})
	if err != nil {
		return outbox.Heard{}, fmt.Errorf("reading events: %w", store.Refusal(err))
	}
	return heard, nil
}

// scanHeard adds a row of api_events to heard.
func scanHeard(row pgx.CollectableRow, heard *outbox.Heard) error {
	var kind string
	var items []int32
	var why, system, xact, eventType, instruction, participant, state, rail, reference, railCode, code pgtype.Text
	var at store.PlaceTargets
	var inPlace, wentBack, unknown pgtype.Bool
	var attempt, outboxID pgtype.UUID
	var sequence pgtype.Int8
	var number pgtype.Int4
	var created pgtype.Timestamptz
	err := row.Scan(&kind, &items, &why, &xact, &at.OutboxID, &at.AttemptNo, &at.Attempt, &inPlace, &wentBack,
		&eventType, &attempt, &outboxID, &instruction, &participant, &sequence, &number, &state, &created,
		&rail, &reference, &railCode, &code, &unknown)
	if err != nil {
		return err
	}
	switch kind {
	case "REFUSED":
		for _, n := range items {
			if heard.Refused == nil {
				heard.Refused = make(map[int]error)
			}
			if heard.Refused[int(n-1)] = outbox.ErrForbidden; why.String == "TOKEN" {
				heard.Refused[int(n-1)] = outbox.ErrToken
			}
		}
		return nil
	case "END":
		system = why
		heard.More, heard.WentBack, heard.HeldSince = !inPlace.Bool, wentBack.Bool, store.OrZero(created)
	}
	at.Xact = xact
	at.System = pgtype.Text{String: "0", Valid: true}
	if system.Valid {
		at.System = system
	}
	if kind == "END" {
		heard.Place = at.Value()
		for n := range heard.Events {
			heard.Events[n].At.System = heard.Place.System
		}
		return nil
	}
	event := outbox.HeardEvent{At: at.Value(), Event: payment.Event{
		AttemptID: payment.ID(attempt.Bytes), Type: payment.EventType(eventType.String),
		OutboxID: payment.ID(outboxID.Bytes), InstructionID: instruction.String,
		ParticipantID: participant.String, SequenceID: sequence.Int64, AttemptNo: int(number.Int32),
		State: payment.State(state.String), CreatedAt: store.OrZero(created),
		RailType: rail.String, RailReference: reference.String, RailCode: railCode.String,
		ErrorCode: code.String, OutcomeUnknown: unknown.Bool,
	}}
	event.Last = inPlace.Bool
	event.For = make([]int, len(items))
	for i, n := range items {
		event.For[i] = int(n - 1)
	}
	heard.Events = append(heard.Events, event)
	return nil
}
