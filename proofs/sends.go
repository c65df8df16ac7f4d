package proofs

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
)

// sendsProof is about the sends themselves: when each was allowed, and which answer covers them. Its statement is the
// same for psql.
func sendsProof() Proof {
	return Proof{
		Name: "sends", Promise: silence,
		Shows: "No payment was sent before its not_before, after its expires_at, again where its caller allows one send, " +
			"or again while its outcome was unknown without a rail that keeps its key, or its word that " +
			"it was not made; what a claim or a pending row " +
			"says of the earlier sends is what their rows say; and an answer that ended a payment covers all of its sends, by " +
			"their profiles",
		Expected: "no such send, and no such end",
		Counts:   "claims",
		Reads: []string{"payment_outbox_attempts.outbox_id", "payment_outbox_pending.outbox_id", "payment_rail_profiles",
			"payment_outbox_instructions.expires_at", "payment_operator_log"},
		Statements: []string{"sql/sends.sql"},
		Ledger:     true, page: proveSends,
		script: judgement("sends", func(acl.Matrix) []string {
			return []string{"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"}
		}),
	}
}

func proveSends(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error {
	rows, err := tx.Query(ctx, s.sql("sends"), p.first, p.last)
	if err != nil {
		return err
	}
	var what, line string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&what, &line, &n}, func() error {
		if what == "seen" {
			t.rows += n
		} else {
			t.offend("%s", line)
		}
		return nil
	})
	return err
}
