package acl

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	scramPrefix     = "SCRAM-SHA-256$4096:"
	scramIterations = 4096
	scramSaltBytes  = 16
)

// passwordStatement returns the statement that sets the password, none if the login already
// has it. The statement contains the verifier, never the password, because it may be logged.
func passwordStatement(ctx context.Context, tx pgx.Tx, login, password string) ([]string, error) {
	stored, err := storedVerifier(ctx, tx, login)
	if err != nil {
		return nil, err
	}
	alter := "ALTER ROLE " + pgx.Identifier{login}.Sanitize() + " PASSWORD "
	if password == "" {
		if stored == "" {
			return nil, nil
		}
		return []string{alter + "NULL"}, nil
	}
	if strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("a password may hold printable ASCII only") // anything else needs SASLprep
	}
	if verifies(stored, password) {
		return nil, nil
	}
	salt := make([]byte, scramSaltBytes)
	rand.Read(salt) // never fails
	verifier, err := scramVerifier(password, salt)
	if err != nil {
		return nil, err
	}
	return []string{alter + literal(verifier)}, nil
}

// storedVerifier returns the server's verifier of the password; "" if there is none, or if
// this session may not read it.
func storedVerifier(ctx context.Context, tx pgx.Tx, login string) (string, error) {
	var may bool
	err := tx.QueryRow(ctx, "SELECT has_table_privilege('pg_catalog.pg_authid', 'SELECT')").Scan(&may)
	if err != nil {
		return "", fmt.Errorf("checking whether passwords may be read: %w", err)
	}
	if !may {
		return "", nil
	}
	var stored string
	err = tx.QueryRow(ctx,
		"SELECT coalesce(rolpassword, '') FROM pg_catalog.pg_authid WHERE rolname = $1", login).Scan(&stored)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("reading the password's verifier: %w", err)
	}
	return stored, nil
}

// verifies reports whether the stored verifier is of this password.
func verifies(stored, password string) bool {
	rest, ok := strings.CutPrefix(stored, scramPrefix)
	encoded, _, cut := strings.Cut(rest, "$")
	if !ok || !cut {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	verifier, err := scramVerifier(password, salt)
	return err == nil && hmac.Equal([]byte(verifier), []byte(stored))
}

// scramVerifier returns the verifier of a password by RFC 5803, as in pg_authid.
func scramVerifier(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("deriving the password's verifier: %w", err)
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return scramPrefix + encode(salt) + "$" + encode(stored[:]) + ":" + encode(sign("Server Key")), nil
}
