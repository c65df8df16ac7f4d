package service

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// readFiles reads files, and returns a digest of their contents.
func readFiles(
	names []string, read func(name string) ([]byte, error),
) (texts [][]byte, digest [sha256.Size]byte, err error) {
	var all []byte
	for _, name := range names {
		text, err := read(name)
		if err != nil {
			return nil, digest, err
		}
		one := sha256.Sum256(text)
		texts, all = append(texts, text), append(all, one[:]...)
	}
	return texts, sha256.Sum256(all), nil
}

// readFile reads a file of at most fileMax.
func readFile(name string) (text []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(file, fileMax+1)); err == nil && len(text) > fileMax {
		err = fmt.Errorf("%s has more than %d KiB: it is no file of certificates", name, fileMax>>10)
	}
	return text, err
}

// parsePair takes a certificate with its chain, and its key. One that is not valid now is an error: clients would
// refuse it.
func parsePair(names []string, texts [][]byte) (c tlsContent, err error) {
	if c.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return c, fmt.Errorf("the server's certificate: %w", err)
	}
	var chain []*x509.Certificate
	for _, each := range c.pair.Certificate[1:] {
		one, err := x509.ParseCertificate(each)
		if err != nil {
			return c, fmt.Errorf("the server's certificate: the chain in %s: %w", names[0], err)
		}
		chain = append(chain, one)
	}
	c.whole = c.pair.Leaf
	c.first = firstEnd(c.whole, chain)
	if now := time.Now(); now.Before(c.whole.NotBefore) {
		return c, fmt.Errorf("the certificate in %s is valid from %s, which is later than the clock of this machine: "+
			"put one that is valid now in its place, or set the clock", names[0], c.whole.NotBefore.UTC().Format(time.RFC3339))
	}
	return c, expired(names[0], c.whole, time.Now())
}

// firstEnd returns of a certificate and those that signed it, one the other, the one that ends first. A client goes by
// no other certificate of the file, and of two that signed the same it needs one.
func firstEnd(at *x509.Certificate, chain []*x509.Certificate) *x509.Certificate {
	first := at
	for range chain {
		var signer *x509.Certificate
		for _, each := range chain {
			if bytes.Equal(each.RawSubject, at.RawIssuer) && at.CheckSignatureFrom(each) == nil &&
				(signer == nil || each.NotAfter.After(signer.NotAfter)) {
				signer = each
			}
		}
		if signer == nil || signer == at {
			break
		}
		if at = signer; at.NotAfter.Before(first.NotAfter) {
			first = at
		}
	}
	return first
}

// parsePeople takes the certificates that sign those of clients.
func parsePeople(names []string, texts [][]byte) (c tlsContent, err error) {
	c.people = x509.NewCertPool()
	for block, rest := pem.Decode(texts[0]); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			continue
		}
		c.people.AddCert(one)
		if c.last == nil || one.NotAfter.After(c.last.NotAfter) {
			c.last = one
		}
		if c.first == nil || one.NotAfter.Before(c.first.NotAfter) {
			c.first = one
		}
	}
	if c.first == nil {
		return c, fmt.Errorf("%s holds no certificate in PEM", names[0])
	}
	return c, nil
}

// expired returns an error if a certificate of a file has expired by the clock of this machine.
func expired(name string, one *x509.Certificate, now time.Time) error {
	if now.After(one.NotAfter) {
		return fmt.Errorf("a certificate in %s expired at %s: put a renewed one in its place", name,
			one.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
