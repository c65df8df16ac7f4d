package httpjson

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/reach"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/streak"
)

const (
	maxHeader = 16 << 10 // bytes of an answer's header
	maxAnswer = 64 << 10 // bytes of an answer's body

	// idleTimeout is below the 5 s after which common servers close a connection without notice. A
	// request written at that moment may have been executed, and is unknown.
	idleTimeout = 4 * time.Second
)

// dialer makes the connections of one rail. The transport continues to dial for a call that was
// cancelled; the dial ends after connect + TLS, or when the rail is closed.
type dialer struct {
	timeouts rails.Timeouts
	loopback bool
	tls      *tls.Config
	resolver *net.Resolver // nil: the system's
	now      func() time.Time

	strays    streak.Streak // of dials that found forbidden addresses only
	impostors streak.Streak // of handshakes with what is not the bank
}

// newTransport returns an http.Transport without the features that send a payment twice or
// elsewhere: no proxy from the environment, no HTTP/2 (its streams share a connection, so that the
// first byte of a request can't be observed), no compression. It is used by RoundTrip and never
// through an http.Client, so there are no redirects and no cookies.
func newTransport(d *dialer, concurrency int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           concurrency,
		MaxIdleConnsPerHost:    concurrency,
		IdleConnTimeout:        idleTimeout,
		ResponseHeaderTimeout:  time.Duration(d.timeouts.ResponseHeader),
		MaxResponseHeaderBytes: maxHeader,
	}
}

func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	counted, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: counted, network: counted, timeout: time.Duration(d.timeouts.Write)}, nil
}

func (d *dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	counted, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.timeouts.TLS))
	defer cancel()
	conn := tls.Client(counted, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		counted.Close()
		err = fmt.Errorf("TLS handshake with %s: %w", address, err)
		if impostor(err) && d.impostors.Count(d.now()) {
			err = fmt.Errorf("%w: %w", errImpostor, err)
		}
		return nil, err
	}
	d.impostors.End()
	return &wireConn{Conn: conn, network: counted, timeout: time.Duration(d.timeouts.Write)}, nil
}

func (d *dialer) dial(ctx context.Context, network, address string) (*countingConn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.timeouts.Connect))
	defer cancel()
	var permitted atomic.Bool // one of the addresses of the name is permitted
	nd := net.Dialer{Resolver: d.resolver, Control: func(network, address string, raw syscall.RawConn) error {
		err := d.control(network, address, raw)
		if err == nil {
			permitted.Store(true)
		}
		return err
	}}
	conn, err := nd.DialContext(ctx, network, address)
	switch {
	case permitted.Load():
		d.strays.End()
	case errors.Is(err, errForbidden) && (isLiteral(address) || d.strays.Count(d.now())):
		err = fmt.Errorf("%w: %w", errAstray, err)
	}
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn}, nil
}

// control checks the address after the name was resolved, so that no answer of a name server leads
// to this machine or to its cloud's metadata service.
func (d *dialer) control(_, address string, _ syscall.RawConn) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, errForbidden)
	}
	if ip := reach.Inside(resolved.Addr()); reach.Never(ip) || ip.IsLoopback() && !d.loopback {
		return fmt.Errorf("%s: %w", ip, errForbidden)
	}
	return nil
}
