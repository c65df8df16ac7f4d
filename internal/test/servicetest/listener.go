package servicetest

import (
	"net"
	"sync"
)

// Listener hears nothing until it is closed. It needs no network, which virtual time does not wait for.
type Listener struct {
	once   sync.Once
	closed chan struct{}
}

// NewListener makes one that is open.
func NewListener() *Listener { return &Listener{closed: make(chan struct{})} }

// Accept waits until the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is that of no network.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }
