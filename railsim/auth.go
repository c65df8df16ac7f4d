package railsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// authenticate checks the credentials that the configuration requires and returns a 401 if they are
// missing. TLS has already checked a client certificate.
func (b *Bank) authenticate(r *http.Request, body []byte) *answer {
	if want := b.cfg.BearerToken; want != "" {
		got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
			return new(problem(http.StatusUnauthorized, "UNAUTHORISED", "wrong bearer token"))
		}
	}
	if len(b.cfg.SignatureSecret) > 0 && !b.signed(r, body) {
		return new(problem(http.StatusUnauthorized, "UNAUTHORISED", "wrong or old signature"))
	}
	return nil
}

// signed checks X-Signature: sha256=<hex of HMAC-SHA256(secret, X-Timestamp immediately followed by the body)>, where
// X-Timestamp is in Unix seconds and within 5 minutes of the bank's clock.
func (b *Bank) signed(r *http.Request, body []byte) bool {
	stamp := r.Header.Get("X-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || b.cfg.Now().Sub(time.Unix(seconds, 0)).Abs() > signatureTolerance {
		return false
	}
	digest, ok := strings.CutPrefix(r.Header.Get("X-Signature"), "sha256=")
	if !ok {
		return false
	}
	got, err := hex.DecodeString(digest)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, b.cfg.SignatureSecret)
	mac.Write([]byte(stamp))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}
