package railtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// bank listens on a raw socket and records every request whose head arrived completely. The test
// decides what it does with a request.
type bank struct {
	url      string
	listener net.Listener
	behave   func(c *client)
	ended    chan struct{} // closed when the test ends

	mu    sync.Mutex
	seen  []seen
	bytes int64 // all bytes that arrived
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

// seen is one request as the bank received it.
type seen struct {
	method string
	target string
	header http.Header
	body   []byte
	reused bool // not the first on its connection
}

// client is one connection to the bank, after a request was read.
type client struct {
	net.Conn
	bank    *bank
	request seen
	head    *http.Request
}

// openBank starts a bank that calls behave for each request. If behave returns without closing the
// connection, the bank reads the next request.
func openBank(t testing.TB, behave func(c *client)) *bank {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{
		url: "http://" + listener.Addr().String(), listener: listener, behave: behave,
		ended: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	b.work.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

func (b *bank) close() {
	b.mu.Lock()
	select {
	case <-b.ended:
		b.mu.Unlock()
		return
	default:
	}
	close(b.ended)
	b.listener.Close()
	for conn := range b.conns {
		conn.Close()
	}
	b.mu.Unlock()
	b.work.Wait()
}

func (b *bank) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns[conn] = true
		b.mu.Unlock()
		b.work.Go(func() { b.serve(conn) })
	}
}

func (b *bank) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(&counter{Conn: conn, bank: b})
	for n := 0; ; n++ {
		head, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.seen = append(b.seen, seen{method: head.Method, target: head.RequestURI, header: head.Header, reused: n > 0})
		at := len(b.seen) - 1
		b.mu.Unlock()
		body, err := io.ReadAll(head.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.seen[at].body = body
		request := b.seen[at]
		b.mu.Unlock()
		b.behave(&client{Conn: conn, bank: b, request: request, head: head})
	}
}

// counter counts the bytes that arrive, so that incomplete requests count too.
type counter struct {
	net.Conn
	bank *bank
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bank.mu.Lock()
	c.bank.bytes += int64(n)
	c.bank.mu.Unlock()
	return n, err
}

// requests returns all requests that the bank received.
func (b *bank) requests() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]seen(nil), b.seen...)
}

func (b *bank) arrived() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// times counts the requests that contain a rail key, in any place.
func (b *bank) times(railKey string) int {
	n := 0
	for _, request := range b.requests() {
		head := fmt.Sprint(request.target, request.header)
		if strings.Contains(head, railKey) || bytes.Contains(request.body, []byte(railKey)) {
			n++
		}
	}
	return n
}

// say sends an answer with the rail key filled in.
func (c *client) say(answer Answer, railKey string) {
	body := strings.ReplaceAll(answer.Body, "{rail_key}", railKey)
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		answer.Status, http.StatusText(answer.Status), len(body), body)
}

// stream writes a piece repeatedly, at a pace, until the client closes the connection or the test
// ends.
func (c *client) stream(piece string, every time.Duration) {
	tick := time.NewTicker(max(every, time.Microsecond))
	defer tick.Stop()
	for {
		if _, err := io.WriteString(c, piece); err != nil {
			return
		}
		if every == 0 {
			continue
		}
		select {
		case <-tick.C:
		case <-c.bank.ended:
			return
		}
	}
}

// hang does nothing until the client closes the connection or the test ends.
func (c *client) hang() {
	gone := make(chan struct{})
	c.bank.work.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, c.Conn)
	})
	select {
	case <-gone:
	case <-c.bank.ended:
		c.Close()
		<-gone
	}
}

// closedPort returns an address at which no process listens.
func closedPort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	return "http://" + address
}
