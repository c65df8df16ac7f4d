package railsim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSignatureAndBearer(t *testing.T) {
	now := newClock()
	secret := []byte("a shared secret")
	f := start(t, Config{Now: now.Now, SignatureSecret: secret, BearerToken: "letmein"})
	sign := func(at time.Time, body string) (stamp, signature string) {
		stamp = strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(stamp + body))
		return stamp, "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	body := simple("r")
	stamp, good := sign(now.Now(), body)
	oldStamp, old := sign(now.Now().Add(-signatureTolerance-time.Second), body)
	aheadStamp, ahead := sign(now.Now().Add(signatureTolerance+time.Second), body)
	_, foreign := sign(now.Now(), body+" ")
	for _, c := range []struct{ name, token, stamp, signature string }{
		{"no token", "", stamp, good},
		{"wrong token", "Bearer letmeout", stamp, good},
		{"no scheme", "letmein", stamp, good},
		{"no signature", "Bearer letmein", stamp, ""},
		{"no timestamp", "Bearer letmein", "", good},
		{"another timestamp", "Bearer letmein", "1" + stamp, good},
		{"old", "Bearer letmein", oldStamp, old},
		{"ahead", "Bearer letmein", aheadStamp, ahead},
		{"of another body", "Bearer letmein", stamp, foreign},
		{"no hex", "Bearer letmein", stamp, "sha256=xyz"},
		{"no prefix", "Bearer letmein", stamp, strings.TrimPrefix(good, "sha256=")},
	} {
		g := f.do(t.Context(), http.MethodPost, "/payments", body, "Idempotency-Key", "k", "Authorization", c.token,
			"X-Timestamp", c.stamp, "X-Signature", c.signature)
		if g.status != http.StatusUnauthorized {
			t.Errorf("%s: got %v", c.name, g)
		}
	}
	f.ledger(0, 0)
	f.want(f.inquire("k"), http.StatusUnauthorized, "UNAUTHORISED")
	g := f.do(t.Context(), http.MethodPost, "/payments", body, "Idempotency-Key", "k", "Authorization", "Bearer letmein",
		"X-Timestamp", stamp, "X-Signature", good)
	f.want(g, http.StatusCreated, "EXECUTED")
	stamp, good = sign(now.Now(), "")
	g = f.do(t.Context(), http.MethodGet, "/payments/by-key/k", "", "Authorization", "Bearer letmein", "X-Timestamp",
		stamp, "X-Signature", good)
	f.want(g, http.StatusOK, "EXECUTED")
	if g := f.do(t.Context(), http.MethodGet, "/ledger/summary", ""); g.status != http.StatusOK {
		t.Errorf("summary %v", g)
	}
}

// certificate signs a new one for name with the parent's key, or with its own if there is no parent.
func certificate(t *testing.T, name string, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  parent == nil,
		BasicConstraintsValid: true,
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestMutualTLSAndItsFaults(t *testing.T) {
	ca, stranger := certificate(t, "ca", nil), certificate(t, "stranger", nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	f := start(t, Config{TLS: &tls.Config{
		Certificates: []tls.Certificate{certificate(t, "bank", &ca)},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}})
	f.url = strings.Replace(f.url, "http:", "https:", 1)
	as := func(client *tls.Certificate) {
		cfg := &tls.Config{RootCAs: pool}
		if client != nil {
			cfg.Certificates = []tls.Certificate{*client}
		}
		// Kept alive, an old connection would outlive the change of certificates and of faults.
		f.client.Transport = &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true,
			TLSHandshakeTimeout: 200 * time.Millisecond, ResponseHeaderTimeout: 200 * time.Millisecond}
	}
	as(nil)
	if g := f.pay("k", simple("r")); g.err == nil {
		t.Errorf("without a certificate: %v", g)
	}
	as(new(certificate(t, "client", &stranger)))
	if g := f.pay("k", simple("r")); g.err == nil {
		t.Errorf("with a stranger's certificate: %v", g)
	}
	f.ledger(0, 0)
	as(new(certificate(t, "client", &ca)))
	f.want(f.pay("k", simple("r")), http.StatusCreated, "EXECUTED")

	for _, c := range []struct {
		kind     FaultKind
		says     string
		executed int
	}{
		{HangAccept, "handshake timeout", 0},
		{HangUnread, "awaiting response headers", 0},
		{ResetBefore, "reset", 0},
		{ResetAfter, "reset", 1},
		{DropAfter, "EOF", 1},
	} {
		before := f.bank.Summary().Executed
		if err := f.bank.SetFaults(Fault{Kind: c.kind, Probability: 1}); err != nil {
			t.Fatal(err)
		}
		g := f.pay(string(c.kind), simple(string(c.kind)))
		if g.err == nil || !strings.Contains(g.err.Error(), c.says) {
			t.Errorf("%s: got %v", c.kind, g)
		}
		f.ledger(before+c.executed, 0)
	}
}
