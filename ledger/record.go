package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// recordArguments lays outcomes out as record.sql's arrays, in outbox_id order.
func recordArguments(turn payment.Turn) []any {
	outcomes := make([]*payment.Outcome, len(turn.Outcomes))
	for i := range outcomes {
		outcomes[i] = &turn.Outcomes[i]
	}
	slices.SortFunc(outcomes, func(a, b *payment.Outcome) int {
		return slices.Compare(a.Claim.OutboxID[:], b.Claim.OutboxID[:])
	})
	n := len(outcomes)
	claimIDs, attemptIDs, outboxIDs := make([]pgtype.UUID, n), make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	claimNos, latencies, profiles := make([]int32, n), make([]pgtype.Int4, n), make([]pgtype.Int4, n)
	states, results, references := make([]string, n), make([]pgtype.Text, n), make([]pgtype.Text, n)
	codes, tables, errorCodes := make([]pgtype.Text, n), make([]pgtype.Text, n), make([]pgtype.Text, n)
	messages, renders, parks := make([]pgtype.Text, n), make([]pgtype.Text, n), make([]pgtype.UUID, n)
	reasons, actions, delays := make([]pgtype.Text, n), make([]pgtype.Text, n), make([]pgtype.Int8, n)
	unknowns, provisionals, counts := make([]bool, n), make([]bool, n), make([]bool, n)
	sends, inquiries, claimed := make([]int32, n), make([]int32, n), make([]pgtype.Timestamptz, n)
	worker := ""
	for i, o := range outcomes {
		d := o.Decision
		claimIDs[i], attemptIDs[i], outboxIDs[i] = uuid(o.Claim.ClaimID), uuid(o.AttemptID), uuid(o.Claim.OutboxID)
		claimNos[i], latencies[i], profiles[i] = int32(o.Claim.AttemptNo), latency(o.Latency), version(o.ProfileVersion)
		states[i], results[i], references[i] = string(d.State), text(string(o.Result)), text(bound(o.RailReference, 256))
		codes[i], tables[i], errorCodes[i] = text(bound(o.RailCode, 100)), text(o.CodeTable), text(bound(d.ErrorCode, 100))
		messages[i], renders[i] = text(bound(o.ErrorMessage, payment.MaxErrorMessage)), text(o.RenderVersion)
		if d.Park {
			parks[i] = uuid(o.ParkAttemptID)
		}
		reasons[i] = text(string(d.Reason))
		if d.Requeue {
			actions[i], delays[i] = text(string(d.NextAction)), pgtype.Int8{Int64: d.Delay.Milliseconds(), Valid: true}
		}
		unknowns[i], provisionals[i], counts[i] = d.OutcomeUnknown, d.Provisional && d.OutcomeUnknown, d.CountsSend
		sends[i], inquiries[i], claimed[i] = int32(d.SendCount), int32(d.InquiryCount), timestamp(o.Claim.ClaimedAt)
		worker = o.WorkerID
	}
	return []any{
		claimIDs, attemptIDs, outboxIDs, claimNos, states, results, references,
		codes, tables, errorCodes, messages, latencies,
		profiles, renders, parks, reasons, actions,
		delays, unknowns, provisionals, counts, sends, inquiries,
		worker, uuids(turn.Finished), claimed,
	}
}

// recordDoneArguments are record_done.sql's, which lacks what follows.
func recordDoneArguments(turn payment.Turn) []any {
	all := recordArguments(turn)
	const (
		follows = 14 // park_attempt_id and on, in the order of recordArguments
		flags   = 18 // outcome_unknown and provisional
		worker  = 23
	)
	return slices.Concat(all[1:follows], all[flags:flags+2], all[worker:])
}

func latency(d time.Duration) pgtype.Int4 {
	return pgtype.Int4{Int32: int32(min(d.Milliseconds(), 1<<31-1)), Valid: d > 0}
}

// timestamp is null for the zero time.
func timestamp(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}
}

func version(v int) pgtype.Int4 { return pgtype.Int4{Int32: int32(v), Valid: v > 0} }

// lateOutcome is outbox_outcome as JSON.
type lateOutcome struct {
	AttemptID      payment.ID  `json:"attempt_id"`
	OutboxID       payment.ID  `json:"outbox_id"`
	RailType       *string     `json:"rail_type"`
	ClaimNo        *int        `json:"claim_no"`
	State          string      `json:"state"`
	Result         *string     `json:"result"`
	RailReference  *string     `json:"rail_reference"`
	RailCode       *string     `json:"rail_code"`
	CodeTable      *string     `json:"code_table"`
	ErrorCode      *string     `json:"error_code"`
	ErrorMessage   *string     `json:"error_message"`
	LatencyMs      *int64      `json:"latency_ms"`
	WorkerID       *string     `json:"worker_id"`
	ProfileVersion *int        `json:"profile_version"`
	RenderVersion  *string     `json:"render_version"`
	ParkAttemptID  *payment.ID `json:"park_attempt_id"`
	DeadReason     *string     `json:"dead_reason"`
	NextAction     *string     `json:"next_action"`
	DelayMs        int64       `json:"delay_ms"`
	OutcomeUnknown bool        `json:"outcome_unknown"`
	Provisional    bool        `json:"provisional"`
	CountsSend     bool        `json:"counts_send"`
	SendCount      int         `json:"send_count"`
	InquiryCount   int         `json:"inquiry_count"`
	ClaimedAt      *time.Time  `json:"claimed_at"`
}

func lateOutcomeOf(o payment.Outcome) lateOutcome {
	d := o.Decision
	late := lateOutcome{
		AttemptID: o.AttemptID, OutboxID: o.Claim.OutboxID, RailType: orNil(o.Claim.RailType), State: string(d.State),
		Result: orNil(string(o.Result)), RailReference: orNil(bound(o.RailReference, 256)),
		RailCode: orNil(bound(o.RailCode, 100)), CodeTable: orNil(o.CodeTable),
		ErrorCode: orNil(bound(d.ErrorCode, 100)), ErrorMessage: orNil(bound(o.ErrorMessage, payment.MaxErrorMessage)),
		WorkerID: orNil(o.WorkerID), RenderVersion: orNil(o.RenderVersion), DeadReason: orNil(string(d.Reason)),
		OutcomeUnknown: d.OutcomeUnknown, Provisional: d.Provisional && d.OutcomeUnknown, CountsSend: d.CountsSend,
		SendCount: d.SendCount, InquiryCount: d.InquiryCount,
	}
	if o.Claim.AttemptNo > 0 {
		late.ClaimNo, late.ClaimedAt = new(o.Claim.AttemptNo), new(o.Claim.ClaimedAt)
	}
	if o.ProfileVersion > 0 {
		late.ProfileVersion = new(o.ProfileVersion)
	}
	if o.Latency > 0 {
		late.LatencyMs = new(min(o.Latency.Milliseconds(), 1<<31-1))
	}
	if d.Park {
		late.ParkAttemptID = new(o.ParkAttemptID)
	}
	if d.Requeue {
		late.NextAction, late.DelayMs = orNil(string(d.NextAction)), d.Delay.Milliseconds()
	}
	return late
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// RecordLate records an outcome by the slow path: one that lost the fence. It may be
// called again after any error: the ledger knows a row that it already has.
func (e *Executor) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	body, err := json.Marshal(lateOutcomeOf(outcome))
	if err != nil {
		return "", fmt.Errorf("writing the outcome of %s: %w", outcome.Claim.OutboxID, err)
	}
	verdict, err := boundedRows(ctx, e, pgx.RowTo[string], e.sql["record_late"], string(body))
	if err != nil {
		return "", fmt.Errorf("recording the late outcome of %s: %w", outcome.Claim.OutboxID, err)
	}
	return payment.Verdict(verdict[0]), nil
}
