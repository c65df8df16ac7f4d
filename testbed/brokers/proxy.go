package brokers

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between the adapter and a server. While it loses acknowledgements, it ends a connection in place of
// passing on the first bytes that the server sends after a message: the acknowledgement is lost.
type Proxy struct {
	listener net.Listener
	losing   atomic.Bool
	lost     atomic.Int64
	work     sync.WaitGroup
}

// NewProxy starts a proxy to a server, until the test ends.
func NewProxy(t testing.TB, to *Server) *Proxy {
	t.Helper()
	p, err := OpenProxy(strings.TrimPrefix(to.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// OpenProxy starts a proxy to the server at an address, HOST:PORT. Close it when done.
func OpenProxy(to string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener}
	p.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(conn, to) })
		}
	})
	return p, nil
}

// Close ends the listening; connections end with their servers or clients.
func (p *Proxy) Close() { p.listener.Close() }

// URL is the proxy's address.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// LoseAcks has the proxy lose acknowledgements, or ends that.
func (p *Proxy) LoseAcks(lose bool) { p.losing.Store(lose) }

// Lost counts the connections that were ended in place of an acknowledgement.
func (p *Proxy) Lost() int { return int(p.lost.Load()) }

func (p *Proxy) serve(conn net.Conn, to string) {
	defer conn.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	var published atomic.Bool
	p.work.Go(func() {
		defer server.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := conn.Read(buffer)
			if strings.Contains(string(buffer[:n]), "HPUB ") && p.losing.Load() {
				published.Store(true)
			}
			if _, failed := server.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if published.Load() {
			p.lost.Add(1)
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}
