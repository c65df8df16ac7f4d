package httpjson

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestUnreadingTLSBank tests a bank that no longer reads. Closing a TLS connection writes an alert, for
// which crypto/tls allows five seconds; the call still ends within its budget.
func TestUnreadingTLSBank(t *testing.T) {
	each := payment.Duration(100 * time.Millisecond)
	rail, err := Open(Config{
		BaseURL: "https://bank.test",
		Send:    SendConfig{Path: "/", Body: map[string]any{"a": "rail_key"}, Response: SendResponseConfig{Reference: "id"}},
	}, rails.Profile{
		RailType: "bank", Timeouts: rails.Timeouts{Connect: each, TLS: each, Write: each, ResponseHeader: each, Body: each},
	}.WithDefaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rail.(*Rail)
	defer r.Close()
	cert := selfSigned(t)
	handshaken := make(chan struct{})
	r.transport.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe() // it takes no byte that is not read
		t.Cleanup(func() { theirs.Close() })
		go func() {
			defer close(handshaken)
			// Without tickets: nothing is left to be written after it.
			server := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
			if err := server.Handshake(); err != nil {
				t.Error(err)
			}
		}()
		counted := &countingConn{Conn: ours}
		conn := tls.Client(counted, &tls.Config{InsecureSkipVerify: true})
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		<-handshaken
		return &wireConn{Conn: conn, network: counted, timeout: time.Duration(each)}, nil
	}
	began := time.Now()
	got := r.Send(t.Context(), rails.Send{RailKey: "rh0", SendNo: 1, Payload: []byte(`{}`)})
	if took := time.Since(began); took > r.timeouts.Total()+2*time.Second {
		t.Errorf("took %s, the budget is %s", took, r.timeouts.Total())
	}
	if got.Result != payment.ResultNotSent || got.FirstByte {
		t.Errorf("%+v, want NOT_SENT: the bank took no byte of the request", got)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	facts := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, facts, facts, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
