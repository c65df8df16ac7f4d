package nats

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails/internal/streak"
)

// What is at the servers' address.
const (
	theServer int32 = iota
	another         // it has a certificate that is not trusted
	nothing         // it ends each connection
)

func issued(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	facts := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, facts, facts, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// greets serves one connection up to the end of the login.
func greets(conn net.Conn, there int32, certificates map[int32]tls.Certificate, refuses bool) {
	defer conn.Close()
	if there == nothing {
		return
	}
	_, _ = io.WriteString(conn, `INFO {"headers":true,"jetstream":true,"tls_required":true,"max_payload":1048576}`+"\r\n")
	secured := tls.Server(conn, &tls.Config{
		Certificates: []tls.Certificate{certificates[there]}, MinVersion: tls.VersionTLS12})
	for lines := bufio.NewScanner(secured); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "PING") {
			said := "PONG\r\n"
			if refuses {
				said = "-ERR 'Authorization Violation'\r\n"
			}
			_, _ = io.WriteString(secured, said)
		}
	}
}

// TestUntrustedForAWhile: a certificate that is not trusted, which a captive portal shows for a while, keeps messages
// from being sent, and refuses the rail only if it lasts. A connection to a server ends the count. A server that
// refuses our login does so at once.
func TestUntrustedForAWhile(t *testing.T) {
	t.Parallel()
	certificates := map[int32]tls.Certificate{theServer: issued(t), another: issued(t)}
	roots := x509.NewCertPool()
	roots.AddCert(certificates[theServer].Leaf)
	type step struct {
		after            time.Duration
		there            int32
		connects, broken bool
	}
	for name, c := range map[string]struct {
		refuses bool
		steps   []step
	}{
		"once":             {steps: []step{{there: another}}},
		"many at once":     {steps: []step{{there: another}, {there: another}, {there: another}, {after: streak.For - 1, there: another}}},
		"twice in an hour": {steps: []step{{there: another}, {after: time.Hour, there: another}}},
		"for as long as it may": {steps: []step{{there: another}, {after: 1, there: another}, {after: streak.For - 1, there: another, broken: true},
			{there: another, broken: true}}},
		"nothing meanwhile": {steps: []step{{there: another}, {after: 1, there: nothing}, {after: streak.For, there: another},
			{there: another, broken: true}}},
		"the server meanwhile": {steps: []step{{there: another}, {there: another}, {after: streak.For, there: theServer, connects: true},
			{there: another}, {there: another}}},
		"a refused login": {refuses: true, steps: []step{{there: theServer, broken: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			var there atomic.Int32
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go greets(conn, there.Load(), certificates, c.refuses)
				}
			}()
			clock := time.Now()
			s := servers{
				config: Config{Servers: []string{"tls://" + listener.Addr().String()}, InboxPrefix: "_INBOX"},
				login:  login{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
				now:    func() time.Time { return clock },
			}
			for n, step := range c.steps {
				clock = clock.Add(step.after)
				there.Store(step.there)
				got, err := s.dialAny(t.Context())
				if err == nil {
					got.abort()
				}
				if (err == nil) != step.connects || errors.Is(err, errRefused) != step.broken {
					t.Errorf("step %d: %v", n+1, err)
				}
			}
		})
	}
}
