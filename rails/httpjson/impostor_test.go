package httpjson

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/streak"
)

// issued returns a certificate that signs itself.
func issued(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	facts := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bank"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, facts, facts, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// What is at the bank's address.
const (
	theBank int32 = iota
	another       // it has another certificate
	portal        // it does not use TLS
	nothing       // it ends each connection
)

// TestWrongCertificate tests that what has the bank's address for a while without its certificate, as a captive portal
// does, keeps payments from being sent and does not pause the rail. If it stays, an operator has to repair it.
func TestWrongCertificate(t *testing.T) {
	const unsent, broken, refused = payment.ResultNotSent, payment.ResultRefusedRail, payment.ResultRefusedFinal
	trusted, other := issued(t), issued(t)
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(trusted.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	type step struct {
		after time.Duration
		there int32
		want  payment.Result
	}
	for name, steps := range map[string][]step{
		"once":                  {{0, another, unsent}},
		"many at once":          {{0, another, unsent}, {0, another, unsent}, {0, portal, unsent}, {streak.For - 1, another, unsent}},
		"twice in an hour":      {{0, another, unsent}, {time.Hour, another, unsent}},
		"for as long as it may": {{0, another, unsent}, {1, portal, unsent}, {streak.For - 1, another, broken}, {0, portal, broken}},
		"nothing meanwhile":     {{0, another, unsent}, {1, nothing, unsent}, {streak.For, another, unsent}, {0, another, broken}},
		"the bank meanwhile":    {{0, another, unsent}, {0, another, unsent}, {streak.For, theBank, refused}, {0, another, unsent}, {0, another, unsent}},
	} {
		t.Run(name, func(t *testing.T) {
			var there atomic.Int32
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go atTheAddress(conn, there.Load(), trusted, other)
				}
			}()
			rail, err := Open(Config{
				BaseURL: "https://" + listener.Addr().String(), AllowLoopback: true,
				Send: SendConfig{Path: "/", Body: map[string]any{"a": "rail_key"}, Response: SendResponseConfig{Reference: "id"}},
			}, rails.Profile{RailType: "bank"}.WithDefaults(), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := rail.(*Rail)
			defer r.Close()
			clock := time.Now()
			r.transport = newTransport(&dialer{
				timeouts: r.timeouts, loopback: true, tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				now: func() time.Time { return clock },
			}, 1)
			for n, step := range steps {
				clock = clock.Add(step.after)
				there.Store(step.there)
				got := r.Send(t.Context(), rails.Send{RailKey: "rh0", SendNo: 1, Payload: []byte(`{}`)})
				if got.Result != step.want || got.FirstByte != (step.there == theBank) || got.OwnStop {
					t.Errorf("step %d: %+v, want %s", n+1, got, step.want)
				}
			}
		})
	}
}

// atTheAddress serves one connection. Its errors are those that the test asks for.
func atTheAddress(conn net.Conn, there int32, trusted, other tls.Certificate) {
	defer conn.Close()
	certificate := trusted
	switch there {
	case nothing:
		return
	case portal:
		_, _ = io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")
		return
	case another:
		certificate = other
	}
	secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	request, err := http.ReadRequest(bufio.NewReader(secure))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, request.Body)
	_, _ = io.WriteString(secure, "HTTP/1.1 422 x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
}
