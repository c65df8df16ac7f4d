package proofs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// streamProofs are about the numbers of participants, and their order.
func streamProofs() []Proof {
	return []Proof{
		{
			Name: "sequence", Promise: strict,
			Shows: "The instructions of every participant are numbered 1 to n, each number once, and each instruction is " +
				"in pending or the archive",
			Expected: "no gap, no double",
			Reads: []string{
				"payment_outbox_keys.outbox_id", "payment_outbox_keys.participant_id", "payment_outbox_keys.sequence_id",
				"payment_outbox_pending.sequence_id", "payment_outbox_attempts.sequence_id",
				"payment_arrived_keys.sequence_id", "payment_arrivals.taken_at",
				"payment_outbox_keys.created_at", "payment_arrived_keys.created_at",
				"payment_cell_changes.settles", "payment_cells.here",
			},
			Statements: []string{"sql/sequence.sql", "sql/sequence_since.sql"},
			Ledger:     true, whole: proveSequence, script: violations("sequence"),
		},
		{
			Name: sequenceNext, Promise: strict,
			Shows:    "The next number of every participant is the one after its last",
			Expected: "n + 1",
			Reads: []string{"payment_outbox_keys.participant_id", "payment_outbox_keys.sequence_id",
				"participant_outbox_sequences", "payment_arrived_keys.sequence_id", "payment_arrivals.taken_at",
				"payment_packed_participants"},
			RunAs: asControl, Statements: []string{"sql/sequence_next.sql"},
			Ledger: true, whole: judged("sequence_next"), script: judgement("sequence_next", nil),
		},
		orderProof(),
	}
}

const sequenceNext = "sequence-next"

// stream is the position in the numbers of one participant.
type stream struct {
	participant  string
	next         int64
	participants int64
}

// proveSequence reads the registry in the order of participant and number.
// Pages have snapshots of their own: a number is allocated under the participant's
// lock and never revoked, so that a later page can only have more numbers.
func proveSequence(ctx context.Context, s *session, t *tally) error {
	if err := s.conn.QueryRow(ctx, s.sql("horizon")).Scan(&s.horizon); err != nil {
		return fmt.Errorf("reading the archive's partitions: %w", err)
	}
	if s.options.Since.IsZero() {
		at := stream{}
		if err := s.follow(ctx, t, &at, pgtype.Text{}); err != nil {
			return err
		}
		t.seen = fmt.Sprintf("%d numbers of %d participants, from 1", t.rows, at.participants)
		return nil
	}
	starts, err := s.firstNumbers(ctx)
	if err != nil {
		return err
	}
	for _, at := range starts {
		if err := s.follow(ctx, t, &at, pgtype.Text{String: at.participant, Valid: true}); err != nil {
			return err
		}
	}
	t.seen = fmt.Sprintf("%d numbers of %d participants, from the first since %s", t.rows, len(starts),
		s.options.Since.UTC().Format("2006-01-02T15:04:05Z"))
	return nil
}

func (s *session) firstNumbers(ctx context.Context) ([]stream, error) {
	rows, err := s.conn.Query(ctx, s.sql("sequence_since"), sinceID(s.options.Since))
	if err != nil {
		return nil, fmt.Errorf("looking for the first numbers: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (stream, error) {
		at := stream{participants: 1}
		err := row.Scan(&at.participant, &at.next)
		return at, err
	})
}

// follow reads the numbers from at to the end, of one participant or of all.
func (s *session) follow(ctx context.Context, t *tally, at *stream, only pgtype.Text) error {
	participant, number := at.participant, max(at.next-1, 0)
	id := pgtype.UUID{Bytes: lastOfAll, Valid: true}
	if !only.Valid {
		id.Bytes = [16]byte{}
	}
	for {
		n := 0
		err := s.read(ctx, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, s.sql("sequence"), participant, number, id, s.options.PageSize, only)
			if err != nil {
				return err
			}
			var held, apart bool
			_, err = pgx.ForEachRow(rows, []any{&participant, &number, &id, &held, &apart}, func() error {
				n++
				at.see(t, participant, number, payment.ID(id.Bytes), apart)
				if !held && !left(id, s.horizon) {
					t.offend("participant %s: number %d (%s) is neither in pending nor in the archive", participant, number,
						payment.ID(id.Bytes))
				}
				return nil
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("following the numbers: %w", err)
		}
		t.rows += int64(n)
		s.options.Progress("numbers", t.rows)
		if n < s.options.PageSize {
			return nil
		}
	}
}

// see compares one number with the expected one. The number itself may be the one that was changed, so every gap is
// reported with the instruction after it. Apart: two cells gave the number, with a settlement between.
func (at *stream) see(t *tally, participant string, number int64, id payment.ID, apart bool) {
	if participant != at.participant || at.participants == 0 {
		at.participant, at.next = participant, 1
		at.participants++
	}
	switch {
	case number < at.next && apart:
		t.note(fmt.Sprintf("participant %s: number %d was given in two cells, also to %s, with a settlement between the two",
			participant, number, id))
		return
	case number < at.next:
		t.offend("participant %s: number %d was allocated twice, also to %s", participant, number, id)
		return
	case number == at.next+1:
		t.offend("participant %s: number %d is missing before number %d (%s)", participant, at.next, number, id)
	case number > at.next:
		t.offend("participant %s: numbers %d to %d are missing before number %d (%s)", participant, at.next, number-1,
			number, id)
	}
	at.next = number + 1
}
