package httpjson

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
)

// adapterVersion changes with any change of the code that changes the bytes of a request.
const adapterVersion = "httpjson/1"

// RenderVersion returns the adapter's version and two digests, as in
// httpjson/1-62e1ae73d7d4-0a1b2c3d4e5f. The first digest is of the request's form: method, path,
// body, literal headers and exponents. The second is of its destination: the base URL (scheme,
// host, port and path), the server name of TLS, and the references, never the values, of the
// secrets that identify us to the bank: bearer, secret headers, signing key and client certificate.
// A digest shows neither an address nor a reference.
//
// A rail key is valid for the system and the account under which it was sent. Anywhere else a
// re-send is a first send, and "no such payment" proves nothing. If the version changes,
//
//   - an instruction that was sent before is not sent again (RENDER_CHANGED). It is parked if its outcome is
//     unknown, and fails if the bank had refused it for the time being; an operator compares with the bank
//     and replays it.
//   - an inquiry about it answers UNAVAILABLE if the destination has changed, and it is parked when its
//     inquiries are used up. If the form alone has changed, it answers UNAVAILABLE in place of NOT_FOUND: the
//     inquiry may ask by what the request did not have.
//   - an instruction that was never sent is not affected.
//
// This protects a change from the bank's sandbox to production, or to another account. It also
// affects a system that merely gets another name, and relayers that reach one system by different
// names. Use the same base URL in all of them, and before a move pause new payments of the rail
// until no outcome is unknown. A change that came too early can be undone: the old configuration
// has the old version.
//
// A secret that is replaced behind its reference, as in a rotation, keeps the version; a change of
// the account behind the same reference is not detected. The certificates that we trust (tls.ca)
// are not part of the version.
//
// Versions of earlier releases have only the first digest and differ from every version of this
// one: what was sent before the upgrade is not sent again after it, and can still be asked about, with the
// answers of another form.
func (r *Rail) RenderVersion() string { return r.version }

func renderVersion(config Config, profile rails.Profile) (string, error) {
	form, err1 := formOf(config, profile)
	destination, err2 := destinationOf(config)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	return adapterVersion + "-" + form + "-" + destination, nil
}

func formOf(config Config, profile rails.Profile) (string, error) {
	headers := map[string]string{}
	for name, value := range config.Headers {
		headers[http.CanonicalHeaderKey(name)] = value.Literal
		if !value.Secret.IsZero() {
			headers[http.CanonicalHeaderKey(name)] = "secret"
		}
	}
	return digest(map[string]any{
		"method": config.Send.Method, "path": config.Send.Path, "body": config.Send.Body,
		"key":       http.CanonicalHeaderKey(config.Send.IdempotencyHeader),
		"headers":   headers,
		"exponents": profile.Checks.Exponents,
	})
}

func destinationOf(config Config) (string, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return "", fmt.Errorf("base_url: %w", err)
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[base.Scheme]
	}
	headers := map[string]string{}
	for name, value := range config.Headers {
		if !value.Secret.IsZero() {
			headers[http.CanonicalHeaderKey(name)] = value.Secret.String()
		}
	}
	signature := ""
	if config.Signature != nil {
		signature = config.Signature.Secret.String()
	}
	return digest(map[string]any{
		"scheme": base.Scheme, "host": strings.ToLower(base.Hostname()), "port": port,
		"path":        strings.TrimSuffix(base.EscapedPath(), "/"),
		"server_name": config.TLS.ServerName,
		"bearer":      config.Bearer.String(),
		"headers":     headers,
		"signature":   signature,
		"certificate": config.TLS.ClientCert.String(),
	})
}

// digest returns the beginning of a SHA-256 of the facts, whose keys are sorted.
func digest(facts map[string]any) (string, error) {
	text, err := json.Marshal(facts)
	if err != nil {
		return "", fmt.Errorf("digest for the render version: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6]), nil
}

// sentElsewhere reports whether sends of an earlier version went to another destination than this
// rail's. A version without a destination leaves that open.
func (r *Rail) sentElsewhere(earlier string) bool {
	parts, own := strings.Split(earlier, "-"), strings.Split(r.version, "-")
	return len(parts) == 3 && parts[2] != own[2]
}

// formChanged reports whether sends of an earlier version may have had another form than this rail's: other
// references, paths or literal headers, by which the bank has them. A version that isn't known leaves that open.
func (r *Rail) formChanged(earlier string) bool {
	parts, own := strings.Split(earlier, "-"), strings.Split(r.version, "-")
	return earlier != "" && !slices.Equal(parts[:min(2, len(parts))], own[:2])
}
