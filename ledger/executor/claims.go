package executor

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// claimTargets are the scan targets for the common columns of claim.sql, find_claim.sql
// and stale_claims.sql.
type claimTargets struct {
	claimID, outboxID, railKey                 pgtype.UUID
	action                                     string
	attemptNo, priority                        int32
	createdAt, claimedAt, expires, first, last pgtype.Timestamptz
	sendCount, inquiryCount                    int32
	renderVersion, railReference               pgtype.Text
	busySince                                  pgtype.Timestamptz
	railRefusals                               []time.Time
	sentUnder                                  pgtype.Text
	claim                                      payment.Claim
}

func (t *claimTargets) columns() []any {
	c := &t.claim
	return []any{
		&t.claimID, &t.outboxID, &t.attemptNo, &t.action, &c.InstructionID, &c.ParticipantID, &c.SequenceID,
		&c.IdempotencyKey, &c.RailType, &c.Payload, &c.Headers, &c.Fingerprint, &t.railKey,
		&t.priority, &t.createdAt, &t.claimedAt, &t.expires, &t.first, &t.last,
		&c.OutcomeUnknown, &c.Provisional, &t.sendCount, &t.inquiryCount, &t.renderVersion,
		&t.railReference, &c.SeenBefore, &c.Asked, &c.Replayed, &t.busySince, &t.railRefusals, &t.sentUnder, &c.SendOnce,
	}
}

func (t *claimTargets) value() payment.Claim {
	c := t.claim
	c.ClaimID, c.OutboxID = payment.ID(t.claimID.Bytes), payment.ID(t.outboxID.Bytes)
	c.AttemptNo, c.Action, c.Priority = int(t.attemptNo), payment.Action(t.action), int(t.priority)
	if t.railKey.Valid {
		c.RailKey = payment.RailKey(payment.ID(t.railKey.Bytes))
	}
	c.CreatedAt, c.ClaimedAt = store.OrZero(t.createdAt), store.OrZero(t.claimedAt)
	c.ExpiresAt, c.FirstSentAt, c.LastSentAt = store.OrZero(t.expires), store.OrZero(t.first), store.OrZero(t.last)
	c.SendCount, c.InquiryCount = int(t.sendCount), int(t.inquiryCount)
	c.BusySince, c.RailRefusals = store.OrZero(t.busySince), len(t.railRefusals)
	c.RailRefusedAt = t.railRefusals
	c.RenderVersion, c.RailReference = t.renderVersion.String, t.railReference.String
	if t.sentUnder.Valid {
		if err := json.Unmarshal([]byte(t.sentUnder.String), &c.SentUnder); err != nil {
			c.SentUnder = []payment.KeyRules{{}} // the strictest rules
		}
	}
	return c
}

func scanClaim(row pgx.CollectableRow) (payment.Claim, error) {
	var targets claimTargets
	if err := row.Scan(targets.columns()...); err != nil {
		return payment.Claim{}, err
	}
	return targets.value(), nil
}

// scanClaims reads the rows of a claim statement: the claims and their due times.
func scanClaims(rows pgx.Rows) (claims []payment.Claim, due []time.Time, err error) {
	var targets claimTargets
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, append(targets.columns(), &at), func() error {
		claims, due = append(claims, targets.value()), append(due, store.OrZero(at))
		return nil
	})
	return claims, due, err
}

// orBeginning returns a time as an argument; -infinity for the zero time.
func orBeginning(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}
