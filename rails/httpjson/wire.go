package httpjson

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// What a connection refuses to write with.
var (
	errNoTicket = errors.New("no request owns this connection")
	errSealed   = errors.New("the call is over, nothing may be written for it any more")
	errSecond   = errors.New("the request went to another connection already")
	errHeldUp   = errors.New("this process was held up for longer than the write may take")
)

// ticket is one request's right to be written once, to one connection. It is
// how we know for sure whether a byte of the request left: HTTP libraries write
// on goroutines of their own, after the caller was told that the call failed,
// and send some requests again. A sealed ticket lets nothing out.
type ticket struct {
	veto func() error      // asked right before the first byte; nil: yes
	hear func(rails.Phase) // nil: phases are not told

	mu    sync.Mutex
	state ticketState
	conn  *wireConn   // the one that writes
	given []*wireConn // those that the transport chose for the request
	over  bool        // the call's context has ended
	heard bool        // bytes have come back since the first byte was written
	cause error       // what veto said
}

type ticketState int

const (
	ticketFresh   ticketState = iota // nothing was tried
	ticketAsking                     // veto and listeners are being asked
	ticketWriting                    // a write is under way: a byte may have left
	ticketLeft                       // a byte left
	ticketSealed                     // none left, and none will
)

// seal ends the ticket and reports whether a byte may have left. False is final:
// no later write goes through.
func (t *ticket) seal() (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == ticketWriting || t.state == ticketLeft {
		return true
	}
	t.state = ticketSealed
	return false
}

// closeConn closes the connection of a call whose context has ended, so that no read
// or write outlives the call, whatever the bank answers. The transport alone does
// not ensure that: after 101 Switching Protocols the response's body is the raw
// connection, which neither the context nor a timeout of the transport ends, and
// closing a TLS connection to a bank that does not read takes crypto/tls five
// seconds.
func (t *ticket) closeConn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, conn := range t.given {
		conn.closeConn(t)
	}
}

// give notes that the transport chose a connection for the request.
func (t *ticket) give(conn *wireConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.given = append(t.given, conn)
	if t.over {
		conn.closeConn(t)
	}
}

// hears notes that bytes came on a connection.
func (t *ticket) hears(conn *wireConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == conn && (t.state == ticketWriting || t.state == ticketLeft) {
		t.heard = true
	}
}

// answered reports whether what was read can be the answer: some of it came after the
// request had begun to leave. What a connection brought before that belongs to an earlier
// request.
func (t *ticket) answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

// vetoed is what the last question before the first byte was answered with.
func (t *ticket) vetoed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// begin asks for leave to write. After the deadline the answer no longer counts.
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
		cause = errHeldUp
	}
	if cause != nil {
		t.cause, t.state = cause, ticketSealed
		return cause
	}
	if t.state == ticketSealed { // while we asked
		return errSealed
	}
	t.state, t.conn = ticketWriting, conn
	return nil
}

// ask calls out without the lock: seal must never wait for a listener. A panic
// there would be on a goroutine of the transport and end the process.
func (t *ticket) ask() (cause error) {
	t.mu.Unlock()
	defer t.mu.Lock()
	defer func() {
		if recover() != nil {
			cause = errors.New("the question before the first byte panicked")
		}
	}()
	if t.veto != nil {
		if err := t.veto(); err != nil {
			return err
		}
	}
	if t.hear != nil {
		t.hear(rails.PhaseFirstByte)
	}
	return nil
}

// end tells whether the system took any byte of the write.
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

// countingConn is the connection to the network. It counts the bytes that the
// system took, TLS records and all.
type countingConn struct {
	net.Conn
	taken atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.taken.Add(int64(n))
	return n, err
}

// wireConn is what the HTTP transport writes requests to: the plain stream over
// TCP, or the inside of TLS. Handshakes and alerts of TLS go past it.
type wireConn struct {
	net.Conn
	network *countingConn
	timeout time.Duration // of the writes of one request, together

	mu     sync.Mutex
	ticket *ticket // of the request that has the connection now, or had it last
}

// attach gives the connection to a request, before its first byte.
func (c *wireConn) attach(t *ticket) error {
	c.mu.Lock()
	c.ticket = t
	c.mu.Unlock()
	t.give(c)
	return c.Conn.SetWriteDeadline(time.Time{})
}

// closeConn closes the network below TLS, unless another request has the connection
// by now.
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
	if t := c.owner(); n > 0 && t != nil {
		t.hears(c)
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	t := c.owner()
	if t == nil {
		return 0, errNoTicket
	}
	// Taken before the question: a worker that is frozen at any moment from here
	// to the first byte, and goes on when its claim is another's or the rail has
	// forgotten the key, finds the deadline over and sends nothing. What is left
	// is a freeze between the network's own look at the deadline and its write.
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
