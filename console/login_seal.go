package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// flowMax bounds the time that a person takes to log in at the provider.
const flowMax = 10 * time.Minute

// flow is a login under way: what the answer of the provider is compared with.
type flow struct {
	State, Nonce, Verifier string
	// Before is the secret of the session in which the login began: what leads back from another site comes without its
	// cookie, which is Strict.
	Before string
	Until  time.Time
}

// seal seals flows by a key of this process, so that a browser can keep its own.
type seal struct{ aead cipher.AEAD }

func newSeal() *seal {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has a size that AES has
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &seal{aead}
}

func (s *seal) close(step flow) string {
	text, err := json.Marshal(step)
	if err != nil {
		panic(err) // texts and a time
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, nil))
}

func (s *seal) open(sealed string) (flow, error) {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return flow{}, errors.New("the cookie is not one of this console")
	}
	if text, err = s.aead.Open(nil, nil, text, nil); err != nil {
		return flow{}, errors.New("the cookie is not one of this process")
	}
	var step flow
	return step, json.Unmarshal(text, &step)
}

// cookie keeps a login under way. It is Lax, because the provider's page leads back: a Strict one would
// not come along.
func (o *OIDC) cookie(sealed string) *http.Cookie {
	secure := strings.HasPrefix(o.config.PublicURL, "https://")
	cookie := &http.Cookie{
		Name: cookieName("railhead_login", o.config.PublicURL, secure), Value: sealed, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: secure, MaxAge: int(flowMax.Seconds()),
	}
	if sealed == "" {
		cookie.MaxAge = -1
	}
	return cookie
}
