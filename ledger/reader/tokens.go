package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// TokensMax is the maximum of tokens that Tokens lists.
const TokensMax = 10_000

// ListedToken is a token as operators see it.
type ListedToken struct {
	ID                string    `json:"token_id"`
	Name              string    `json:"name"`
	Participants      []string  `json:"participants"`
	Verbs             []string  `json:"verbs"`
	CreatedAt         time.Time `json:"created_at"`
	CreatedBy         string    `json:"created_by"`
	ExpiresAt         time.Time `json:"expires_at"`
	RevokedAt         time.Time `json:"revoked_at,omitzero"`
	RequestsPerMinute int       `json:"requests_per_minute,omitempty"`
	HasCertificate    bool      `json:"has_certificate"`
	Uses              int64     `json:"uses"`
	Refused           int64     `json:"refused"` // uses while it was not in force
	LastUsedAt        time.Time `json:"last_used_at,omitzero"`
	LastRefusedAt     time.Time `json:"last_refused_at,omitzero"`
}

// Tokens lists the tokens of the HTTP API, the newest first, without secrets or digests: TokensMax at most, and whether
// older ones were left out.
func (r *Reader) Tokens(ctx context.Context) (all []ListedToken, cutShort bool, err error) {
	err = r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["api_tokens"], TokensMax+1).Query(store.Collect(&all, scanToken))
	})
	if err != nil {
		return nil, false, fmt.Errorf("listing tokens: %w", err)
	}
	if cutShort = len(all) > TokensMax; cutShort {
		all = all[:TokensMax]
	}
	return all, cutShort, nil
}

func scanToken(row pgx.CollectableRow) (ListedToken, error) {
	var t ListedToken
	var revoked, used, refused pgtype.Timestamptz
	var quota pgtype.Int4
	err := row.Scan(&t.ID, &t.Name, &t.Participants, &t.Verbs, &t.CreatedAt, &t.CreatedBy, &t.ExpiresAt, &revoked, &quota,
		&t.HasCertificate, &t.Uses, &t.Refused, &used, &refused)
	t.RevokedAt, t.RequestsPerMinute = store.OrZero(revoked), int(quota.Int32)
	t.LastUsedAt, t.LastRefusedAt = store.OrZero(used), store.OrZero(refused)
	return t, err
}
