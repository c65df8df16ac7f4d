package alertdrill

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// certificateFiles are those of the API.
func (w *world) certificateFiles() (certificate, key string) {
	return filepath.Join(w.dir, "api.pem"), filepath.Join(w.dir, "api.key")
}

// certificate writes the certificate of the API, which began 90 days ago, with its key.
func (w *world) certificate(left time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-90 * 24 * time.Hour),
		NotAfter: time.Now().Add(left), DNSNames: []string{"api.example"}}
	public, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	publicFile, privateFile := w.certificateFiles()
	return errors.Join(
		os.WriteFile(privateFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(publicFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600))
}

// expiringCertificate starts an API whose certificate is nearly at its end.
func (w *world) expiringCertificate(ctx context.Context) ([]string, error) {
	if err := w.certificate(15 * time.Minute); err != nil {
		return nil, err
	}
	certificate, key := w.certificateFiles()
	_, err := w.startAPI(ctx, "RAILHEAD_API_CERT_FILE="+certificate, "RAILHEAD_API_KEY_FILE="+key)
	return []string{"CERTIFICATE=" + certificate}, err
}
