package brokers

import (
	"io"
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
	work     sync.WaitGroup
}

// NewProxy starts a proxy to a server.
func NewProxy(t testing.TB, to *Server) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener}
	p.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(conn, strings.TrimPrefix(to.URL(), "nats://")) })
		}
	})
	t.Cleanup(func() { listener.Close() })
	return p
}

// URL is the proxy's address.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// LoseAcks has the proxy lose acknowledgements, or ends that.
func (p *Proxy) LoseAcks(lose bool) { p.losing.Store(lose) }

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
		if err != nil || published.Load() {
			return
		}
		if _, err := io.WriteString(conn, string(buffer[:n])); err != nil {
			return
		}
	}
}
