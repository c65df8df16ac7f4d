package httpjson

import (
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/railhead-pay/railhead/rails/secret"
)

// HeaderValue is the value of a configured header: a literal or a secret.
type HeaderValue struct {
	Literal string
	Secret  secret.Ref
}

// UnmarshalText reads env:NAME and file:PATH as references, and any other text literally.
func (h *HeaderValue) UnmarshalText(text []byte) error {
	if secret.Looks(string(text)) {
		return h.Secret.UnmarshalText(text)
	}
	h.Literal = string(text)
	return nil
}

// MarshalText is the inverse of UnmarshalText; a secret is written as its reference.
func (h HeaderValue) MarshalText() ([]byte, error) {
	if h.Secret.IsZero() {
		return []byte(h.Literal), nil
	}
	return h.Secret.MarshalText()
}

var (
	headerName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)
	headerLiteral = regexp.MustCompile(`^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$`)
	secretHeader  = regexp.MustCompile(`(?i)auth|token|secret|key|passw|signature|cookie|credential`)
)

// ownHeaders are set only by the adapter or by the transport.
var ownHeaders = []string{
	"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Te",
	"Upgrade", "Expect", "Accept-Encoding", "Keep-Alive", "Proxy-Connection", "Traceparent", "Tracestate",
}

func (c Config) validateHeaders(all *faults) {
	taken := map[string]string{}
	claim := func(field, name string) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			all.refuse(field, "%q is no header name", name)
		case slices.Contains(ownHeaders, canonical):
			all.refuse(field, "%s is set by Railhead itself", canonical)
		case taken[canonical] != "":
			all.refuse(field, "%s is set by %s already", canonical, taken[canonical])
		}
		taken[canonical] = field
	}
	if !c.Bearer.IsZero() {
		claim("bearer", "Authorization")
	}
	if c.Send.IdempotencyHeader != "" {
		claim("send.idempotency_header", c.Send.IdempotencyHeader)
	}
	if c.Signature != nil {
		claim("signature.header", c.Signature.Header)
		if c.Signature.TimestampHeader != "" {
			claim("signature.timestamp_header", c.Signature.TimestampHeader)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		field := "headers." + name
		claim(field, name)
		value := c.Headers[name]
		switch {
		case !value.Secret.IsZero():
		case secretHeader.MatchString(name):
			all.refuse(field, "looks like a secret; refer to it by env:NAME or file:PATH")
		case !headerLiteral.MatchString(value.Literal):
			all.refuse(field, "must be printable ASCII without spaces at its ends")
		}
	}
}

func (s SignatureConfig) validate(all *faults) {
	if s.Secret.IsZero() {
		all.refuse("signature.secret", "is needed")
	}
	parts := signedParts(s.Form)
	for _, part := range parts {
		if !slices.Contains([]string{"timestamp", "method", "path", "body", "."}, part) {
			all.refuse("signature.form", "has %q, known are timestamp, method, path and body", part)
		}
	}
	// Any other part after the body could be moved into the end of the body.
	if len(parts) == 0 || slices.Index(parts, "body") != len(parts)-1 {
		all.refuse("signature.form", "is %q, must have body once and last", s.Form)
	}
	if slices.Contains(parts, "timestamp") != (s.TimestampHeader != "") {
		all.refuse("signature.timestamp_header",
			"goes with a form that has a timestamp: the bank can't check what it isn't sent")
	}
	if s.Encoding != "hex" && s.Encoding != "base64" {
		all.refuse("signature.encoding", "is %q, must be hex or base64", s.Encoding)
	}
	if s.Prefix != "" && !headerLiteral.MatchString(s.Prefix) {
		all.refuse("signature.prefix", "must be printable ASCII")
	}
}
