// Package twin compares the slow path of outcomes, as the schema decides it, with the same
// decision in the vocabulary (payment.History.Late), row by row. Tests that bring late evidence to
// payments record it by a Recorder.
package twin

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/payment"
)

// Ledger records outcomes by the slow path.
type Ledger interface {
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
}

// Querier reads the state of an instruction, with the rights of a superuser.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Recorder records by a ledger, and compares the result with the rule.
type Recorder struct {
	Ledger Ledger
	Looker Querier
	// Differs is called with a difference between the ledger and the rule.
	Differs func(difference string)

	compared atomic.Int64
}

// Compared returns the number of outcomes that both decided.
func (r *Recorder) Compared() int64 { return r.compared.Load() }

// RecordLate records one outcome of an instruction that nothing else changes meanwhile. An error
// comes from the ledger or from a query.
func (r *Recorder) RecordLate(ctx context.Context, o payment.Outcome) (payment.Verdict, error) {
	before, known, err := r.history(ctx, o.Claim.OutboxID)
	if err != nil {
		return "", err
	}
	verdict, err := r.Ledger.RecordLate(ctx, o)
	if err != nil || !known {
		return verdict, err
	}
	after, _, err := r.history(ctx, o.Claim.OutboxID)
	if err != nil {
		return "", err
	}
	r.compared.Add(1)
	before.AcceptedWith = after.AcceptedUnder
	if difference := compare(before.Late(o), verdict, after, len(before.Rows)); difference != "" {
		r.Differs(fmt.Sprintf("%s of claim %d of %s, after %s: %s", o.Result, o.Claim.AttemptNo, o.Claim.OutboxID,
			words(before.Rows), difference))
	}
	return verdict, nil
}

// history returns what the slow path decides by, or false if the database does not have the
// instruction.
func (r *Recorder) history(ctx context.Context, id payment.ID) (h payment.History, known bool, err error) {
	rows, err := r.Looker.Query(ctx, `
		SELECT a.attempt_id, a.attempt_no, a.state::text, coalesce(a.answers_attempt_no, 0), a.claimed_at, coalesce(a.result, ''),
			coalesce(a.rail_reference, ''), coalesce(a.error_code, ''), a.outcome_unknown, a.provisional
		FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no`, [16]byte(id))
	if err != nil {
		return h, false, err
	}
	h.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r payment.Row, err error) {
		var claimed *time.Time
		err = row.Scan((*[16]byte)(&r.AttemptID), &r.No, &r.State, &r.Answers, &claimed, &r.Result, &r.Reference,
			&r.ErrorCode, &r.OutcomeUnknown, &r.Provisional)
		if claimed != nil {
			r.ClaimedAt = *claimed
		}
		return r, err
	})
	if err != nil {
		return h, false, err
	}
	rows, err = r.Looker.Query(ctx, `
		SELECT p.attempt_count, p.next_action, p.outcome_unknown, p.provisional, p.send_count
		FROM railhead.payment_outbox_pending p WHERE p.outbox_id = $1`, [16]byte(id))
	if err != nil {
		return h, false, err
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payment.Waiting])
	if err != nil {
		return h, false, err
	}
	if len(waiting) == 1 {
		h.Waiting = &waiting[0]
	}
	err = r.Looker.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1),
			railhead.server_is_settled(), railhead.send_may_be_forgotten($1), coalesce(railhead.may_be_forgotten_until($1), 'epoch'), railhead.left_the_archive($1),
			railhead.rail_keeps_one_outcome($1),
			(extract(epoch FROM railhead.rail_knows_keys_for($1)) * 1e9)::bigint, railhead.judged_to($1, false), railhead.judged_to($1, true),
			railhead.acceptance_of_sends($1)`,
		[16]byte(id)).Scan(&known, &h.Settled, &h.MaybeForgotten, &h.ForgottenUntil, &h.LeftTheArchive, &h.CoversKey,
		&h.KnowsKeysFor, &h.JudgedTo, &h.JudgedExecutedTo, &h.AcceptedUnder)
	return h, known, err
}

// compare describes the first difference between the ledger and the rule, or returns "".
func compare(rule payment.Late, verdict payment.Verdict, after payment.History, had int) string {
	if verdict != rule.Verdict {
		return fmt.Sprintf("the ledger says %s, the rule %s", verdict, rule.Verdict)
	}
	appended := after.Rows[had:]
	if len(appended) != len(rule.Append) {
		return fmt.Sprintf("the ledger appends %s, the rule %s", words(appended), words(rule.Append))
	}
	for n, got := range appended {
		want := rule.Append[n]
		if want.AttemptID == (payment.ID{}) { // one that the ledger makes
			want.AttemptID = got.AttemptID
		}
		// A PARKED row answers no claim, and the code of a row may be the rail's own. What a row that
		// ends an instruction keeps of pending is not part of the rule.
		if want.State == payment.Parked && want.Answers == 0 || got.ClaimedAt.Equal(want.ClaimedAt) {
			want.ClaimedAt = got.ClaimedAt
		}
		want.ErrorCode = got.ErrorCode
		if got != want {
			return fmt.Sprintf("the ledger appends %+v, the rule %+v", got, want)
		}
	}
	switch {
	case after.Waiting == nil && rule.Waiting == nil:
	case after.Waiting == nil || rule.Waiting == nil || *after.Waiting != *rule.Waiting:
		return fmt.Sprintf("the ledger leaves %s in pending, the rule %s", waits(after.Waiting), waits(rule.Waiting))
	}
	return ""
}

func waits(w *payment.Waiting) string {
	if w == nil {
		return "nothing"
	}
	return fmt.Sprintf("%+v", *w)
}

func words(rows []payment.Row) []string {
	return slices.Collect(func(yield func(string) bool) {
		for _, r := range rows {
			if !yield(fmt.Sprintf("%s(%d %s)", r.State, r.Answers, r.Result)) {
				return
			}
		}
	})
}
