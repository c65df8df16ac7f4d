package callback_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

// mac is the signature of a text, apart from the code under test.
func mac(t testing.TB, secret, text string) string {
	t.Helper()
	sum := hmac.New(sha256.New, decode(t, secret))
	sum.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(sum.Sum(nil))
}
