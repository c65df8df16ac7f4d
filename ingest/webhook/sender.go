package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/ingest/event"
	"github.com/railhead-pay/railhead/internal/reach"
	"github.com/railhead-pay/railhead/internal/serving"
	"github.com/railhead-pay/railhead/payment"
)

// Bounds of an answer.
const (
	maxAnswerHeader = 16 << 10
	maxAnswerBody   = 4 << 10 // read, so that the connection can be kept
	maxRetryAfter   = time.Hour
)

// answer is the answer of an endpoint to one delivery.
type answer struct {
	taken bool // 2xx
	gone  bool // 410
	code  int  // of HTTP; 0: no answer
	// status is the reason why the event was not accepted, in one word for lists and metrics. It
	// contains nothing that the endpoint wrote.
	status     string
	retryAfter time.Duration // the delay that the endpoint asked for; 0: none
}

// refusesOne reports whether an answer refuses one event, from an endpoint that is up.
func (a answer) refusesOne() bool {
	switch a.code {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}

// isBusy reports whether the delay that an answer asks for applies to the endpoint, and not to the
// event.
func (a answer) isBusy() bool {
	return a.code == http.StatusTooManyRequests || a.code == http.StatusServiceUnavailable
}

// Statuses of deliveries without an answer.
const (
	StatusTimeout   = "TIMEOUT"
	StatusConnect   = "CONNECT"
	StatusTLS       = "TLS"
	StatusForbidden = "FORBIDDEN_ADDRESS"
	StatusNoAnswer  = "NO_ANSWER"
)

// errForbidden is the error of a connection to a forbidden address.
var errForbidden = errors.New(
	"the address is one of a private network or of this machine; allow_private: true permits it")

// sender delivers events to one endpoint.
type sender struct {
	endpoint  Endpoint
	signer    signer
	transport *http.Transport
	now       func() time.Time
}

func newSender(e Endpoint, s signer, now func() time.Time) *sender {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return reachable(address, e.AllowPrivate)
	}}
	return &sender{endpoint: e, signer: s, now: now, transport: &http.Transport{
		// No proxy from the environment: it would reach addresses that the endpoint may not.
		Proxy: nil, DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConns:    e.Concurrency, MaxIdleConnsPerHost: e.Concurrency, MaxConnsPerHost: e.Concurrency,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxAnswerHeader, DisableCompression: true, ForceAttemptHTTP2: true,
		// A connection that has become silent is not reused.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}}
}

func (s *sender) close() { s.transport.CloseIdleConnections() }

// send delivers one event within the endpoint's timeout.
func (s *sender) send(ctx context.Context, e payment.Event) answer {
	body, err := json.Marshal(event.Of(e))
	if err != nil {
		return answer{status: StatusNoAnswer}
	}
	return s.post(ctx, e.Name(), body)
}

// post uses the transport directly: no redirect is followed, and no cookie is kept.
func (s *sender) post(ctx context.Context, id string, body []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.endpoint.Timeout))
	defer cancel()
	var conn serving.Conn
	request, err := http.NewRequestWithContext(conn.Trace(ctx), http.MethodPost, s.endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return answer{status: StatusConnect}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Railhead-Webhooks/1")
	s.signer.sign(request.Header, id, s.now(), body)
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return answer{status: failure(err)}
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK {
		// The body of a 101 answer is the connection itself, which no context ends.
		return answer{code: response.StatusCode, status: "HTTP_" + strconv.Itoa(response.StatusCode)}
	}
	said := answer{code: response.StatusCode, taken: response.StatusCode/100 == 2,
		gone: response.StatusCode == http.StatusGone}
	if said.taken {
		io.CopyN(io.Discard, response.Body, maxAnswerBody) //nolint:errcheck // the content is not used
	} else {
		// Behind the answer of a gateway that of the endpoint may follow, and would be read as that to the next event.
		conn.Close(response)
		said.status = "HTTP_" + strconv.Itoa(response.StatusCode)
		said.retryAfter = retryAfter(response.Header.Get("Retry-After"), s.now())
	}
	return said
}

// failure returns, in one word, why there was no answer.
func failure(err error) string {
	var notTLS tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var dial *net.OpError
	switch {
	case errors.Is(err, errForbidden):
		return StatusForbidden
	case errors.As(err, &notTLS), errors.As(err, &certificate), errors.As(err, &alert), strings.Contains(err.Error(),
		"TLS handshake"):
		return StatusTLS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return StatusTimeout
	case errors.As(err, &dial) && dial.Op == "dial":
		return StatusConnect
	default:
		return StatusNoAnswer
	}
}

// retryAfter parses RFC 9110, section 10.2.3: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// private lists networks that are not part of the Internet (IANA special-purpose registries), in
// addition to those of package netip.
var private = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("5f00::/16"),
}

// reachable checks an address after its name was resolved, so that no answer of a name server leads
// into the installation's own network. Link-local addresses, and others of cloud metadata services,
// are always forbidden.
func reachable(address string, allowPrivate bool) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, errForbidden)
	}
	ip := reach.Inside(resolved.Addr())
	if reach.Never(ip) {
		return fmt.Errorf("%s: %w", ip, errForbidden)
	}
	if allowPrivate {
		return nil
	}
	if ip.IsLoopback() || ip.IsPrivate() || slices.ContainsFunc(private,
		func(network netip.Prefix) bool { return network.Contains(ip) }) {
		return fmt.Errorf("%s: %w", ip, errForbidden)
	}
	return nil
}
