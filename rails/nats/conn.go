package nats

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Errors of a connection.
var (
	errStalled = errors.New("this process stalled for longer than the write may take")
	errRefused = errors.New("the server refuses us")
	errClosed  = errors.New("the server has ended the connection")
)

// Bounds of what is read.
const (
	maxLine   = 64 << 10 // bytes of a protocol line: INFO lists every server of a cluster
	maxAnswer = 1 << 20  // bytes of one message with its headers
)

// conn is one connection to a server. It carries one request at a time, so that what was written and
// what an answer belongs to is certain. It speaks the protocol itself: a client library reconnects,
// buffers what was not written, and repeats requests.
type conn struct {
	net.Conn
	tcp     *net.TCPConn
	reader  *bufio.Reader
	inbox   string // of this connection, with a random part
	domain  string // the JetStream domain of the server
	version string // of the server
	server  int    // its index among the servers

	checked time.Time // when the stream's settings were looked at
	stream  time.Time // which stream that was, as in mark

	writing sync.Mutex
	mu      sync.Mutex
	maxSize int64        // the largest message that the server takes
	asked   string       // the subject of the request under way, if its refusal is proved by it; empty: it is not
	awaited string       // the subject of the answer to the request under way
	pulls   bool         // the request is answered by a message of a consumer, under a subject of its own
	answers chan message // of that request
	refusal string       // the last -ERR
	ended   chan struct{}
}

// message is what a server delivered.
type message struct {
	status  int    // of an answer without a body, such as 503; 0: none
	why     string // the server's words for the status
	reply   string // where an answer to the message goes
	head    []byte // its headers, as they were sent
	data    []byte
	refused string // the error that the server sent in place of an answer; empty: none
	long    bool   // it has more than maxAnswer bytes, which were not kept
}

// serverInfo is the greeting of a server.
type serverInfo struct {
	Version      string `json:"version"`
	MaxPayload   int64  `json:"max_payload"`
	Headers      bool   `json:"headers"`
	TLSRequired  bool   `json:"tls_required"`
	TLSAvailable bool   `json:"tls_available"`
	Nonce        string `json:"nonce"`
	JetStream    bool   `json:"jetstream"`
	Domain       string `json:"domain"` // of JetStream; empty: none
}

// dial opens a connection to one server and logs in. The context ends it in any step.
func dial(ctx context.Context, server string, by login, inboxPrefix string) (*conn, error) {
	at, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the server's URL can't be read")
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		raw.Close()
		return nil, errors.New("no TCP connection")
	}
	c := &conn{
		Conn: raw, tcp: tcp, reader: bufio.NewReaderSize(raw, maxLine), inbox: inboxPrefix + "." + random(),
		answers: make(chan message, 1), ended: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, c.abort)
	if err := c.greet(ctx, at, by); err != nil {
		stop()
		c.abort()
		close(c.ended)
		return nil, err
	}
	go c.read()
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// greet reads the greeting, switches to TLS and logs in.
func (c *conn) greet(ctx context.Context, at *url.URL, by login) error {
	line, err := c.line()
	if err != nil {
		return fmt.Errorf("reading the greeting: %w", err)
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	var info serverInfo
	if !ok || json.Unmarshal(text, &info) != nil {
		return errors.New("what answers is no NATS server")
	}
	if at.Scheme == "tls" || info.TLSRequired {
		if !info.TLSRequired && !info.TLSAvailable {
			return fmt.Errorf("%w: it has no TLS", errRefused)
		}
		config := by.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = at.Hostname()
		}
		secured := tls.Client(c.tcp, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		c.Conn, c.reader = secured, bufio.NewReaderSize(secured, maxLine)
	}
	if !info.Headers || !info.JetStream {
		return fmt.Errorf("%w: it has no JetStream, or no headers", errRefused)
	}
	c.maxSize, c.domain, c.version = info.MaxPayload, info.Domain, info.Version
	hello, err := by.hello(info.Nonce)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.Conn, "CONNECT %s\r\nSUB %s.* 1\r\nPING\r\n", hello, c.inbox); err != nil {
		return err
	}
	for {
		line, err := c.line()
		switch {
		case err != nil:
			return err
		case string(line) == "PONG":
			return nil
		case bytes.HasPrefix(line, []byte("-ERR")):
			if refusesLogin(string(line)) {
				return fmt.Errorf("%w: %s", errRefused, line)
			}
			return fmt.Errorf("the server says %s", line)
		case string(line) == "PING":
			if _, err := fmt.Fprint(c.Conn, "PONG\r\n"); err != nil {
				return err
			}
		case string(line) != "+OK" && !bytes.HasPrefix(line, []byte("INFO ")):
			return errors.New("the login was answered by something else")
		}
	}
}

// read delivers what the server sends, until the connection ends.
func (c *conn) read() {
	defer close(c.ended)
	defer c.abort()
	for {
		line, err := c.line()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(string(line), " ")
		switch strings.ToUpper(verb) {
		case "MSG", "HMSG":
			// A subject may have any byte but these two and those that end a line.
			args := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' })
			if c.deliver(args, strings.ToUpper(verb) == "HMSG") != nil {
				return
			}
		case "PING":
			if c.write([]byte("PONG\r\n"), time.Now().Add(10*time.Second)) != nil {
				return
			}
		case "PONG", "+OK":
		case "INFO":
			c.learn(rest)
		case "-ERR":
			c.refuse(rest)
		default:
			return // no NATS server speaks like this
		}
	}
}

// line reads a protocol line of at most maxLine bytes, without its end.
func (c *conn) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// deliver reads a message: SUBJECT SID [REPLY] [HEADERS] TOTAL, then its bytes. It passes it on if it
// is the answer to the request under way.
func (c *conn) deliver(args []string, hasHeaders bool) error {
	sizes := 1
	if hasHeaders {
		sizes = 2
	}
	if len(args) != 2+sizes && len(args) != 3+sizes {
		return errClosed
	}
	reply := ""
	if len(args) == 3+sizes {
		reply = args[2]
	}
	total, err := strconv.Atoi(args[len(args)-1])
	if err != nil || total < 0 || total > maxAnswer && !c.pulled(reply) {
		return errClosed
	}
	if total > maxAnswer {
		if _, err := io.CopyN(io.Discard, c.reader, int64(total)+2); err != nil {
			return err
		}
		c.pass(args[0], message{reply: reply, long: true})
		return nil
	}
	head := 0
	if hasHeaders {
		head, err = strconv.Atoi(args[len(args)-2])
		if err != nil || head < 0 || head > total {
			return errClosed
		}
	}
	var text bytes.Buffer // it grows with what arrives, not with what was announced
	if _, err := copyN(&text, c.reader, total+2); err != nil {
		return err
	}
	all := text.Bytes()
	if string(all[total:]) != "\r\n" {
		return errClosed
	}
	m := message{reply: reply, head: all[:head], data: all[head:total]}
	if status, ok := bytes.CutPrefix(all[:head], []byte("NATS/1.0 ")); ok {
		m.status, _ = strconv.Atoi(string(status[:min(3, len(status))]))
		line, _, _ := bytes.Cut(status, []byte("\r"))
		m.why = string(line)
	}
	c.pass(args[0], m)
	return nil
}

// pulled reports whether a message is one of the consumer that was asked for one: it says where it is acknowledged.
func (c *conn) pulled(reply string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulls && strings.HasPrefix(reply, ackPrefix)
}

// pass passes a message on if it is the answer to the request under way.
func (c *conn) pass(subject string, m message) {
	pulled := c.pulled(m.reply)
	c.mu.Lock()
	defer c.mu.Unlock()
	if subject != c.awaited && !pulled {
		return
	}
	c.awaited, c.pulls = "", false
	select {
	case c.answers <- m:
	default: // there is an answer already
	}
}

// await makes the connection ready for one request, and returns the subject for its answer. It is
// random, so that another client can't send an answer before it has seen the request.
func (c *conn) await() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.answers:
	default:
	}
	c.asked, c.awaited, c.pulls = "", c.inbox+"."+random(), false
	return c.awaited
}

// awaitPulled is await for a request that is answered by a message of a consumer, or by a status.
func (c *conn) awaitPulled() string {
	subject := c.await()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulls = true
	return subject
}

// refused returns the last error that the server has reported.
func (c *conn) refused() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal
}

// write writes all of a frame before a moment, or ends the connection. It returns errStalled, and has
// written nothing, if the moment has passed.
func (c *conn) write(frame []byte, by time.Time) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !time.Now().Before(by) {
		return errStalled
	}
	if err := c.Conn.SetWriteDeadline(by); err != nil {
		return err
	}
	_, err := c.Conn.Write(frame)
	return err
}

// abort ends the connection, and discards what the kernel has not delivered yet. What the server's
// kernel has taken the server may still read, after the call has ended.
func (c *conn) abort() {
	_ = c.tcp.SetLinger(0) // the connection may have ended already
	_ = c.tcp.Close()
}

// alive reports whether the connection has not ended.
func (c *conn) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// random returns 128 random bits as text.
func random() string { return rand.Text() }
