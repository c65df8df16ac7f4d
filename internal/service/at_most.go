package service

import (
	"net"
	"sync"
)

// atMost is the listener of AtMost.
type atMost struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{}
}

// AtMost returns a listener that accepts a connection only while fewer than so many are open. The
// others wait in the queue of the operating system.
func AtMost(listener net.Listener, most int) net.Listener {
	return &atMost{Listener: listener, slots: make(chan struct{}, most), done: make(chan struct{})}
}

func (l *atMost) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotConn{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *atMost) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// slotConn releases its slot when it is closed.
type slotConn struct {
	net.Conn
	free func()
}

func (c *slotConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite lets the last answer arrive if the request was not read to its end.
func (c *slotConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
