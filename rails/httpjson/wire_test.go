package httpjson

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// brokenConn is a connection that takes n bytes and then fails.
type brokenConn struct {
	net.Conn
	takes int
	err   error
}

func (b *brokenConn) SetWriteDeadline(time.Time) error { return nil }

func (b *brokenConn) Write(p []byte) (int, error) {
	n := min(len(p), b.takes)
	b.takes -= n
	if n < len(p) {
		return n, b.err
	}
	return n, nil
}

func wireOver(conn net.Conn) *wireConn {
	counted := &countingConn{Conn: conn}
	return &wireConn{Conn: counted, network: counted, timeout: time.Second}
}

// TestFirstByte tests that the bytes that the operating system took decide, not the error of the
// call.
func TestFirstByte(t *testing.T) {
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		takes int
		left  bool
	}{"nothing was taken": {0, false}, "one byte was": {1, true}, "all of it was": {100, true}} {
		conn := wireOver(&brokenConn{takes: c.takes, err: reset})
		ticket := &ticket{}
		if err := conn.attach(ticket); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Write([]byte("POST"))
		if wantErr := c.takes < 4; (err != nil) != wantErr {
			t.Errorf("%s: %v", name, err)
		}
		if got := ticket.seal(); got != c.left {
			t.Errorf("%s: left %v, want %v", name, got, c.left)
		}
		if !c.left {
			// A failed write that took no byte ends the ticket: the transport must not get another
			// try.
			if _, err := conn.Write([]byte("POST")); !errors.Is(err, errSealed) {
				t.Errorf("%s: a second write: %v", name, err)
			}
		}
	}
}

func TestWritesNeedATicket(t *testing.T) {
	network := &brokenConn{takes: 1000}
	conn := wireOver(network)
	if _, err := conn.Write([]byte("POST")); !errors.Is(err, errNoTicket) {
		t.Errorf("without a ticket: %v", err)
	}
	sealed := &ticket{}
	if sealed.seal() {
		t.Error("a fresh ticket says that a byte left")
	}
	_ = conn.attach(sealed)
	if _, err := conn.Write([]byte("POST")); !errors.Is(err, errSealed) {
		t.Errorf("with a sealed ticket: %v", err)
	}
	sealed.settle(true)
	used := &ticket{}
	_ = conn.attach(used)
	for range 3 {
		if _, err := conn.Write([]byte("POST")); err != nil {
			t.Errorf("a long request takes several writes: %v", err)
		}
	}
	other := wireOver(&brokenConn{takes: 1000})
	_ = other.attach(used)
	if _, err := other.Write([]byte("POST")); !errors.Is(err, errSecond) {
		t.Errorf("the same request on a second connection: %v", err)
	}
	if network.takes != 1000-12 {
		t.Errorf("%d bytes went out, want 12", 1000-network.takes)
	}
}

// TestHangUp tests that the end of a call closes its connection, also one that it gets too late,
// and none that serves another request by then.
func TestHangUp(t *testing.T) {
	first, second := &ticket{}, &ticket{}
	network := &closedConn{}
	conn := wireOver(network)
	_ = conn.attach(first)
	first.settle(true)
	_ = conn.attach(second)
	first.closeConn()
	first.settle(false)
	if network.closed {
		t.Error("the end of a call closed the connection of the next one")
	}
	second.closeConn()
	if !network.closed {
		t.Error("the connection of a call outlives it")
	}
	late := &closedConn{}
	_ = wireOver(late).attach(second)
	if !late.closed {
		t.Error("a connection that came after the end of the call stays open")
	}
}

// closedConn records that it was closed.
type closedConn struct {
	net.Conn
	closed bool
}

func (c *closedConn) SetWriteDeadline(time.Time) error { return nil }

func (c *closedConn) Close() error {
	c.closed = true
	return nil
}

// TestVetoThatPanics tests a panic of the veto, which runs on a goroutine of the transport, where
// it would end the process.
func TestVetoThatPanics(t *testing.T) {
	for name, asked := range map[string]*ticket{
		"veto":     {veto: func() error { panic("veto") }},
		"listener": {onPhase: func(rails.Phase) { panic("listener") }},
	} {
		conn := wireOver(&brokenConn{takes: 1000})
		_ = conn.attach(asked)
		if _, err := conn.Write([]byte("POST")); err == nil {
			t.Errorf("%s: written all the same", name)
		}
		if asked.seal() || asked.vetoed() == nil {
			t.Errorf("%s: left, or without a cause", name)
		}
	}
}

// TestSealWhileAsked tests a call that ends while the veto runs.
func TestSealWhileAsked(t *testing.T) {
	var asked ticket
	asked.veto = func() error {
		if asked.seal() {
			t.Error("left before it was allowed to")
		}
		return nil
	}
	network := &brokenConn{takes: 1000}
	conn := wireOver(network)
	_ = conn.attach(&asked)
	if _, err := conn.Write([]byte("POST")); !errors.Is(err, errSealed) {
		t.Errorf("written after the seal: %v", err)
	}
	if network.takes != 1000 {
		t.Error("bytes left after the seal")
	}
}

// TestSealAgainstWrite tests that the first of the two wins, and that both get the same result.
func TestSealAgainstWrite(t *testing.T) {
	for range 2000 {
		network := &brokenConn{takes: 1000}
		conn := wireOver(network)
		raced := &ticket{}
		_ = conn.attach(raced)
		var left bool
		var both sync.WaitGroup
		both.Go(func() { _, _ = conn.Write([]byte("POST")) })
		both.Go(func() { left = raced.seal() })
		both.Wait()
		if wrote := network.takes != 1000; wrote && !left {
			t.Fatal("NOT_SENT was proven and the bytes left")
		}
	}
}

// TestWritePhaseHasItsOwnClock tests a bank that reads half a request and no more.
func TestWritePhaseHasItsOwnClock(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	conn := wireOver(ours)
	conn.timeout = 50 * time.Millisecond
	writing := &ticket{}
	if err := conn.attach(writing); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = theirs.Read(make([]byte, 2)) })
	_, err := conn.Write([]byte("POST"))
	reading.Wait()
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
	if !writing.seal() {
		t.Error("half a request is on the wire")
	}
}

// TestWriteDeadlineIsOlderThanTheQuestion tests that a worker that stalls anywhere between the veto
// and the first byte finds the deadline of the write over.
func TestWriteDeadlineIsOlderThanTheQuestion(t *testing.T) {
	network := &datedConn{}
	conn := wireOver(network)
	var asked time.Time
	punctual := &ticket{veto: func() error { asked = time.Now(); return nil }}
	_ = conn.attach(punctual)
	if _, err := conn.Write([]byte("POST")); err != nil {
		t.Fatal(err)
	}
	if network.deadline.IsZero() || network.deadline.After(asked.Add(conn.timeout)) {
		t.Errorf("the write may start until %s after the question, want at most %s", network.deadline.Sub(asked),
			conn.timeout)
	}
	network.written = 0
	punctual.settle(true)
	conn.timeout = time.Millisecond
	frozen := &ticket{veto: func() error { <-time.After(5 * time.Millisecond); return nil }}
	_ = conn.attach(frozen)
	if _, err := conn.Write([]byte("POST")); !errors.Is(err, errStalled) || network.written != 0 {
		t.Errorf("after a freeze: %v, %d bytes went out", err, network.written)
	}
	if frozen.seal() || !errors.Is(frozen.vetoed(), errStalled) {
		t.Error("left, or without a cause")
	}
}

// datedConn records the deadline of writes and the number of bytes written.
type datedConn struct {
	net.Conn
	deadline time.Time
	written  int
}

func (d *datedConn) SetWriteDeadline(at time.Time) error {
	d.deadline = at
	return nil
}

func (d *datedConn) Write(p []byte) (int, error) {
	d.written += len(p)
	return len(p), nil
}

// TestTransportHasNoWaysOfItsOwn tests that no environment variable redirects payments, and that no
// streams share a connection, which would hide the first byte.
func TestTransportHasNoWaysOfItsOwn(t *testing.T) {
	transport := newTransport(&dialer{}, 1)
	if transport.Proxy != nil {
		t.Error("a proxy")
	}
	if transport.Protocols == nil || !transport.Protocols.HTTP1() || transport.Protocols.HTTP2() ||
		transport.Protocols.UnencryptedHTTP2() {
		t.Errorf("protocols %v", transport.Protocols)
	}
}

// TestAnswerOfAnEarlierRequest tests that bytes that a kept connection received before a request
// was written are not its answer.
func TestAnswerOfAnEarlierRequest(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	conn := wireOver(near)
	brings := func() {
		t.Helper()
		go far.Write([]byte("HTTP/1.1 402 Payment Required")) //nolint:errcheck // it is read
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	request := &ticket{}
	if err := conn.attach(request); err != nil {
		t.Fatal(err)
	}
	if brings(); request.answered() {
		t.Error("what was there before the request is its answer")
	}
	go far.Read(make([]byte, 100)) //nolint:errcheck // it is written
	if _, err := conn.Write([]byte("POST")); err != nil {
		t.Fatal(err)
	}
	if request.answered() {
		t.Error("answered before anything came")
	}
	if brings(); !request.answered() {
		t.Error("the answer is not seen")
	}
}

// TestSpentConnection tests that a connection takes no byte of a request before the one before has
// released it, and is closed.
func TestSpentConnection(t *testing.T) {
	for name, settle := range map[string]func(*ticket){
		"not settled": func(*ticket) {}, "given up": func(t *ticket) { t.settle(false) },
	} {
		network := &countedConn{}
		conn := wireOver(network)
		first, second := &ticket{}, &ticket{}
		_ = conn.attach(first)
		if _, err := conn.Write([]byte("POST")); err != nil {
			t.Fatal(err)
		}
		settle(first)
		if err := conn.attach(second); !errors.Is(err, errSpent) {
			t.Errorf("%s: lent to the next request: %v", name, err)
		}
		if _, err := conn.Write([]byte("POST")); !errors.Is(err, errNoTicket) || network.written != 4 || network.closed == 0 {
			t.Errorf("%s: %v, %d bytes went out, closed %d times", name, err, network.written, network.closed)
		}
		if !second.turnedAway() || second.turnedAway() || second.seal() {
			t.Errorf("%s: the next request may not try another connection, or has left", name)
		}
	}
	asked := &ticket{refused: true, state: ticketSealed}
	if asked.turnedAway() {
		t.Error("a request that was stopped may try another connection")
	}
}

// TestUnaskedBytes tests that what comes on a connection that has no request is given to none, and
// not to package net/http, which prints it.
func TestUnaskedBytes(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	conn := wireOver(near)
	first := &ticket{}
	_ = conn.attach(first)
	first.settle(true)
	go far.Write([]byte("HTTP/1.1 200 OK")) //nolint:errcheck // it is read
	if n, err := conn.Read(make([]byte, 100)); n != 0 || !errors.Is(err, errUnasked) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// countedConn counts the bytes that it takes, and how often it is closed.
type countedConn struct {
	net.Conn
	written, closed int
}

func (c *countedConn) SetWriteDeadline(time.Time) error { return nil }

func (c *countedConn) Write(p []byte) (int, error) {
	c.written += len(p)
	return len(p), nil
}

func (c *countedConn) Close() error {
	c.closed++
	return nil
}
