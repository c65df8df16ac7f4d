package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// tokenPrefix distinguishes a token from other secrets, for readers and for scanners.
const tokenPrefix = "rht_"

// tokenActsEvery is how often AwaitTokenActs looks.
const tokenActsEvery = 50 * time.Millisecond

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

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CreateToken makes a token of 32 random bytes and puts it in force. The connection is an
// administrator's, as the cell's owner. The server gets a digest of a digest, so only the
// caller has the token itself.
func CreateToken(ctx context.Context, conn querier, cell string, made NewToken) (token, id string, err error) {
	secret := make([]byte, 32)
	rand.Read(secret) //nolint:errcheck // it never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	inner := outbox.TokenDigest(token)
	outer := sha256.Sum256(inner[:])
	if id, err = putToken(ctx, conn, cell, outer[:], made); err != nil {
		return "", "", err
	}
	return token, id, nil
}

// putToken puts a token in force by the digest of its digest, and returns its id.
func putToken(ctx context.Context, conn querier, cell string, digest []byte, made NewToken) (id string, err error) {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return "", err
	}
	quota := pgtype.Int4{Int32: int32(made.RequestsPerMinute), Valid: made.RequestsPerMinute != 0}
	err = conn.QueryRow(ctx, loaded["create_api_token"], digest, made.Name, made.Participants, made.Verbs,
		made.ExpiresAt, made.Reason, quota, made.Certificate).Scan(&id)
	if err != nil {
		return "", fmt.Errorf("creating a token: %w", store.Refusal(err))
	}
	return id, nil
}

// StoredToken is what a cell stores of a token. Its Reason is empty.
type StoredToken struct {
	NewToken
	Digest    []byte // SHA-256 of SHA-256 of the token
	RevokedAt time.Time
}

// ReadToken reads a token by its id, to put it in force in another cell. The connection is that of
// CreateToken. If there is none, the error is outbox.ErrNotFound.
func ReadToken(ctx context.Context, conn querier, cell, id string) (StoredToken, error) {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return StoredToken{}, err
	}
	var found StoredToken
	var quota pgtype.Int4
	var revoked pgtype.Timestamptz
	err = conn.QueryRow(ctx, loaded["stored_api_token"], id).Scan(&found.Digest, &found.Name, &found.Participants,
		&found.Verbs, &found.ExpiresAt, &quota, &found.Certificate, &revoked)
	found.RequestsPerMinute, found.RevokedAt = int(quota.Int32), store.OrZero(revoked)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return StoredToken{}, fmt.Errorf("token %s: %w", store.Bound(id, 64), outbox.ErrNotFound)
	case err != nil:
		return StoredToken{}, fmt.Errorf("reading token %s: %w", store.Bound(id, 64), store.Refusal(err))
	}
	return found, nil
}

// Clock is the time of the database's clock, from which the expiry of a token counts. The connection is that of
// CreateToken.
func Clock(ctx context.Context, conn querier, cell string) (now time.Time, err error) {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return time.Time{}, err
	}
	if err := conn.QueryRow(ctx, loaded["database_clock"]).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("reading the clock: %w", store.Refusal(err))
	}
	return now, nil
}

// OwnSetting returns the setting that the cell's own map gives it; empty: the cell is in no directory. The
// connection is an administrator's, as the cell's owner.
func OwnSetting(ctx context.Context, conn querier, cell string) (string, error) {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return "", err
	}
	var setting pgtype.Text
	if err := conn.QueryRow(ctx, loaded["own_setting"]).Scan(&setting); err != nil {
		return "", fmt.Errorf("reading the cell's own setting: %w", store.Refusal(err))
	}
	return setting.String, nil
}

// CopyToken puts a token of another cell in force, whose bearer presents the same text, and reports
// whether the cell lacked it. One that is revoked, or has other rights, is not changed, and is an error.
func CopyToken(ctx context.Context, conn querier, cell, id string, of StoredToken, reason string) (bool, error) {
	there, err := ReadToken(ctx, conn, cell, id)
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		made := of.NewToken
		made.Reason = reason
		_, err = putToken(ctx, conn, cell, of.Digest, made)
		return err == nil, err
	case err != nil:
		return false, err
	case !there.RevokedAt.IsZero():
		return false, fmt.Errorf("token %s is revoked there: %w", store.Bound(id, 64), outbox.ErrNotAllowed)
	case !there.equal(of):
		return false, fmt.Errorf("token %s has other rights there: %w", store.Bound(id, 64), outbox.ErrNotAllowed)
	}
	return false, nil
}

// WithdrawToken revokes a token that was put in force while another cell revoked it. The connection is that of
// CreateToken.
func WithdrawToken(ctx context.Context, conn querier, cell, id, reason string) error {
	loaded, err := store.LoadStatements(cell)
	if err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, loaded["revoke_api_token"], id, reason).Scan(nil); err != nil {
		return fmt.Errorf("revoking token %s: %w", store.Bound(id, 64), store.Refusal(err))
	}
	return nil
}

// equal reports whether two cells store the same token with the same rights.
func (s StoredToken) equal(other StoredToken) bool {
	return bytes.Equal(s.Digest, other.Digest) && s.Name == other.Name && s.ExpiresAt.Equal(other.ExpiresAt) &&
		slices.Equal(s.Participants, other.Participants) && slices.Equal(s.Verbs, other.Verbs) &&
		s.RequestsPerMinute == other.RequestsPerMinute && bytes.Equal(s.Certificate, other.Certificate)
}

// RevokeToken revokes a token and reports whether it was not revoked before. The next
// statement with it is refused.
func (o *Operator) RevokeToken(ctx context.Context, id, reason string) (wasInForce bool, err error) {
	if err := o.act(ctx, "revoke_api_token", &wasInForce, id, reason); err != nil {
		return false, fmt.Errorf("revoking token %s: %w", store.Bound(id, 64), err)
	}
	return wasInForce, nil
}

// AwaitTokenActs returns once each act of another session that puts a token in force in this cell or revokes one,
// and that was open when it was called, has ended: RevokeToken finds what was committed by then. If ctx ends
// first, it returns an error.
func (o *Operator) AwaitTokenActs(ctx context.Context) error {
	read := func() ([]string, error) {
		open, err := store.ReadRows(ctx, o.db, pgx.RowTo[string], o.db.SQL["token_acts"])
		if err != nil {
			return nil, fmt.Errorf("reading the open acts on tokens: %w", store.Refusal(err))
		}
		return open, nil
	}
	began, err := read()
	for err == nil && len(began) > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(tokenActsEvery):
		}
		open, readErr := read()
		switch {
		case ctx.Err() != nil: // also if it ends while they are read
			err = fmt.Errorf("another session is putting a token in force, or revoking one, and has not ended: %w", ctx.Err())
		case readErr != nil:
			err = readErr
		default:
			began = slices.DeleteFunc(began, func(act string) bool { return !slices.Contains(open, act) })
		}
	}
	return err
}
