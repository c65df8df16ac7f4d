package api

import (
	"io"
	"net"
	"sync"
)

// wire forwards connections to an API and can cut them: all that are open are closed at once.
type wire struct {
	listener net.Listener
	upstream string
	mu       sync.Mutex
	open     map[net.Conn]bool
}

func newWire(upstream string) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, upstream: upstream, open: make(map[net.Conn]bool)}
	go w.run()
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) run() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.upstream)
		if err != nil {
			near.Close()
			continue
		}
		w.mu.Lock()
		w.open[near], w.open[far] = true, true
		w.mu.Unlock()
		go w.pass(near, far)
		go w.pass(far, near)
	}
}

func (w *wire) pass(from, to net.Conn) {
	io.Copy(to, from) //nolint:errcheck // it ends when either is closed
	from.Close()
	to.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, from)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.open {
		conn.Close()
	}
}
