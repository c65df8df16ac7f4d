package proofs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// orderProof is about the order that the profile of a rail may require.
func orderProof() Proof {
	return Proof{
		Name: "order", Promise: strict,
		Shows: "Where a rail's profile requires an order, the first claim of an instruction came after each lower " +
			"number of its participant on the rail had been resolved once: by its rows, or by an operator's skip or " +
			"closing of its dead letter",
		Expected: "no first claim before that, by the times in the rows",
		Counts:   "first claims in an order",
		Reads: []string{"payment_outbox_keys.outbox_id", "payment_outbox_keys.participant_id",
			"payment_outbox_keys.sequence_id", "payment_outbox_pending.rail_type", "payment_outbox_attempts.rail_type",
			"payment_outbox_attempts.profile_version", "payment_dead_letters", "payment_rail_profiles", "payment_operator_log"},
		Statements: []string{"sql/order_begin.sql", "sql/order.sql", "sql/horizon.sql"},
		Ledger:     true, whole: proveOrder, script: violations("order"),
	}
}

// ranked is a number of a participant, with what decides its order. Times are in
// microseconds since 1970.
type ranked struct {
	participant, rail string
	number            int64
	id                pgtype.UUID
	claimed           pgtype.Int8 // its first claim under a profile that requires the order
	skips             bool        // a bad end did not hold the line then, or had not at some time before
	ended, badly      int64       // when it was resolved first, if a bad end does not count, and if it does
}

// hold is the lower number that was resolved last.
type hold struct{ until, number int64 }

func (h *hold) see(until, number int64) {
	if until > h.until {
		h.until, h.number = until, number
	}
}

// line is what holds the next number of a participant on a rail.
type line struct{ ended, badly hold }

// proveOrder follows the registry by participant and number. A page has a snapshot of its own, and a
// number that one page saw unresolved may be resolved before the next, so that only claims
// from before the first page are compared: what they waited for is in every page.
func proveOrder(ctx context.Context, s *session, t *tally) error {
	var until pgtype.Int8
	var ordered bool
	if err := s.conn.QueryRow(ctx, s.sql("order_begin")).Scan(&until, &ordered); err != nil {
		return fmt.Errorf("looking for rails with an order: %w", err)
	}
	if !ordered {
		return nil
	}
	if err := s.conn.QueryRow(ctx, s.sql("horizon")).Scan(&s.horizon); err != nil {
		return fmt.Errorf("reading the archive's partitions: %w", err)
	}
	since := sinceID(s.options.Since)
	lines := make(map[string]*line)
	at := ranked{id: pgtype.UUID{Valid: true}}
	participant, read := "", int64(0)
	for n := s.options.PageSize; n == s.options.PageSize; {
		n = 0
		err := s.read(ctx, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, s.sql("order"), at.participant, at.number, at.id, s.options.PageSize)
			if err != nil {
				return err
			}
			into := []any{&at.participant, &at.number, &at.id, &at.rail, &at.claimed, &at.skips, &at.ended, &at.badly}
			_, err = pgx.ForEachRow(rows, into, func() error {
				n++
				if at.participant != participant {
					participant = at.participant
					clear(lines)
				}
				if left(at.id, s.horizon) {
					return nil
				}
				ahead := lines[at.rail]
				if ahead == nil {
					ahead = &line{}
					lines[at.rail] = ahead
				}
				if at.claimed.Valid && until.Valid && at.claimed.Int64 <= until.Int64 && !left(at.id, since) {
					at.judge(t, *ahead)
				}
				ahead.ended.see(at.ended, at.number)
				ahead.badly.see(at.badly, at.number)
				return nil
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("following the order: %w", err)
		}
		read += int64(n)
		s.options.Progress("numbers in order", read)
	}
	return nil
}

func (r ranked) judge(t *tally, ahead line) {
	t.rows++
	held := ahead.ended
	if r.skips {
		held = ahead.badly
	}
	if r.claimed.Int64 < held.until {
		t.offend("participant %s: number %d (%s) was claimed on %s before number %d was resolved", r.participant, r.number,
			payment.ID(r.id.Bytes), r.rail, held.number)
	}
}
