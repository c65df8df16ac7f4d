package httpjson

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/rails/secret"
)

// signer adds an HMAC-SHA256 of the request as a header. It does not change the body: a second send
// has another timestamp and the same bytes.
type signer struct {
	config SignatureConfig
	key    secret.Value
	now    func() time.Time
}

func (s signer) sign(header http.Header, method, path string, body []byte) {
	timestamp := strconv.FormatInt(s.now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.key.Reveal()))
	for _, part := range signedParts(s.config.Form) {
		switch part {
		case ".":
			mac.Write([]byte("."))
		case "timestamp":
			mac.Write([]byte(timestamp))
		case "method":
			mac.Write([]byte(method))
		case "path":
			mac.Write([]byte(path))
		case "body":
			mac.Write(body)
		}
	}
	signature := hex.EncodeToString(mac.Sum(nil))
	if s.config.Encoding == "base64" {
		signature = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	if s.config.TimestampHeader != "" {
		header.Set(s.config.TimestampHeader, timestamp)
	}
	header.Set(s.config.Header, s.config.Prefix+signature)
}

// signedParts splits a form into its words and the dots that are signed too.
func signedParts(form string) []string {
	return strings.Fields(strings.NewReplacer(".", " . ", "+", " ").Replace(form))
}
