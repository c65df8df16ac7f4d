// Package tlsconf is how the connections of rails use TLS: the section tls of a rails file.
package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/railhead-pay/railhead/rails/secret"
)

// Config configures the connections of a rail. It holds references to secrets, not secrets. The zero value trusts the
// system's certificates, and shows none of ours.
type Config struct {
	CA         secret.Ref `json:"ca"`          // PEM; replaces the system's roots
	ClientCert secret.Ref `json:"client_cert"` // PEM; with ClientKey
	ClientKey  secret.Ref `json:"client_key"`  // PEM; with ClientCert
	ServerName string     `json:"server_name"` // replaces the host of the URL
}

// Open loads the trusted certificates and our own. It returns the settings, which require at least TLS 1.2, the secrets
// that it resolved, and all faults in one error, each with its field first.
func (c Config) Open(getenv func(string) string) (*tls.Config, []secret.Value, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	var all []error
	if !c.CA.IsZero() {
		pem, err := c.CA.Resolve(getenv)
		if err != nil {
			all = append(all, fmt.Errorf("tls.ca: %w", err))
		}
		config.RootCAs = x509.NewCertPool()
		if err == nil && !config.RootCAs.AppendCertsFromPEM([]byte(pem.Reveal())) {
			all = append(all, fmt.Errorf("tls.ca: %s contains no certificate", c.CA))
		}
	}
	if c.ClientCert.IsZero() {
		return config, nil, errors.Join(all...)
	}
	cert, certErr := c.ClientCert.Resolve(getenv)
	key, keyErr := c.ClientKey.Resolve(getenv)
	if err := errors.Join(certErr, keyErr); err != nil {
		return config, nil, errors.Join(append(all, fmt.Errorf("tls.client_cert: %w", err))...)
	}
	pair, err := tls.X509KeyPair([]byte(cert.Reveal()), []byte(key.Reveal()))
	if err != nil {
		all = append(all, fmt.Errorf("tls.client_cert: %w", err))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, []secret.Value{key}, errors.Join(all...)
}

// Untrusted reports whether an error is that a server's certificate is not trusted: it would keep every other
// connection from being made, until an operator repairs trust or certificate.
func Untrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}
