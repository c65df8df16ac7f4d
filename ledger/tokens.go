package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
)

// TokensMax is how many tokens Tokens lists at most.
const TokensMax = 10_000

// tokenPrefix tells a token from other secrets, to readers and to scanners.
const tokenPrefix = "rht_"

// NewToken says what a token is to be for.
type NewToken struct {
	Name              string
	Participants      []string
	Verbs             []string // ENQUEUE, READ, CANCEL
	ExpiresAt         time.Time
	RequestsPerMinute int    // 0: no quota
	Certificate       []byte // SHA-256 of the public key of the certificate that it is bound to; nil: to none
	Reason            string
}

// CreateToken makes a token of 32 random bytes and puts it in force. The connection is
// an administrator's, as the cell's owner. The server gets a digest of a digest, so that
// the text that is returned is nowhere else.
func CreateToken(ctx context.Context, conn *pgx.Conn, cell string, made NewToken) (token, id string, err error) {
	loaded, err := loadStatements(cell)
	if err != nil {
		return "", "", err
	}
	secret := make([]byte, 32)
	rand.Read(secret) //nolint:errcheck // it never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	inner := outbox.TokenDigest(token)
	outer := sha256.Sum256(inner[:])
	err = conn.QueryRow(ctx, loaded["create_api_token"], outer[:], made.Name, made.Participants, made.Verbs, made.ExpiresAt, made.Reason,
		pgtype.Int4{Int32: int32(made.RequestsPerMinute), Valid: made.RequestsPerMinute != 0}, made.Certificate).Scan(&id)
	if err != nil {
		return "", "", fmt.Errorf("creating a token: %w", refusal(err))
	}
	return token, id, nil
}

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

// Tokens lists the tokens of the HTTP API, the newest first, without what opens anything.
func (r *Reader) Tokens(ctx context.Context) ([]ListedToken, error) {
	var all []ListedToken
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.sql["api_tokens"], TokensMax).Query(collect(&all, scanToken))
	})
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	return all, nil
}

func scanToken(row pgx.CollectableRow) (ListedToken, error) {
	var t ListedToken
	var revoked, used, refused pgtype.Timestamptz
	var quota pgtype.Int4
	err := row.Scan(&t.ID, &t.Name, &t.Participants, &t.Verbs, &t.CreatedAt, &t.CreatedBy, &t.ExpiresAt, &revoked, &quota,
		&t.HasCertificate, &t.Uses, &t.Refused, &used, &refused)
	t.RevokedAt, t.RequestsPerMinute, t.LastUsedAt, t.LastRefusedAt = orZero(revoked), int(quota.Int32), orZero(used), orZero(refused)
	return t, err
}

// RevokeToken takes a token out of force, and reports whether it was not revoked before.
// The next statement that is made by it is refused.
func (o *Operator) RevokeToken(ctx context.Context, id, reason string) (wasInForce bool, err error) {
	if err := o.act(ctx, "revoke_api_token", &wasInForce, id, reason); err != nil {
		return false, fmt.Errorf("revoking token %s: %w", bound(id, 64), err)
	}
	return wasInForce, nil
}
