package brokers

import (
	"bytes"
	"encoding/binary"
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
	protocol Protocol
	losing   atomic.Bool
	lost     atomic.Int64
	work     sync.WaitGroup
}

// Protocol is what a proxy has to know of the one of its broker.
type Protocol struct {
	Scheme string
	// Publishes reports whether bytes that a client has written at once contain the beginning of a message.
	Publishes func(written []byte) bool
}

// The protocols. A client of Kafka writes SIZE, KEY and VERSION first; a message has the key 0.
var (
	NATSProtocol  = Protocol{"nats", func(written []byte) bool { return bytes.Contains(written, []byte("HPUB ")) }}
	KafkaProtocol = Protocol{"kafka", func(written []byte) bool {
		return len(written) > 8 && binary.BigEndian.Uint16(written[4:]) == 0 && binary.BigEndian.Uint16(written[6:]) < 100
	}}
)

// NewProxy starts a proxy to a server, until the test ends.
func NewProxy(t testing.TB, to *Server) *Proxy {
	t.Helper()
	p, err := OpenProxy(NATSProtocol, strings.TrimPrefix(to.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// OpenProxy starts a proxy to the server at an address, HOST:PORT. Close it when done.
func OpenProxy(protocol Protocol, to string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, protocol: protocol}
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

// URL is the proxy's address, with the scheme of the protocol.
func (p *Proxy) URL() string { return p.protocol.Scheme + "://" + p.Address() }

// Address is the proxy's address, HOST:PORT.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

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
			if p.losing.Load() && p.protocol.Publishes(buffer[:n]) {
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
