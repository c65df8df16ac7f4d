package operator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// tokenPrefix distinguishes a token from other secrets, for readers and for scanners.
const tokenPrefix = "rht_"

// NewToken describes a token that is to be created.
type NewToken struct {
	Name              string
	Participants      []string
	Verbs             []string // ENQUEUE, READ, CANCEL
	ExpiresAt         time.Time
	RequestsPerMinute int    // 0: no quota
	Certificate       []byte // SHA-256 of the public key of the certificate to which it is bound; nil: none
	Reason            string
}

// CreateToken makes a token of 32 random bytes and puts it in force. The connection is an
// administrator's, as the cell's owner. The server gets a digest of a digest, so only the
// caller has the token itself.
func CreateToken(ctx context.Context, conn *pgx.Conn, cell string, made NewToken) (token, id string, err error) {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return "", "", err
	}
	secret := make([]byte, 32)
	rand.Read(secret) //nolint:errcheck // it never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	inner := outbox.TokenDigest(token)
	outer := sha256.Sum256(inner[:])
	quota := pgtype.Int4{Int32: int32(made.RequestsPerMinute), Valid: made.RequestsPerMinute != 0}
	err = conn.QueryRow(ctx, loaded["create_api_token"], outer[:], made.Name, made.Participants, made.Verbs,
		made.ExpiresAt, made.Reason, quota, made.Certificate).Scan(&id)
	if err != nil {
		return "", "", fmt.Errorf("creating a token: %w", store.Refusal(err))
	}
	return token, id, nil
}

// RevokeToken revokes a token and reports whether it was not revoked before. The next
// statement with it is refused.
func (o *Operator) RevokeToken(ctx context.Context, id, reason string) (wasInForce bool, err error) {
	if err := o.act(ctx, "revoke_api_token", &wasInForce, id, reason); err != nil {
		return false, fmt.Errorf("revoking token %s: %w", store.Bound(id, 64), err)
	}
	return wasInForce, nil
}
