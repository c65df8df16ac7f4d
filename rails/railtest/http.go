package railtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
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

	keyHeader string // the request header with the rail key; empty: none

	mu    sync.Mutex
	seen  []seen
	heard bytes.Buffer
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

// httpWitness is the witness for HTTP/1.1.
type httpWitness struct{ keyHeader string }

// HTTP returns the witness for an adapter that uses HTTP/1.1 without TLS. An address of it is the
// URL of a bank on loopback. keyHeader names the request header with the rail key; empty: the rail
// key is in the target or in the body.
func HTTP(keyHeader string) Witness { return httpWitness{keyHeader: keyHeader} }

func (w httpWitness) Protocol() string            { return "HTTP/1.1" }
func (w httpWitness) Nowhere(t testing.TB) string { return "http://" + closedPort(t) }

func (w httpWitness) Open(t testing.TB, behave func(Request)) Bank {
	t.Helper()
	return w.bank(t, func(c *client) { behave(c) })
}

// Cases implements Witness.
func (w httpWitness) Cases() []Case {
	return []Case{
		{"NoRedirect", w.noRedirect},
		{"Garbage", w.garbage},
		{"CutOff", w.cutOff},
		{"Undecoded", w.undecoded},
		{"BoundedAnswers", w.boundedAnswers},
		{"Hangs", w.hangs},
		{"EndlessAnswers", w.endlessAnswers},
		{"StopEndsAnswers", w.stopEndsAnswers},
		{"PagesProveNothing", w.pagesProveNothing},
	}
}

// bank starts a bank that calls behave for each request. If behave returns without closing the
// connection, the bank reads the next request.
func (w httpWitness) bank(t testing.TB, behave func(c *client)) *bank {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{
		url: "http://" + listener.Addr().String(), listener: listener, behave: behave,
		ended: make(chan struct{}), conns: map[net.Conn]bool{}, keyHeader: w.keyHeader,
	}
	b.work.Go(b.accept)
	t.Cleanup(b.Close)
	return b
}

// Address implements Bank.
func (b *bank) Address() string { return b.url }

// Close implements Bank.
func (b *bank) Close() {
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
	c.bank.heard.Write(p[:n])
	c.bank.mu.Unlock()
	return n, err
}

// requests returns all requests that the bank received.
func (b *bank) requests() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]seen(nil), b.seen...)
}

// Asked implements Bank.
func (b *bank) Asked() int { return len(b.requests()) }

// Arrived implements Bank.
func (b *bank) Arrived() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// Heard implements Bank.
func (b *bank) Heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard.String()
}

// Sends implements Bank. Of the headers it has the one with the rail key.
func (b *bank) Sends() []string {
	var all []string
	for _, request := range b.requests() {
		all = append(all, fmt.Sprintf("%s %s %q %s", request.method, request.target, request.header.Get(b.keyHeader),
			request.body))
	}
	return all
}

// Times implements Bank.
func (b *bank) Times(railKey string) int {
	n := 0
	for _, request := range b.requests() {
		head := fmt.Sprint(request.target, request.header)
		if strings.Contains(head, railKey) || bytes.Contains(request.body, []byte(railKey)) {
			n++
		}
	}
	return n
}

// railKeys is the form of payment.RailKey.
var railKeys = regexp.MustCompile(`rh[0-9a-f]{32}`)

// RailKey implements Request.
func (c *client) RailKey() string {
	if key := c.request.header.Get(c.bank.keyHeader); key != "" {
		return key
	}
	return railKeys.FindString(c.request.target + string(c.request.body))
}

// Say implements Request.
func (c *client) Say(answer Answer) {
	body := strings.ReplaceAll(answer.Body, "{rail_key}", c.RailKey())
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		answer.Status, http.StatusText(answer.Status), len(body), body)
}

// Cut implements Request.
func (c *client) Cut() { c.Close() }

// Trickle implements Request by a switch to another protocol, in which HTTP libraries apply no
// timeout of theirs.
func (c *client) Trickle() {
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	c.Hang()
}

// reused reports whether a request was not the first of its connection.
func (b *bank) reused() bool {
	return slices.ContainsFunc(b.requests(), func(request seen) bool { return request.reused })
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

// Hang implements Request.
func (c *client) Hang() {
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

// reset ends a connection so that the client gets an error and no end of file.
func (c *client) reset() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		if err := conn.SetLinger(0); err != nil && !errors.Is(err, net.ErrClosed) {
			return
		}
	}
	c.Close()
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
	return address
}
