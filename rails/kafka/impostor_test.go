package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/internal/streak"
	"github.com/railhead-pay/railhead/rails/kafka"
)

// What is at the brokers' address.
const (
	theBroker int32 = iota
	another         // it has a certificate that is not trusted
	nothing         // it ends each connection
)

// issued returns a certificate that signs itself, and its text.
func issued(t *testing.T) (made tls.Certificate, text string) {
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
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// front ends the TLS of connections to a broker.
type front struct {
	listener       net.Listener
	trusted, other tls.Certificate
	behind         string

	mu    sync.Mutex
	there int32
	conns []net.Conn
}

// becomes puts something at the address, and ends the connections that there are.
func (f *front) becomes(there int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there = there
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

func (f *front) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		there := f.there
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
		go f.pass(conn, there)
	}
}

func (f *front) pass(conn net.Conn, there int32) {
	defer conn.Close()
	certificate := map[int32]tls.Certificate{theBroker: f.trusted, another: f.other}[there]
	if there == nothing {
		return
	}
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if secured.Handshake() != nil {
		return
	}
	behind, err := net.Dial("tcp", strings.TrimPrefix(f.behind, "kafka://"))
	if err != nil {
		return
	}
	defer behind.Close()
	go io.Copy(behind, secured) //nolint:errcheck // it ends with the connection
	io.Copy(secured, behind)    //nolint:errcheck // it ends with the connection
}

// TestUntrustedForAWhile: a certificate that is not trusted, which a captive portal shows for a while, keeps records
// from being sent, and pauses the rail only if it lasts. A connection to the broker ends the count.
func TestUntrustedForAWhile(t *testing.T) {
	t.Parallel()
	const unsent, broken, taken = payment.ResultNotSent, payment.ResultRefusedRail, payment.ResultAccepted
	trusted, ca := issued(t)
	other, _ := issued(t)
	type step struct {
		after time.Duration
		there int32
		want  payment.Result
	}
	for name, steps := range map[string][]step{
		"once":                  {{0, another, unsent}},
		"many at once":          {{0, another, unsent}, {0, another, unsent}, {0, another, unsent}, {streak.For - 1, another, unsent}},
		"twice in an hour":      {{0, another, unsent}, {time.Hour, another, unsent}},
		"for as long as it may": {{0, another, unsent}, {1, another, unsent}, {streak.For - 1, another, broken}, {0, another, broken}},
		"nothing meanwhile":     {{0, another, unsent}, {1, nothing, unsent}, {streak.For, another, unsent}, {1, another, broken}},
		"the broker meanwhile": {{0, another, unsent}, {0, another, unsent}, {streak.For, theBroker, taken},
			{0, another, unsent}, {0, another, unsent}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			address := "tls://" + listener.Addr().String()
			leads := map[int32]string{}
			for n := range int32(4) {
				leads[n] = "kafka://" + listener.Addr().String()
			}
			at := &front{listener: listener, trusted: trusted, other: other,
				behind: accepts(t, witness{leaders: leads}).Address()}
			t.Cleanup(func() { at.becomes(nothing) })
			go at.serve()
			c := config(t, address)
			c.TLS.CA = ref(t, "env:CA")
			rail, err := kafka.Open(c, profile(), func(name string) string {
				return map[string]string{"CA": ca, "KAFKA_PASSWORD": password}[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { rail.Close() })
			clock := time.Now()
			rail.SetClock(func() time.Time { return clock })
			for n, step := range steps {
				clock = clock.Add(step.after)
				at.becomes(step.there)
				got := rail.Send(t.Context(), message())
				if got.Result != step.want || got.FirstByte != (step.want == taken) || got.OwnStop {
					t.Errorf("step %d: %+v, want %s", n+1, got, step.want)
				}
			}
		})
	}
}
