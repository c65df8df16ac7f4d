package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// TestDiscoveryIsShared: people who log in while the provider is slow wait for one reading, each for no longer
// than the own request. A reading that failed is not repeated for some seconds.
func TestDiscoveryIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d discovery
		var readings atomic.Int64
		fault := errors.New("down")
		slow := func() (*oidc.Provider, error) {
			readings.Add(1)
			time.Sleep(8 * time.Second)
			return nil, fault
		}
		first := make(chan error, 1)
		go func() {
			_, err := d.wait(t.Context(), slow)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := d.wait(ctx, slow); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("who has a second waited for %s, %v", time.Since(begun), err)
		}
		if err := <-first; !errors.Is(err, fault) {
			t.Error(err)
		}
		if _, err := d.wait(t.Context(), slow); !errors.Is(err, fault) || readings.Load() != 1 {
			t.Errorf("%d readings, %v", readings.Load(), err)
		}
		time.Sleep(discoveryAgain)
		good := func() (*oidc.Provider, error) { return &oidc.Provider{}, nil }
		if provider, err := d.wait(t.Context(), good); err != nil || provider == nil {
			t.Errorf("after some seconds: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := d.wait(t.Context(), slow); err != nil || readings.Load() != 1 {
			t.Errorf("what was read is read again: %v", err)
		}
	})
}

// TestCausesOfRefusals: the log says why a login was refused, without text of the provider.
func TestCausesOfRefusals(t *testing.T) {
	t.Parallel()
	secret := errors.New("SECRET")
	for want, err := range map[string]error{
		"":                  secret,
		string(causeNoRole): causeNoRole,
		string(causeToken):  fmt.Errorf("%w: %w", causeToken, secret),
		string(causeExchange) + ": invalid_client": fmt.Errorf("%w: %w", causeExchange,
			&oauth2.RetrieveError{ErrorCode: "invalid_client", ErrorDescription: "SECRET"}),
		string(causeExchange): fmt.Errorf("%w: %w", causeExchange,
			&oauth2.RetrieveError{ErrorCode: "SECRET"}),
		string(causeDiscovery) + ": it took too long":        fmt.Errorf("%w: %w", causeDiscovery, context.DeadlineExceeded),
		string(causeDiscovery) + ": it could not be reached": fmt.Errorf("%w: %w", causeDiscovery, &net.OpError{Err: secret}),
		string(causeToken) + ": it is too old":               fmt.Errorf("%w: %w", causeToken, &oidc.TokenExpiredError{}),
	} {
		if got := causeOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	var log strings.Builder
	c := consoleWith(t, nil, NewCertificates(Roles{}))
	c.Site.log = slog.New(slog.NewTextHandler(&log, nil))
	c.Refuse(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/login/x", nil), "x", "y",
		fmt.Errorf("%w: %w", causeToken, secret))
	if !strings.Contains(log.String(), string(causeToken)) || strings.Contains(log.String(), "SECRET") {
		t.Error(log.String())
	}
}
