package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// TestToken creates a token, lists it, and revokes it.
func TestToken(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{
		"RAILHEAD_ADMIN_URL=" + cell.URL(""), "RAILHEAD_READER_URL=" + cell.URL(celltest.Readonly),
		"RAILHEAD_OPERATOR_URL=" + cell.URL(celltest.Operator),
	}}
	if got := who.want(exitOK, "token", "list"); got.out != "no token\n" {
		t.Errorf("an empty list: %s", got.out)
	}
	made := who.want(exitOK, "token", "create", "--name", "shop", "--participant", "p1,p2", "--verbs", "enqueue,READ",
		"--expires-in", "1h", "--reason", "a test")
	token := strings.TrimSpace(made.out)
	if !strings.HasPrefix(token, "rht_") || len(token) != 47 || strings.Contains(made.errors, token) {
		t.Fatalf("made %q, and said %s", made.out, made.errors)
	}
	door, err := door.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(door.Close)
	known, err := door.Token(t.Context(), outbox.TokenDigest(token))
	if err != nil || !known.InForce || known.Name != "shop" || strings.Join(known.Participants, " ") != "p1 p2" ||
		strings.Join(known.Verbs, " ") != "ENQUEUE READ" {
		t.Errorf("known as %+v, %v", known, err)
	}
	if got := who.want(exitOK, "token", "list").out; !strings.Contains(got, known.ID) || strings.Contains(got, token) {
		t.Errorf("listed: %s", got)
	}
	if got := who.want(exitOK, "token", "revoke", known.ID, "--reason", "a test").out; !strings.Contains(got,
		"is revoked") {
		t.Errorf("revoked: %s", got)
	}
	if got := who.want(exitOK, "token", "revoke", known.ID, "--reason", "a test").out; !strings.Contains(got,
		"was revoked already") {
		t.Errorf("revoked again: %s", got)
	}
	if known, err = door.Token(t.Context(), outbox.TokenDigest(token)); err != nil || known.InForce {
		t.Errorf("after the revocation: %+v, %v", known, err)
	}
	var listed []reader.ListedToken
	if err := json.Unmarshal([]byte(who.want(exitOK, "token", "list", "-o", "json").out), &listed); err != nil ||
		len(listed) != 1 || listed[0].RevokedAt.IsZero() {
		t.Errorf("listed %+v, %v", listed, err)
	}
	who.want(exitNotFound, "token", "revoke", "none", "--reason", "a test")
	who.want(exitUsage, "token", "create", "--name", "shop", "--participant", "p1", "--verbs", "pay", "--reason", "a test")
	who.want(exitUsage, "token", "create", "--name", "shop", "--participant", "p1", "--expires-in", "-1h", "--reason",
		"a test")
	operator := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + cell.URL(celltest.Operator)}}
	operator.want(exitDenied, "token", "create", "--name", "shop", "--participant", "p1", "--reason", "a test")

	file, sum := certificate(t)
	bound := strings.TrimSpace(who.want(exitOK, "token", "create", "--name", "shop", "--participant", "p1",
		"--certificate", file, "--reason", "a test").out)
	if known, err = door.Token(t.Context(), outbox.TokenDigest(bound)); err != nil ||
		string(known.Certificate) != string(sum) {
		t.Errorf("bound to %x, %v; want %x", known.Certificate, err, sum)
	}
	who.want(exitUsage, "token", "create", "--name", "shop", "--participant", "p1", "--certificate", "token_test.go",
		"--reason", "a test")
}

// certificate makes a certificate, and SHA-256 of its public key.
func certificate(t *testing.T) (file string, sum []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	text, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "client.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text}), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(public)
	return file, digest[:]
}
