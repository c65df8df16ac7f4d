package door

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/await"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Status returns the status of an instruction: payment.Elsewhere if it was enqueued in another cell
// before its participant was moved to this one. If there is none, or it is another participant's,
// the error is outbox.ErrNotFound.
func (d *Door) Status(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	found, err := d.payments(ctx, "door_payments", who.Token[:], who.Certificate, []pgtype.UUID{store.UUID(id)})
	switch {
	case err != nil:
		return outbox.Tracked{}, fmt.Errorf("reading the status of %s: %w", id, err)
	case len(found) == 0:
		return outbox.Tracked{}, fmt.Errorf("instruction %s: %w", id, outbox.ErrNotFound)
	default:
		return found[0], nil
	}
}

// Await waits until an instruction rests, as Ingest.Await does, or returns at once if it is
// payment.Elsewhere. All callers share one listening session.
func (d *Door) Await(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error) {
	last, err := d.Status(ctx, who, id)
	if err != nil || last.Rests() || last.State == payment.Elsewhere {
		return last, err
	}
	_, err = d.outcomes.Await(ctx, last.Status, func(ctx context.Context) (payment.Status, error) {
		next, err := d.Status(ctx, who, id)
		if err == nil {
			last = next
		}
		return next.Status, err
	})
	return last, err
}

// List returns a page of one participant's instructions in the order of their numbers, with those
// that are payment.Elsewhere.
func (d *Door) List(ctx context.Context, who outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error) {
	found, err := d.payments(ctx, "door_list", who.Token[:], who.Certificate, page.ParticipantID, page.After,
		page.Most, store.Text(page.InstructionID), store.Text(page.IdempotencyKey))
	if err != nil {
		return nil, fmt.Errorf("listing instructions: %w", err)
	}
	return found, nil
}

// tracked reads the rows of a statement. What it selects behind the columns of an instruction goes into more, which
// then has the values of the last row.
func tracked(rows pgx.Rows, more ...any) (found []outbox.Tracked, err error) {
	var instruction, participant, key, behalf pgtype.Text
	err = await.EachStatus(rows, func(_ int, status payment.Status) {
		found = append(found, outbox.Tracked{
			Status: status, InstructionID: instruction.String, ParticipantID: participant.String,
			IdempotencyKey: key.String, OnBehalfOf: behalf.String,
		})
	}, append([]any{&instruction, &participant, &key, &behalf}, more...)...)
	return found, err
}

// Attempts returns the rows of an instruction in the archive, those with numbers above
// after, at most most of them.
func (d *Door) Attempts(
	ctx context.Context, who outbox.Bearer, id payment.ID, after, most int,
) ([]outbox.ArchiveRow, error) {
	rows, err := d.db.Pool.Query(ctx, d.db.SQL["door_attempts"],
		who.Token[:], who.Certificate, store.UUID(id), after, most)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", id, store.Refusal(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.ArchiveRow, error) {
		var a outbox.ArchiveRow
		var claimed, completed pgtype.Timestamptz
		var answers, latency pgtype.Int4
		var result, reference, railCode, errorCode pgtype.Text
		err := row.Scan(&a.AttemptNo, &a.State, &a.CreatedAt, &claimed, &completed, &answers,
			&result, &reference, &railCode, &errorCode, &latency)
		a.ClaimedAt, a.CompletedAt = store.OrZero(claimed), store.OrZero(completed)
		a.AnswersAttemptNo, a.LatencyMS = int(answers.Int32), int(latency.Int32)
		a.Result, a.RailReference = result.String, reference.String
		a.RailCode, a.ErrorCode = railCode.String, errorCode.String
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", id, store.Refusal(err))
	}
	return all, nil
}

// Cancel ends a waiting instruction of which no send can have been executed, and returns its status as of the same
// transaction; the right to cancel is enough for both. Either Cancel or a claim takes it, never both. If it is
// CANCELLED already, replayed is true and the status that of now. If Cancel comes too late, or the instruction may
// have been sent, the error is outbox.ErrNotAllowed.
func (d *Door) Cancel(
	ctx context.Context, who outbox.Bearer, id payment.ID, reason string,
) (found outbox.Tracked, replayed bool, err error) {
	var all []outbox.Tracked
	err = d.db.Autocommit(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, d.db.SQL["door_cancel"], who.Token[:], who.Certificate, store.UUID(id), reason)
		if err == nil {
			all, err = tracked(rows, &replayed)
		}
		return err
	})
	switch {
	case err != nil:
		return outbox.Tracked{}, false, fmt.Errorf("cancelling %s: %w", id, store.Refusal(err))
	case len(all) == 0:
		return outbox.Tracked{}, false, fmt.Errorf("cancelling %s: %w: no row came", id, outbox.ErrCommitUnknown)
	default:
		return all[0], replayed, nil
	}
}
