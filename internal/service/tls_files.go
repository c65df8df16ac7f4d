package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// readPair reads a certificate with its chain, and its key. One that is not valid now is an error: clients would
// refuse it.
func readPair(names []string) (c tlsContent, err error) {
	if c.pair, err = tls.LoadX509KeyPair(names[0], names[1]); err != nil {
		return c, fmt.Errorf("the server's certificate: %w", err)
	}
	c.whole, c.first = c.pair.Leaf, c.pair.Leaf
	for _, each := range c.pair.Certificate[1:] {
		signer, err := x509.ParseCertificate(each)
		if err != nil {
			return c, fmt.Errorf("the server's certificate: the chain in %s: %w", names[0], err)
		}
		if signer.NotAfter.Before(c.first.NotAfter) {
			c.first = signer
		}
	}
	if now := time.Now(); now.Before(c.whole.NotBefore) {
		return c, fmt.Errorf("the certificate in %s is valid from %s, which is later than the clock of this machine: "+
			"put one that is valid now in its place, or set the clock", names[0], c.whole.NotBefore.UTC().Format(time.RFC3339))
	}
	return c, expired(names[0], c.whole, time.Now())
}

// readPeople reads the certificates that sign those of clients.
func readPeople(names []string) (c tlsContent, err error) {
	text, err := os.ReadFile(names[0])
	if err != nil {
		return c, fmt.Errorf("certificates that sign those of clients: %w", err)
	}
	c.people = x509.NewCertPool()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			continue
		}
		c.people.AddCert(one)
		if c.whole == nil || one.NotAfter.After(c.whole.NotAfter) {
			c.whole, c.first = one, one
		}
	}
	if c.whole == nil {
		return c, fmt.Errorf("%s holds no certificate in PEM", names[0])
	}
	return c, nil
}

// expired returns an error if a certificate of a file has expired by the clock of this machine.
func expired(name string, one *x509.Certificate, now time.Time) error {
	if now.After(one.NotAfter) {
		return fmt.Errorf("the certificate in %s expired at %s: put a renewed one in its place", name,
			one.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
