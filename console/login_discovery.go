package console

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// The bounds of what the login provider is asked for.
const (
	discoveryMax   = 10 * time.Second // one reading of its configuration
	discoveryAgain = 5 * time.Second  // after a reading that failed, before the next one
)

// discovery is the configuration of a provider, read once for all who log in at the same time. The zero
// value is one that was not read. It is safe for concurrent use.
type discovery struct {
	mu    sync.Mutex
	under *reading // the newest reading; nil: none
}

// reading is one reading of the configuration.
type reading struct {
	over     chan struct{} // closed when the rest is set
	provider *oidc.Provider
	err      error
	failed   time.Time
}

// wait returns the configuration, and reads it with discover if that was not done yet. It waits no longer than the
// context. What failed lately fails again without a reading.
func (d *discovery) wait(ctx context.Context, discover func() (*oidc.Provider, error)) (*oidc.Provider, error) {
	one := d.newest(discover)
	select {
	case <-one.over:
		return one.provider, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newest returns the reading to wait for, and begins one if there is none that counts.
func (d *discovery) newest(discover func() (*oidc.Provider, error)) *reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under != nil {
		select {
		case <-d.under.over:
			if d.under.err == nil || time.Since(d.under.failed) < discoveryAgain {
				return d.under
			}
		default:
			return d.under
		}
	}
	one := &reading{over: make(chan struct{})}
	d.under = one
	go func() {
		defer close(one.over)
		one.provider, one.err = discover()
		one.failed = time.Now()
	}()
	return one
}

// cause is why a login was refused, for the log. It has no text of a provider or a browser.
type cause string

func (c cause) Error() string { return string(c) }

// The causes.
const (
	causeNoRole    cause = "no role"
	causeNoFlow    cause = "the browser has no login under way"
	causeOldFlow   cause = "the login under way is too old, or another process began it"
	causeState     cause = "the state is that of another login"
	causeNonce     cause = "the nonce is that of another login"
	causeDiscovery cause = "the configuration of the provider was not read"
	causeExchange  cause = "the provider did not exchange the code"
	causeToken     cause = "the ID token is not accepted"
)

// exchangeCodes are the errors of a token endpoint by RFC 6749.
var exchangeCodes = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true,
}

// causeOf is the cause of an error as text, with what kind of an error it was. Other text of the error is
// left out: it may have a secret.
func causeOf(err error) string {
	known, ok := errors.AsType[cause](err)
	if !ok {
		return ""
	}
	text := string(known)
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && exchangeCodes[answer.ErrorCode] {
		text += ": " + answer.ErrorCode
	}
	if _, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		text += ": it is too old"
	}
	if fault, ok := errors.AsType[net.Error](err); ok {
		if fault.Timeout() {
			return text + ": it took too long"
		}
		return text + ": it could not be reached"
	}
	return text
}
