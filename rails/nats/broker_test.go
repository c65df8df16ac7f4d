package nats_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// witness is a NATS server of this package, on a raw socket: it answers a login and questions about
// the settings of a stream, and leaves every message and every question about one to the test.
type witness struct {
	stream  string
	version string // of the server; empty: 2.10.7
}

// fit are the settings of a stream that the adapter accepts, created long ago. {last} is replaced by
// the number of its last message.
const fit = `{"config":{"name":"PAYMENTS","subjects":["payments.>"],"retention":"limits","storage":"file","discard":"old",
	"num_replicas":3,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,
	"duplicate_window":3600000000000},"cluster":{"leader":"n1","replicas":[{"name":"n2","active":1000000},
	{"name":"n3","active":900000000}]},"created":"2020-01-01T00:00:00Z","state":{"messages":7,"first_seq":1,"last_seq":{last},
	"first_ts":"2020-01-02T00:00:00Z"}}`

func (w witness) Protocol() string       { return "NATS" }
func (w witness) Cases() []railtest.Case { return nil }

func (w witness) Nowhere(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "nats://" + listener.Addr().String()
}

func (w witness) Open(t testing.TB, behave func(railtest.Request)) railtest.Bank {
	t.Helper()
	return w.broker(t, func(c *client) { behave(c) })
}

func (w witness) broker(t testing.TB, behave func(*client)) *broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{
		listener: listener, stream: strings.Join(strings.Fields(w.stream), ""), behave: behave, conns: map[net.Conn]bool{},
		ended: make(chan struct{}), last: 7, version: cmp.Or(w.version, "2.10.7"),
	}
	b.work.Go(b.accept)
	t.Cleanup(b.Close)
	return b
}

type broker struct {
	listener net.Listener
	stream   string
	domain   string // of JetStream
	version  string // of the server
	dumb     bool   // does not answer about the stream
	refuses  string // logins, with this error; empty: no login
	behave   func(*client)
	looked   func() // called after a look at the stream, before the next byte is read; nil: nothing
	ended    chan struct{}
	work     sync.WaitGroup

	mu       sync.Mutex
	requests []request
	last     int // the number of the stream's last message
	arrived  int64
	serving  int // connections
	heard    bytes.Buffer
	conns    map[net.Conn]bool
}

// request is one message, or one question about a message.
type request struct{ subject, reply, head, data string }

// client is a connection, after a request was read.
type client struct {
	net.Conn
	broker  *broker
	request request
}

func (b *broker) Address() string { return "nats://" + b.listener.Addr().String() }

func (b *broker) Close() {
	b.mu.Lock()
	select {
	case <-b.ended:
	default:
		close(b.ended)
		b.listener.Close()
		for conn := range b.conns {
			conn.Close()
		}
	}
	b.mu.Unlock()
	b.work.Wait()
}

func (b *broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns[conn] = true
		b.serving++
		if b.looked != nil {
			_ = conn.(*net.TCPConn).SetReadBuffer(4096) // what the test waits for is then in the sender's kernel
		}
		b.mu.Unlock()
		b.work.Go(func() { b.serve(conn) })
	}
}

func (b *broker) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.serving--
	}()
	fmt.Fprintf(conn, `INFO {"version":%q,"headers":true,"jetstream":true,"max_payload":1048576,"domain":%q}`+"\r\n",
		b.version, b.domain)
	reader := bufio.NewReader(io.TeeReader(conn, &listener{b}))
	for {
		line, err := reader.ReadString('\n')
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return
		}
		message := fields[0] == "HPUB" || strings.Contains(line, ".MSG.GET.")
		if message {
			b.count(len(line))
		}
		if err != nil {
			return
		}
		switch fields[0] {
		case "PING":
			if b.refuses != "" {
				fmt.Fprintf(conn, "-ERR '%s'\r\n", b.refuses)
				return
			}
			io.WriteString(conn, "PONG\r\n")
		case "PUB", "HPUB":
			total, _ := strconv.Atoi(fields[len(fields)-1])
			text := make([]byte, total+2)
			n, err := io.ReadFull(reader, text)
			if message {
				b.count(n)
			}
			if err != nil {
				return
			}
			if !message && b.dumb {
				continue
			}
			if !message {
				b.mu.Lock()
				stream := strings.Replace(b.stream, "{last}", strconv.Itoa(b.last), 1)
				b.mu.Unlock()
				fmt.Fprintf(conn, "MSG %s 1 %d\r\n%s\r\n", fields[2], len(stream), stream)
				if b.looked != nil {
					b.looked()
				}
				continue
			}
			r := request{subject: fields[1], reply: fields[2], data: string(text[:total])}
			if fields[0] == "HPUB" {
				head, _ := strconv.Atoi(fields[3])
				r.head, r.data = string(text[:head]), string(text[head:total])
			}
			b.mu.Lock()
			b.requests = append(b.requests, r)
			b.mu.Unlock()
			b.behave(&client{Conn: conn, broker: b, request: r})
		}
	}
}

// listener records all that arrives.
type listener struct{ broker *broker }

func (l *listener) Write(p []byte) (int, error) {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	return l.broker.heard.Write(p)
}

func (b *broker) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived += int64(n)
}

func (b *broker) all() []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]request(nil), b.requests...)
}

func (b *broker) Asked() int { return len(b.all()) }

func (b *broker) Times(railKey string) int {
	n := 0
	for _, r := range b.all() {
		if strings.Contains(r.subject+r.head+r.data, railKey) {
			n++
		}
	}
	return n
}

func (b *broker) Arrived() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.arrived
}

func (b *broker) Heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard.String()
}

func (b *broker) Sends() []string {
	var all []string
	for _, r := range b.all() {
		all = append(all, r.subject+"\n"+r.head+r.data)
	}
	return all
}

var railKeys = regexp.MustCompile(`rh[0-9a-f]{32}`)

func (c *client) RailKey() string {
	return railKeys.FindString(c.request.subject + c.request.head + c.request.data)
}

// Say answers. {hdrs} is replaced by the headers of a stored message with the rail key, and {seq} by the number of
// a message after the last one.
func (c *client) Say(answer railtest.Answer) {
	if answer.Status != 0 {
		head := fmt.Sprintf("NATS/1.0 %d\r\n\r\n", answer.Status)
		fmt.Fprintf(c, "HMSG %s 1 %d %d\r\n%s\r\n", c.request.reply, len(head), len(head), head)
		return
	}
	hdrs := base64.StdEncoding.EncodeToString([]byte("NATS/1.0\r\nNats-Msg-Id: " + c.RailKey() + "\r\n\r\n"))
	number := ""
	if strings.Contains(answer.Body, "{seq}") {
		c.broker.mu.Lock()
		c.broker.last++
		number = strconv.Itoa(c.broker.last)
		c.broker.mu.Unlock()
	}
	body := strings.NewReplacer("{rail_key}", c.RailKey(), "{hdrs}", hdrs, "{seq}", number).Replace(answer.Body)
	fmt.Fprintf(c, "MSG %s 1 %d\r\n%s\r\n", c.request.reply, len(body), body)
}

func (c *client) Hang() {
	gone := make(chan struct{})
	c.broker.work.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, c.Conn)
	})
	select {
	case <-gone:
	case <-c.broker.ended:
		c.Close()
		<-gone
	}
}

// Trickle announces a message and delivers the beginning of it.
func (c *client) Trickle() {
	fmt.Fprintf(c, "MSG %s 1 100\r\n{\"stream\":", c.request.reply)
	c.Hang()
}

func (c *client) Cut() { c.Close() }

// drained waits until no connection is served any more: all that was delivered was read.
func (b *broker) drained(t *testing.T) {
	t.Helper()
	err := await.Until(t.Context(), time.Minute, "every connection has ended", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.serving == 0, nil
	})
	if err != nil {
		t.Error(err)
	}
}
