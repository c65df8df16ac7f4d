package servicetest

import (
	"net"
	"sync"
)

// Listener accepts no connection. It uses no network, for which virtual time would not
// wait.
type Listener struct {
	once   sync.Once
	closed chan struct{}
}

// NewListener returns an open Listener.
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

// Addr returns an address without a network.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }
