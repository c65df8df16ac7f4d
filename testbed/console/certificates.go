package console

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	one := &authority{}
	made, err := one.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	if err != nil {
		return nil, err
	}
	one.certificate, err = x509.ParseCertificate(made.Certificate[0])
	one.key = made.PrivateKey.(*ecdsa.PrivateKey)
	return one, err
}

// issue signs a certificate with a new key; an authority without a certificate signs its own.
func (a *authority) issue(of *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	of.SerialNumber = big.NewInt(time.Now().UnixNano())
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = of, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

// person is the certificate of a person.
func (a *authority) person(name, unit string) (tls.Certificate, error) {
	return a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: name, OrganizationalUnit: []string{unit}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// written writes a certificate and its key as files.
func written(folder, name string, one tls.Certificate) (certificate, key string, err error) {
	certificate, key = filepath.Join(folder, name+".pem"), filepath.Join(folder, name+"-key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Certificate[0]})
	if err := os.WriteFile(certificate, text, 0o644); err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(one.PrivateKey)
	if err != nil {
		return "", "", err
	}
	return certificate, key, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// certificates logs in by client certificates, with a client of HTTPS: each role, none, and one that another
// authority has signed. A session is one only together with its certificate.
func (k *walker) certificates(ctx context.Context, w *world) error {
	ours, err := newAuthority("people of a run")
	if err != nil {
		return err
	}
	others, err := newAuthority("others")
	if err != nil {
		return err
	}
	server, err := ours.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "console"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return err
	}
	certificate, key, err := written(w.dir, "console", server)
	if err != nil {
		return err
	}
	authorityFile, _, err := written(w.dir, "people", tls.Certificate{Certificate: [][]byte{ours.certificate.Raw},
		PrivateKey: ours.key})
	if err != nil {
		return err
	}
	addr, err := child.FreeAddr()
	if err != nil {
		return err
	}
	_, err = w.start(ctx, "console", "console-tls", "RAILHEAD_READER_URL="+w.url(install.Readonly),
		"RAILHEAD_OPERATOR_URL="+w.url(install.Operator), "RAILHEAD_CONSOLE_OPERATE=true", "RAILHEAD_CONSOLE_ADDR="+addr,
		"RAILHEAD_CONSOLE_CERT_FILE="+certificate, "RAILHEAD_CONSOLE_KEY_FILE="+key,
		"RAILHEAD_CONSOLE_CLIENT_CA_FILE="+authorityFile, "RAILHEAD_CONSOLE_OPERATORS=cn:amy",
		"RAILHEAD_CONSOLE_READERS=ou:support")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ours.certificate)
	for _, each := range []struct {
		name, unit string
		of         *authority // nil: no certificate
		role       string     // empty: it is refused
	}{
		{"amy", "on-call", ours, "operate"}, {"eve", "support", ours, "read"}, {"bob", "staff", ours, ""},
		{"amy", "on-call", others, ""}, {"without", "", nil, ""},
	} {
		k.steps++
		one := person{base: "https://" + addr, roots: roots}
		if each.of != nil {
			made, err := each.of.person(each.name, each.unit)
			if err != nil {
				return err
			}
			one.certificate = &made
		}
		if err := one.enter(ctx, k.names, each.name, each.role); err != nil {
			return fmt.Errorf("%s of %s: %w", each.name, each.unit, err)
		}
	}
	return nil
}

// person is a client of HTTPS with a certificate, or with none.
type person struct {
	base        string
	roots       *x509.CertPool
	certificate *tls.Certificate
}

// client has a connection, and cookies if jar is not nil.
func (p person) client(jar http.CookieJar, with *tls.Certificate) *http.Client {
	config := &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12}
	if with != nil { // whatever authorities the server names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return with, nil }
	}
	return &http.Client{Jar: jar, Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: config,
		DisableKeepAlives: true}}
}

// enter logs in, and holds the console to what the role may do.
func (p person) enter(ctx context.Context, names names, name, role string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := p.client(jar, p.certificate)
	status, _, err := p.ask(ctx, client, http.MethodPost, "/login/certificate")
	if role == "" {
		if err == nil && status != http.StatusForbidden { // or no connection at all
			return fmt.Errorf("the login is answered %d, want 403", status)
		}
		if status, _, err = p.ask(ctx, client, http.MethodGet, "/"); err == nil && status == http.StatusOK {
			return fmt.Errorf("the first page is shown")
		}
		return nil
	}
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("the login is answered %d: %w", status, err)
	}
	status, text, err := p.ask(ctx, client, http.MethodGet, "/")
	if err != nil || status != http.StatusOK || !strings.Contains(text, name+", "+role) {
		return fmt.Errorf("the first page is answered %d, and does not name %s, %s: %w", status, name, role, err)
	}
	status, _, err = p.ask(ctx, p.client(jar, nil), http.MethodGet, "/")
	if err != nil || status != http.StatusUnauthorized {
		return fmt.Errorf("the session without its certificate is answered %d, want 401: %w", status, err)
	}
	if role != "read" {
		return nil
	}
	for _, addresses := range byHand {
		for _, address := range addresses {
			status, _, err = p.ask(ctx, client, http.MethodPost, names.in(address))
			if err != nil || status != http.StatusForbidden {
				return fmt.Errorf("%s by hand is answered %d, want 403: %w", address, status, err)
			}
		}
	}
	return nil
}

func (p person) ask(ctx context.Context, client *http.Client, method, path string) (int, string, error) {
	form := url.Values{"reason": {"x"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(form))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, string(text), err
}

func connect(ctx context.Context, address string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connecting as the login of readers: %w", err)
	}
	return conn, nil
}
