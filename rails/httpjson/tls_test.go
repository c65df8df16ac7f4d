package httpjson_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// identity is a certificate with its key, in memory and as PEM files.
type identity struct {
	cert              tls.Certificate
	certFile, keyFile string
}

func newIdentity(t *testing.T, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	facts := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, facts, facts, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return identity{cert: cert, certFile: file(t, name+".crt", certPEM), keyFile: file(t, name+".key", keyPEM)}
}

func file(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tlsBank accepts every payment, over TLS with these settings.
func tlsBank(t *testing.T, settings *tls.Config) *httptest.Server {
	t.Helper()
	bank := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("parsedAnswer to in %s", r.Proto)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"status":"EXECUTED","id":"b-1","reference":"`+r.Header.Get("Idempotency-Key")+`"}`)
	}))
	bank.Config.ErrorLog = log.New(io.Discard, "", 0)
	bank.TLS = settings
	bank.EnableHTTP2 = true
	bank.StartTLS()
	t.Cleanup(bank.Close)
	return bank
}

func sendOver(t *testing.T, baseURL string, change func(*httpjson.Config)) rails.Result {
	t.Helper()
	c := config(t, baseURL)
	c.AllowPlaintext = false
	change(&c)
	rail := open(t, c, profile())
	defer rail.(io.Closer).Close()
	return rail.Send(t.Context(), instruction(t))
}

func at(t *testing.T, path string) secret.Ref { return ref(t, "file:"+path) }

func TestTLSTrust(t *testing.T) {
	bank, other := newIdentity(t, "bank.test"), newIdentity(t, "other.test")
	server := tlsBank(t, &tls.Config{Certificates: []tls.Certificate{bank.cert}})
	old := tlsBank(t, &tls.Config{Certificates: []tls.Certificate{bank.cert}, MaxVersion: tls.VersionTLS11,
		MinVersion: tls.VersionTLS10})
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, c := range map[string]struct {
		url    string
		change func(*httpjson.Config)
		want   payment.Result
	}{
		"trusted":           {server.URL, func(c *httpjson.Config) { c.TLS.CA = at(t, bank.certFile) }, payment.ResultAccepted},
		"trusted by name":   {server.URL, func(c *httpjson.Config) { c.TLS.CA, c.TLS.ServerName = at(t, bank.certFile), "bank.test" }, payment.ResultAccepted},
		"no authority's":    {server.URL, func(*httpjson.Config) {}, payment.ResultNotSent},
		"another's":         {server.URL, func(c *httpjson.Config) { c.TLS.CA = at(t, other.certFile) }, payment.ResultNotSent},
		"of another name":   {server.URL, func(c *httpjson.Config) { c.TLS.CA, c.TLS.ServerName = at(t, bank.certFile), "evil.test" }, payment.ResultNotSent},
		"does not speak it": {"https" + plain.URL[4:], func(*httpjson.Config) {}, payment.ResultNotSent},
		"only old versions": {old.URL, func(c *httpjson.Config) { c.TLS.CA = at(t, bank.certFile) }, payment.ResultNotSent},
	} {
		got := sendOver(t, c.url, c.change)
		if got.Result != c.want || got.FirstByte != (c.want == payment.ResultAccepted) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	bank, we, stranger := newIdentity(t, "bank.test"), newIdentity(t, "railhead.test"), newIdentity(t, "stranger.test")
	check := func(presented [][]byte, _ [][]*x509.Certificate) error {
		if !bytes.Equal(presented[0], we.cert.Certificate[0]) {
			return errors.New("who is that")
		}
		return nil
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := tlsBank(t, &tls.Config{
			Certificates: []tls.Certificate{bank.cert}, ClientAuth: tls.RequireAnyClientCert, VerifyPeerCertificate: check,
			MaxVersion: version,
		})
		for name, who := range map[string]*identity{"ours": &we, "a stranger's": &stranger, "none": nil} {
			got := sendOver(t, server.URL, func(config *httpjson.Config) {
				config.TLS.CA = at(t, bank.certFile)
				if who != nil {
					config.TLS.ClientCert, config.TLS.ClientKey = at(t, who.certFile), at(t, who.keyFile)
				}
			})
			switch {
			case who == &we && got.Result != payment.ResultAccepted,
				who == &stranger && version == tls.VersionTLS12 && got.Result != payment.ResultRefusedRail,
				who == nil && version == tls.VersionTLS12 && got.Result != payment.ResultNotSent:
				t.Errorf("%s, %s: %+v", tls.VersionName(version), name, got)
			// In TLS 1.3 a client may have sent its request before it learns that its certificate
			// is refused; then the outcome is unknown.
			case who != &we && version == tls.VersionTLS13 &&
				!(got.Result == payment.ResultRefusedRail && !got.FirstByte) &&
				!(got.Result == payment.ResultUnknown && got.FirstByte):
				t.Errorf("%s, %s: %+v", tls.VersionName(version), name, got)
			}
		}
	}
}

// TestCertificateRefusedLate tests TLS 1.3, with which a bank refuses our certificate when the request may have left:
// sends are UNKNOWN then, and inquiries UNAVAILABLE, and both say that the rail refuses us.
func TestCertificateRefusedLate(t *testing.T) {
	bank, we := newIdentity(t, "bank.test"), newIdentity(t, "railhead.test")
	server := tlsBank(t, &tls.Config{
		Certificates: []tls.Certificate{bank.cert}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { return errors.New("expired") },
	})
	c := config(t, server.URL)
	c.AllowPlaintext = false
	c.TLS = tlsconf.Config{CA: at(t, bank.certFile), ClientCert: at(t, we.certFile), ClientKey: at(t, we.keyFile)}
	rail := open(t, c, profile())
	defer rail.(io.Closer).Close()
	var sends, inquiries int
	for n := 0; n < 200 && (sends == 0 || inquiries == 0); n++ {
		s := instruction(t)
		sent, asked := rail.Send(t.Context(), s), rail.(rails.Inquirer).Inquire(t.Context(), inquiryOf(rail, s))
		for count, got := range map[*int]rails.Result{&sends: sent, &inquiries: asked} {
			refused := strings.Contains(got.Message, "remote error: tls: bad certificate")
			late := refused && got.FirstByte
			if late {
				*count++
			}
			want := late || refused && count == &inquiries // before the first byte a send is REFUSED_RAIL
			if got.RailRefused != want || late && got.Result == payment.ResultRefusedRail {
				t.Errorf("%+v", got)
			}
		}
	}
	if sends == 0 || inquiries == 0 {
		t.Errorf("%d sends and %d inquiries were refused after the first byte, want one of each", sends, inquiries)
	}
}

// TestCertificateRefusedEarly tests TLS 1.2, with which no request leaves: an inquiry has no result REFUSED_RAIL, and
// says the same in another way.
func TestCertificateRefusedEarly(t *testing.T) {
	bank, we := newIdentity(t, "bank.test"), newIdentity(t, "railhead.test")
	server := tlsBank(t, &tls.Config{
		Certificates: []tls.Certificate{bank.cert}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { return errors.New("expired") },
	})
	c := config(t, server.URL)
	c.AllowPlaintext = false
	c.TLS = tlsconf.Config{CA: at(t, bank.certFile), ClientCert: at(t, we.certFile), ClientKey: at(t, we.keyFile)}
	rail := open(t, c, profile())
	defer rail.(io.Closer).Close()
	s := instruction(t)
	if got := rail.Send(t.Context(), s); got.Result != payment.ResultRefusedRail || got.FirstByte {
		t.Errorf("the send: %+v", got)
	}
	got := rail.(rails.Inquirer).Inquire(t.Context(), inquiryOf(rail, s))
	if got.Result != payment.ResultUnavailable || !got.RailRefused || got.FirstByte {
		t.Errorf("the inquiry: %+v", got)
	}
}

// TestHandshakeHangs tests a server that accepts the connection and is then silent.
func TestHandshakeHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	facts := profile()
	facts.Timeouts.TLS = payment.Duration(100 * time.Millisecond)
	rail := open(t, config(t, "https://"+listener.Addr().String()), facts)
	defer rail.(io.Closer).Close()
	began := time.Now()
	got := rail.Send(t.Context(), instruction(t))
	if got.Result != payment.ResultNotSent || got.FirstByte || got.OwnStop {
		t.Errorf("%+v, want NOT_SENT", got)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}
