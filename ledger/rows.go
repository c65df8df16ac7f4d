package ledger

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

func uuid(id payment.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

func uuids(ids []payment.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = uuid(id)
	}
	return out
}

func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// bound cuts text to a number of bytes at a character's edge, and takes out
// what PostgreSQL's text can't hold.
func bound(s string, limit int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	for len(s) > limit {
		_, size := utf8.DecodeLastRuneInString(s[:min(len(s), limit+utf8.UTFMax)])
		s = s[:min(len(s), limit+utf8.UTFMax)-size]
	}
	return s
}

func orZero(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}

// claimTargets are the columns that claim.sql, find_claim.sql and
// stale_claims.sql have in common, in their order.
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
	c.CreatedAt, c.ClaimedAt = orZero(t.createdAt), orZero(t.claimedAt)
	c.ExpiresAt, c.FirstSentAt, c.LastSentAt = orZero(t.expires), orZero(t.first), orZero(t.last)
	c.SendCount, c.InquiryCount = int(t.sendCount), int(t.inquiryCount)
	c.BusySince, c.RailRefusals = orZero(t.busySince), len(t.railRefusals)
	if len(t.railRefusals) > 0 {
		c.RailRefusedSince = t.railRefusals[0]
	}
	c.RenderVersion, c.RailReference = t.renderVersion.String, t.railReference.String
	if t.sentUnder.Valid {
		if err := json.Unmarshal([]byte(t.sentUnder.String), &c.SentUnder); err != nil {
			c.SentUnder = []payment.KeyRules{{}} // what can't be read keeps nothing
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

// scanClaims reads what a claim returns: the claims, and when each was due.
func scanClaims(rows pgx.Rows) (claims []payment.Claim, due []time.Time, err error) {
	var targets claimTargets
	var at pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, append(targets.columns(), &at), func() error {
		claims, due = append(claims, targets.value()), append(due, orZero(at))
		return nil
	})
	return claims, due, err
}

// orBeginning makes the zero time the beginning of all times.
func orBeginning(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func scanID(row pgx.CollectableRow) (payment.ID, error) {
	var id pgtype.UUID
	err := row.Scan(&id)
	return payment.ID(id.Bytes), err
}
