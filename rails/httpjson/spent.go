package httpjson

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// maxLent bounds how many connections that served another request one request tries, until it gets one
// of its own.
const maxLent = 3

var (
	errSpent   = errors.New("another answer to the request before may still come on this connection")
	errUnasked = errors.New("something came on a connection without a request")
)

// ends reports whether no other answer to the same request is to be expected: the bank itself has
// said, in its own words, what became of the payment for good. After any other answer a second one may
// come: a gateway or the bank's own limit of time answers 504 or 503, or one of the bank's systems says
// "busy", "timeout, try again" or "in progress", and what another one has made of the request follows. On
// a connection that is used again it would be read as the answer to the next request. So that connection
// is closed, also after a status code alone, 400 or 401, since any gateway sends those, and after an
// answer about another payment.
func ends(result rails.Result, status int) bool {
	switch result.Result {
	case payment.ResultAccepted, payment.ResultExecuted, payment.ResultRefusedFinal, payment.ResultRefusedBusiness:
		return status >= 200 && status <= 299 || result.Code != strconv.Itoa(status)
	case payment.ResultRefused, payment.ResultInProgress, payment.ResultNotFound:
		return true
	default:
		return false
	}
}

// roundTrip makes the request on a connection that is not spent. A spent one that the transport still
// had takes no byte of it, and another one is tried, and then a new one that serves this request alone.
func (r *Rail) roundTrip(ctx context.Context, q request, t *ticket) (*http.Response, error) {
	for n := 0; ; n++ {
		req, err := r.newRequest(ctx, q, t)
		if err != nil {
			return nil, err
		}
		if n == maxLent {
			return r.single.RoundTrip(req)
		}
		response, err := r.transport.RoundTrip(req)
		if err == nil || !t.turnedAway() {
			return response, err
		}
	}
}

// attach assigns the connection to a request, before its first byte. It returns errSpent, and closes
// the connection, unless the request before has released it: what would come next may be about that.
func (c *wireConn) attach(t *ticket) error {
	c.mu.Lock()
	if c.spent {
		c.ticket = nil // of neither: nothing may be written
		c.mu.Unlock()
		c.network.Close()
		t.turnAway()
		return errSpent
	}
	c.ticket, c.spent = t, true
	c.mu.Unlock()
	t.give(c)
	return c.Conn.SetWriteDeadline(time.Time{})
}

// await waits until the request that used the connection last has released it or closed it, or the
// context ends. The transport puts a connection back as soon as it has read an answer to its end,
// before the call has seen what that says.
func (c *wireConn) await(ctx context.Context) {
	if before := c.owner(); before != nil {
		select {
		case <-before.settled():
		case <-ctx.Done():
		}
	}
}

// release leaves the connection to other requests, or closes it.
func (c *wireConn) release(t *ticket, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ticket != t:
	case keep:
		c.spent = false
	default:
		c.network.Close()
	}
}

// idle reports whether the connection waits for its next request.
func (c *wireConn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticket != nil && !c.spent
}

// settle decides, once the answer was read or none can come, whether the connections of the call may
// serve other requests. If not, it closes them. Requests that were lent one of them wait for this. The
// first call counts.
func (t *ticket) settle(keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
	}
	select {
	case <-t.ended:
		return
	default:
	}
	for _, conn := range t.given {
		conn.release(t, keep)
	}
	close(t.ended)
}

// settled returns a channel that settle closes.
func (t *ticket) settled() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
	}
	return t.ended
}

// turnAway records that a spent connection was chosen for the request.
func (t *ticket) turnAway() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = true
}

// turnedAway reports whether nothing but a spent connection kept the request from leaving, so that it
// may try another one.
func (t *ticket) turnedAway() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.refused && t.state == ticketFresh
	t.refused = false
	return again
}
