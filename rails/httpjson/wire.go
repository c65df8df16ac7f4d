package httpjson

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// Errors of a write that a connection refuses.
var (
	errNoTicket = errors.New("no request owns this connection")
	errSealed   = errors.New("the call has ended, nothing may be written for it any more")
	errSecond   = errors.New("the request has already gone to another connection")
	errStalled  = errors.New("this process stalled for longer than the write may take")
)

// ticket is the right of one request to be written once, to one connection. It makes certain
// whether a byte of the request left: HTTP libraries write on goroutines of their own, after the
// call has returned an error to the caller, and send some requests again. A sealed ticket allows no
// write.
type ticket struct {
	veto    func() error      // called right before the first byte; nil allows the send
	onPhase func(rails.Phase) // nil: phases are not reported

	mu       sync.Mutex
	state    ticketState
	conn     *wireConn   // the connection that writes
	given    []*wireConn // the connections that the transport chose for the request
	over     bool        // the call's context has ended
	began    time.Time   // when the first byte was permitted
	gotBytes bool        // bytes were received since the first byte was written
	cause    error       // the error of veto
	refused  bool        // the transport chose a spent connection, which took no byte
	ended    chan struct{}
}

type ticketState int

const (
	ticketFresh   ticketState = iota // no write was tried
	ticketAsking                     // veto and onPhase are running
	ticketWriting                    // a write is under way: a byte may have left
	ticketLeft                       // a byte left
	ticketSealed                     // none left, and none will
)

// seal ends the ticket and reports whether a byte may have left. If it returns false, no later
// write is allowed.
func (t *ticket) seal() (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == ticketWriting || t.state == ticketLeft {
		return true
	}
	t.state = ticketSealed
	return false
}

// closeConn closes the connection of a call whose context has ended, so that no read or write
// outlives the call, whatever the bank answers. The transport alone does not ensure that: after 101
// Switching Protocols the response's body is the raw connection, which neither the context nor a
// timeout of the transport ends. Closing a TLS connection to a bank that does not read takes
// crypto/tls five seconds.
func (t *ticket) closeConn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, conn := range t.given {
		conn.closeConn(t)
	}
}

// give records that the transport chose a connection for the request.
func (t *ticket) give(conn *wireConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.given = append(t.given, conn)
	if t.over {
		conn.closeConn(t)
	}
}

// received records that bytes came on a connection.
func (t *ticket) received(conn *wireConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == conn && (t.state == ticketWriting || t.state == ticketLeft) {
		t.gotBytes = true
	}
}

// answered reports whether what was read can be the answer: some of it came after the request had
// begun to leave. Bytes from before that belong to an earlier request.
func (t *ticket) answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gotBytes
}

// took returns the time since the first byte, and 0 before it.
func (t *ticket) took() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		return 0
	}
	return time.Since(t.began)
}

// vetoed returns the error of the last check before the first byte.
func (t *ticket) vetoed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// begin asks for permission to write. After the deadline a permission is void.
func (t *ticket) begin(conn *wireConn, deadline time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.state == ticketLeft && t.conn == conn:
		return nil
	case t.state == ticketSealed:
		return errSealed
	case t.state != ticketFresh:
		return errSecond
	}
	t.state = ticketAsking
	cause := t.ask()
	if cause == nil && !time.Now().Before(deadline) {
		cause = errStalled
	}
	if cause != nil {
		t.cause, t.state = cause, ticketSealed
		return cause
	}
	if t.state == ticketSealed { // during ask
		return errSealed
	}
	t.state, t.conn, t.began = ticketWriting, conn, time.Now()
	return nil
}

// ask calls veto and onPhase without the lock, so that seal never waits for them. It recovers from
// a panic, which would end the process, since this is a goroutine of the transport.
func (t *ticket) ask() (cause error) {
	t.mu.Unlock()
	defer t.mu.Lock()
	defer func() {
		if recover() != nil {
			cause = errors.New("the check before the first byte panicked")
		}
	}()
	if t.veto != nil {
		if err := t.veto(); err != nil {
			return err
		}
	}
	if t.onPhase != nil {
		t.onPhase(rails.PhaseFirstByte)
	}
	return nil
}

// end records whether the operating system took any byte of the write.
func (t *ticket) end(took bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != ticketWriting {
		return
	}
	t.state = ticketSealed
	if took {
		t.state = ticketLeft
	}
}

// countingConn is the network connection. It counts the bytes that the operating system took,
// including those of TLS records.
type countingConn struct {
	net.Conn
	taken atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.taken.Add(int64(n))
	return n, err
}

// wireConn is what the HTTP transport writes requests to: the plain TCP stream, or the inside of
// TLS. The handshakes and alerts of TLS bypass it.
type wireConn struct {
	net.Conn
	network *countingConn
	timeout time.Duration // for all writes of one request

	mu     sync.Mutex
	ticket *ticket // of the request that uses the connection, or used it last
	spent  bool    // no other request may use it: not yet, or not any more
}

// closeConn closes the network connection below TLS, unless another request uses it by now.
func (c *wireConn) closeConn(t *ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ticket == t {
		c.network.Close()
	}
}

func (c *wireConn) owner() *ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticket
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.idle() {
		return 0, errUnasked // package net/http would print what came
	}
	if t := c.owner(); n > 0 && t != nil {
		t.received(c)
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	t := c.owner()
	if t == nil {
		return 0, errNoTicket
	}
	// The deadline counts from before the check. A worker that stalls at any moment from here to
	// the first byte, and resumes when another worker owns its claim or the rail has forgotten the
	// key, finds the deadline over and sends nothing. What remains is a stall between the network's
	// own check of the deadline and its write.
	deadline := time.Now().Add(c.timeout)
	if err := t.begin(c, deadline); err != nil {
		return 0, err
	}
	before := c.network.taken.Load()
	if err := c.limit(t, deadline); err != nil {
		t.end(false)
		return 0, err
	}
	n, err := c.Conn.Write(p)
	t.end(err == nil || c.network.taken.Load() != before)
	return n, err
}

// limit bounds all writes of a request by the deadline of the first one.
func (c *wireConn) limit(t *ticket, deadline time.Time) error {
	t.mu.Lock()
	first := t.state == ticketWriting
	t.mu.Unlock()
	if !first {
		return nil
	}
	return c.Conn.SetWriteDeadline(deadline)
}
