package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/rails/secret"
)

// signer signs deliveries as Standard Webhooks defines (https://www.standardwebhooks.com,
// "Signature scheme"): over id.timestamp.body, once with each secret (v1, HMAC-SHA256), and with
// the key (v1a, Ed25519) if there is one.
type signer struct {
	secrets [][]byte
	key     ed25519.PrivateKey
}

// newSigner resolves an endpoint's secrets. Errors contain the reference and never the value.
func newSigner(e Endpoint, getenv func(string) string) (signer, error) {
	var s signer
	var all []error
	for _, ref := range e.Secrets {
		raw, err := decoded(ref, "whsec_", getenv)
		if err == nil && (len(raw) < 24 || len(raw) > 64) {
			err = fmt.Errorf("%s: a secret of an endpoint is the base64 of 24 to 64 bytes", ref)
		}
		s.secrets, all = append(s.secrets, raw), append(all, err)
	}
	if !e.SigningKey.IsZero() {
		raw, err := decoded(e.SigningKey, "whsk_", getenv)
		switch {
		case err != nil:
			all = append(all, err)
		case len(raw) == ed25519.SeedSize:
			s.key = ed25519.NewKeyFromSeed(raw)
		case len(raw) == ed25519.PrivateKeySize && string(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])) == string(raw):
			s.key = raw
		default:
			all = append(all, fmt.Errorf("%s: a signing key is the base64 of an Ed25519 key: "+
				"its seed of 32 bytes, or with the public key 64", e.SigningKey))
		}
	}
	return s, errors.Join(all...)
}

func decoded(ref secret.Ref, prefix string, getenv func(string) string) ([]byte, error) {
	value, err := ref.Resolve(getenv)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(value.Reveal(), prefix))
	if err != nil {
		return nil, fmt.Errorf("%s is no base64", ref)
	}
	return raw, nil
}

// sign sets the three headers.
func (s signer) sign(header http.Header, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	signed := append([]byte(id+"."+stamp+"."), body...)
	signatures := make([]string, 0, len(s.secrets)+1)
	for _, key := range s.secrets {
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if s.key != nil {
		signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, signed)))
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", strings.Join(signatures, " "))
}
