package kafka

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors of a connection.
var (
	errStalled = errors.New("this process stalled for longer than the write may take")
	errRefused = errors.New("the broker refuses us")
	errEnded   = errors.New("the connection has ended with an earlier call")
)

// The schemes of servers.
const (
	schemeTLS   = "tls"
	schemePlain = "kafka"
)

const (
	maxAnswer = 4 << 20 // bytes: the metadata of a topic lists each partition
	clientID  = "railhead"
)

// The versions of the requests, which every broker from Apache Kafka 2.4 on takes.
const (
	produceVersion      = 8 // has the broker's text about an error
	metadataVersion     = 7
	describeVersion     = 1
	handshakeVersion    = 1
	authenticateVersion = 1
	fetchVersion        = 11
	listVersion         = 5
	coordinatorVersion  = 2
	positionVersion     = 5
	commitVersion       = 7
)

// What a connection is used for, and the versions that it needs.
var (
	sends = map[kmsg.Key]int16{
		kmsg.Produce: produceVersion, kmsg.Metadata: metadataVersion, kmsg.DescribeConfigs: describeVersion,
	}
	reads = map[kmsg.Key]int16{
		kmsg.Fetch: fetchVersion, kmsg.ListOffsets: listVersion, kmsg.FindCoordinator: coordinatorVersion,
		kmsg.OffsetFetch: positionVersion, kmsg.OffsetCommit: commitVersion, kmsg.Metadata: metadataVersion,
		kmsg.DescribeConfigs: describeVersion,
	}
)

// conn is one connection to a broker. It carries one request at a time, so that what was written and
// what an answer belongs to is certain. It uses the messages of franz-go and not its client: decision
// 0019 says why.
type conn struct {
	net.Conn
	tcp     *net.TCPConn
	server  string
	leads   int32     // the number of the broker, once it has said that it leads a partition
	number  int32     // of the last request
	expires time.Time // of the login; zero: never
	checked time.Time // when the topic's settings were looked at
	dead    bool
}

// dial opens a connection to one broker and logs in. The context ends it in any step.
func dial(ctx context.Context, server string, by login, needs map[kmsg.Key]int16) (*conn, error) {
	at, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the broker's address can't be read")
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
	c := &conn{Conn: raw, tcp: tcp, server: server}
	if err := c.greet(ctx, at, by, needs); err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// greet switches to TLS, looks at the versions, and logs in.
func (c *conn) greet(ctx context.Context, at *url.URL, by login, needs map[kmsg.Key]int16) error {
	if at.Scheme == schemeTLS {
		config := by.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = at.Hostname()
		}
		secured := tls.Client(c.tcp, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		c.Conn = secured
	}
	needed := maps.Clone(needs)
	if by.mechanism != "" {
		needed[kmsg.SASLHandshake], needed[kmsg.SASLAuthenticate] = handshakeVersion, authenticateVersion
	}
	if err := c.versions(ctx, needed); err != nil {
		return err
	}
	if by.mechanism == "" {
		return nil
	}
	return c.authenticate(ctx, by)
}

// versions asks which requests the broker takes. One that it does not take in our version it would
// answer in a form that proves nothing.
func (c *conn) versions(ctx context.Context, needed map[kmsg.Key]int16) error {
	var got kmsg.ApiVersionsResponse
	if err := c.ask(ctx, kmsg.NewPtrApiVersionsRequest(), &got); err != nil {
		return fmt.Errorf("asking for its versions: %w", err)
	}
	if got.ErrorCode != 0 {
		name, _ := nameOf(got.ErrorCode)
		return fmt.Errorf("asking for its versions: %s", name)
	}
	takes := map[kmsg.Key]bool{}
	for _, each := range got.ApiKeys {
		key := kmsg.Key(each.ApiKey)
		if version, wanted := needed[key]; wanted && each.MinVersion <= version && version <= each.MaxVersion {
			takes[key] = true
		}
	}
	var lacks []string
	for key, version := range needed {
		if !takes[key] {
			lacks = append(lacks, fmt.Sprintf("%s in version %d", key.Name(), version))
		}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		return fmt.Errorf("%w: it does not take %s, as Apache Kafka from 2.4 on does", errRefused,
			strings.Join(lacks, ", "))
	}
	return nil
}

// ask makes a request that is about no payment, within the context's time. After an error the connection
// has ended.
func (c *conn) ask(ctx context.Context, request kmsg.Request, into kmsg.Response) error {
	by, bounded := ctx.Deadline()
	if !bounded {
		return errors.New("a question needs a deadline")
	}
	body, err := c.exchange(ctx, c.frame(request), by, time.Until(by))
	if err != nil {
		c.abort()
		return err
	}
	if c.dead { // the context has ended together with the answer
		return cmp.Or(context.Cause(ctx), errEnded)
	}
	into.SetVersion(request.GetVersion())
	if err := into.ReadFrom(body); err != nil {
		c.abort()
		return errors.New("the answer can't be read")
	}
	return nil
}

// frame returns the bytes of a request, with the next number of the connection.
func (c *conn) frame(request kmsg.Request) []byte {
	c.number++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, c.number)
}

// exchange writes one request before a moment, and waits for its answer. After errStalled and errEnded
// nothing was written; after any other error the connection has ended. A connection whose context has
// ended together with the answer is dead, and carries nothing more.
func (c *conn) exchange(ctx context.Context, frame []byte, by time.Time, wait time.Duration) ([]byte, error) {
	switch {
	case c.dead:
		return nil, errEnded
	case !time.Now().Before(by):
		return nil, errStalled
	}
	stop := context.AfterFunc(ctx, c.cut)
	body, err := c.roundTrip(frame, by, wait)
	if !stop() || err != nil {
		c.abort()
	}
	return body, err
}

func (c *conn) roundTrip(frame []byte, by time.Time, wait time.Duration) ([]byte, error) {
	if err := c.SetWriteDeadline(by); err != nil {
		return nil, err
	}
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	if number := int32(binary.BigEndian.Uint32(head[4:])); number != c.number {
		return nil, errors.New("the answer is to another request")
	}
	var body bytes.Buffer // it grows with what arrives, not with what was announced
	if _, err := io.CopyN(&body, c, int64(size)-4); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// over reports whether the connection is not to be used any more.
func (c *conn) over() bool { return c.dead || !c.expires.IsZero() && !time.Now().Before(c.expires) }

// abort ends the connection for good.
func (c *conn) abort() {
	c.dead = true
	c.cut()
}

// cut ends the connection, and discards what the kernel has not sent yet: it would arrive after the
// call has ended. Any goroutine may call it.
func (c *conn) cut() {
	_ = c.tcp.SetLinger(0) // the connection may have ended already
	_ = c.tcp.Close()
}
