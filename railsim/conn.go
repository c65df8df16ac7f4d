package railsim

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// handshakeTimeout bounds the TLS handshake of a connection that is then left unread.
const handshakeTimeout = 10 * time.Second

// listener bounds the connections, numbers them, draws their faults, and uses TLS if configured.
type listener struct {
	net.Listener
	bank   *Bank
	slots  chan struct{} // one token per open connection
	number *atomic.Int64
}

func (b *Bank) listen(l net.Listener) net.Listener {
	return &listener{Listener: l, bank: b, slots: b.slots, number: &b.conns}
}

// Accept returns the next connection that no fault stalls.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.bank.ctx.Done():
			return nil, net.ErrClosed
		}
		raw, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		c := &bankConn{Conn: raw, number: l.number.Add(1), release: sync.OnceFunc(func() { <-l.slots })}
		var conn net.Conn = c
		if l.bank.cfg.TLS != nil {
			conn = tls.Server(c, l.bank.tls)
		}
		act := l.bank.faults.apply(stageConn, subject{nth: c.number, arrival: c.number}).other()
		if act.Kind == "" {
			return conn, nil
		}
		if !l.bank.spawn(func() { l.bank.stall(conn, act) }) {
			_ = conn.Close()
		}
	}
}

// stall keeps a connection open and never reads a request from it.
func (b *Bank) stall(conn net.Conn, act Fault) {
	limit := b.cfg.MaxHang
	if act.DelayMS > 0 {
		limit = act.delay()
	}
	if secure, ok := conn.(*tls.Conn); ok && act.Kind == HangUnread {
		ctx, cancel := context.WithTimeout(b.ctx, handshakeTimeout)
		if err := secure.HandshakeContext(ctx); err != nil {
			b.log.Debug("handshake of a connection to be held", "error", err)
		}
		cancel()
	}
	b.sleep(limit)
	// The Close of the TLS connection would send an alert.
	if tcp := tcpOf(conn); tcp != nil {
		_ = tcp.Close()
	}
	_ = conn.Close()
}

// bankConn is a numbered connection, which releases its slot when closed.
type bankConn struct {
	net.Conn
	number  int64
	release func()
}

func (c *bankConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func bankConnOf(conn net.Conn) *bankConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*bankConn)
	return c
}

// tcpOf returns the TCP connection below, or nil if it is of another kind.
func tcpOf(conn net.Conn) *net.TCPConn {
	if c := bankConnOf(conn); c != nil {
		conn = c.Conn
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

type connKey struct{}

// withConn adds the connection's number to the context of a request.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if c := bankConnOf(conn); c != nil {
		return context.WithValue(ctx, connKey{}, c.number)
	}
	return ctx
}

func connNumber(ctx context.Context) int64 {
	n, _ := ctx.Value(connKey{}).(int64)
	return n
}
