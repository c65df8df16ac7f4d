package kafka_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/rails/railtest"
)

// witness is a Kafka broker of this package, on a raw socket: it answers a login and questions about
// a topic, and leaves every record to the test. It is no real broker.
type witness struct {
	settings   map[string]string // in place of those that the adapter accepts; "": not shown
	inherited  string            // a setting that is not the topic's own
	partitions int               // 0: 4
	replicas   int               // 0: 3
	leaders    map[int32]string  // addresses of the brokers that lead partitions; "": this one
	versions   map[kmsg.Key][2]int16
	refuses    bool // every login
	// Errors about the topic, in answers to the first questions about it.
	topicErrors, settingsErrors []int16
	shelf                       *shelf // of replies; nil: there are none
}

func fit() map[string]string {
	return map[string]string{
		"cleanup.policy": "delete", "compression.type": "uncompressed", "flush.messages": "1", "max.message.bytes": "1048588",
		"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2", "retention.bytes": "-1", "retention.ms": "-1",
		"segment.bytes": "1073741824", "unclean.leader.election.enable": "false",
	}
}

func (w witness) Protocol() string       { return "Kafka (a stub of this package)" }
func (w witness) Cases() []railtest.Case { return nil }

func (w witness) Nowhere(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "kafka://" + listener.Addr().String()
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
		listener: listener, facts: w, behave: behave, conns: map[net.Conn]bool{}, ended: make(chan struct{}),
	}
	b.work.Go(b.accept)
	t.Cleanup(b.Close)
	return b
}

type broker struct {
	listener net.Listener
	facts    witness
	behave   func(*client)
	looked   func() // called after a look at the settings, before the next byte is read; nil: nothing
	ended    chan struct{}
	work     sync.WaitGroup

	mu       sync.Mutex
	requests []*client
	arrived  int64
	appended int64
	logins   int
	serving  int // connections
	heard    bytes.Buffer
	conns    map[net.Conn]bool
}

// client is a connection, after a request with a record was read.
type client struct {
	net.Conn
	broker  *broker
	number  int32
	text    string // the request after its head
	request *kmsg.ProduceRequest
	batch   kmsg.RecordBatch
	record  kmsg.Record
}

func (b *broker) Address() string { return "kafka://" + b.listener.Addr().String() }

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
		b.work.Go(func() {
			defer func() {
				conn.Close()
				b.mu.Lock()
				defer b.mu.Unlock()
				b.serving--
			}()
			for b.next(conn) == nil {
			}
		})
	}
}

// next reads a request: SIZE KEY VERSION NUMBER CLIENT BODY.
func (b *broker) next(conn net.Conn) error {
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	size, key := int(binary.BigEndian.Uint32(head)), int16(binary.BigEndian.Uint16(head[4:]))
	rest := make([]byte, size-8)
	n, err := io.ReadFull(conn, rest)
	b.mu.Lock()
	b.heard.Write(rest[:n])
	if key == int16(kmsg.Produce) {
		b.arrived += int64(len(head) + n)
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	name := int(binary.BigEndian.Uint16(rest))
	request := kmsg.RequestForKey(key)
	request.SetVersion(int16(binary.BigEndian.Uint16(head[6:])))
	if err := request.ReadFrom(rest[2+name:]); err != nil {
		return err
	}
	c := &client{Conn: conn, broker: b, number: int32(binary.BigEndian.Uint32(head[8:])), text: string(rest)}
	switch request := request.(type) {
	case *kmsg.ApiVersionsRequest:
		c.answer(b.takes(request))
	case *kmsg.SASLHandshakeRequest:
		c.answer(request.ResponseKind())
	case *kmsg.SASLAuthenticateRequest:
		b.mu.Lock()
		b.logins++
		b.mu.Unlock()
		answer := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if b.facts.refuses || !bytes.HasSuffix(request.SASLAuthBytes, []byte("\x00rail\x00"+password)) {
			answer.ErrorCode = 58
		}
		c.answer(answer)
	case *kmsg.MetadataRequest:
		c.answer(b.metadata(request))
	case *kmsg.DescribeConfigsRequest:
		answer := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
		about := kmsg.NewDescribeConfigsResponseResource()
		about.ResourceType, about.ResourceName = request.Resources[0].ResourceType, request.Resources[0].ResourceName
		about.ErrorCode = b.pop(&b.facts.settingsErrors)
		has := fit()
		b.mu.Lock()
		maps.Copy(has, b.facts.settings)
		b.mu.Unlock()
		for _, name := range request.Resources[0].ConfigNames {
			if has[name] != "" {
				setting := kmsg.NewDescribeConfigsResponseResourceConfig()
				setting.Name, setting.Value = name, new(has[name])
				setting.Source = kmsg.ConfigSourceDynamicTopicConfig
				if name == b.facts.inherited {
					setting.Source = kmsg.ConfigSourceDefaultConfig
				}
				about.Configs = append(about.Configs, setting)
			}
		}
		answer.Resources = append(answer.Resources, about)
		c.answer(answer)
		if b.looked != nil {
			b.looked()
		}
	case *kmsg.ProduceRequest:
		c.request = request
		if err := c.batch.ReadFrom(request.Topics[0].Partitions[0].Records); err != nil {
			return err
		}
		if err := c.record.ReadFrom(c.batch.Records); err != nil {
			return err
		}
		b.mu.Lock()
		b.requests = append(b.requests, c)
		b.mu.Unlock()
		b.behave(c)
	default:
		c.answer(b.facts.shelf.answer(b, request))
	}
	return nil
}

func (b *broker) metadata(request *kmsg.MetadataRequest) kmsg.Response {
	answer := request.ResponseKind().(*kmsg.MetadataResponse)
	about := kmsg.NewMetadataResponseTopic()
	about.Topic, about.ErrorCode = request.Topics[0].Topic, b.pop(&b.facts.topicErrors)
	partitions, replicas := b.facts.partitions, b.facts.replicas
	if partitions == 0 {
		partitions = 4
	}
	if replicas == 0 {
		replicas = 3
	}
	numbers := map[string]int32{}
	for n := range int32(partitions) {
		address := b.facts.leaders[n]
		if address == "" {
			address = b.Address()
		}
		if _, listed := numbers[address]; !listed {
			host, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "kafka://")) // an address of a listener
			number, _ := strconv.Atoi(port)
			node := kmsg.NewMetadataResponseBroker()
			node.NodeID, node.Host, node.Port = int32(7+len(numbers)), host, int32(number)
			answer.Brokers, numbers[address] = append(answer.Brokers, node), node.NodeID
		}
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition, partition.Leader, partition.Replicas = n, numbers[address], make([]int32, replicas)
		about.Partitions = append(about.Partitions, partition)
	}
	answer.Topics = append(answer.Topics, about)
	if b.facts.shelf != nil {
		answer.ClusterID = new(b.facts.shelf.cluster(b))
	}
	return answer
}

// takes answers which requests the broker takes: those of Apache Kafka 4, or what the test wants.
func (b *broker) takes(request *kmsg.ApiVersionsRequest) kmsg.Response {
	answer := request.ResponseKind().(*kmsg.ApiVersionsResponse)
	versions := map[kmsg.Key][2]int16{
		kmsg.Produce: {3, 13}, kmsg.Metadata: {0, 13}, kmsg.DescribeConfigs: {1, 4}, kmsg.SASLHandshake: {0, 1},
		kmsg.SASLAuthenticate: {0, 2}, kmsg.Fetch: {4, 18}, kmsg.ListOffsets: {1, 11}, kmsg.OffsetFetch: {1, 10},
		kmsg.OffsetCommit: {2, 10}, kmsg.FindCoordinator: {0, 6},
	}
	maps.Copy(versions, b.facts.versions)
	for key, bounds := range versions {
		each := kmsg.NewApiVersionsResponseApiKey()
		each.ApiKey, each.MinVersion, each.MaxVersion = int16(key), bounds[0], bounds[1]
		answer.ApiKeys = append(answer.ApiKeys, each)
	}
	return answer
}

// pop takes the first of some error codes; 0: none is left.
func (b *broker) pop(codes *[]int16) (code int16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(*codes) > 0 {
		code, *codes = (*codes)[0], (*codes)[1:]
	}
	return code
}

// answer writes a response with the number of the request.
func (c *client) answer(response kmsg.Response) {
	_, _ = c.Write(c.bytes(response)) // the other side may have gone
}

func (c *client) bytes(response kmsg.Response) []byte {
	body := response.AppendTo(nil)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(out, uint32(c.number)), body...)
}

func (b *broker) all() []*client {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*client(nil), b.requests...)
}

func (b *broker) Asked() int { return len(b.all()) }

func (b *broker) Times(railKey string) int {
	n := 0
	for _, c := range b.all() {
		n += strings.Count(c.text, railKey)
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
	for _, c := range b.all() {
		all = append(all, c.text)
	}
	return all
}

var railKeys = regexp.MustCompile(`rh[0-9a-f]{32}`)

func (c *client) RailKey() string { return railKeys.FindString(c.text) }

// acknowledgement is an answer to the record, with the next offset, the first of which is 41.
func (c *client) acknowledgement() *kmsg.ProduceResponse {
	c.broker.mu.Lock()
	offset := 41 + c.broker.appended
	c.broker.appended++
	c.broker.mu.Unlock()
	answer := c.request.ResponseKind().(*kmsg.ProduceResponse)
	about, partition := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
	partition.Partition, partition.BaseOffset = c.request.Topics[0].Partitions[0].Partition, offset
	about.Topic = c.request.Topics[0].Topic
	about.Partitions = append(about.Partitions, partition)
	answer.Topics = append(answer.Topics, about)
	return answer
}

// Say answers with an error code, and a text of the broker; a body "topic NAME" without a code is an
// acknowledgement of another topic.
func (c *client) Say(answer railtest.Answer) {
	ack := c.acknowledgement()
	about := &ack.Topics[0].Partitions[0]
	about.ErrorCode = int16(answer.Status)
	if other, ok := strings.CutPrefix(answer.Body, "topic "); ok {
		ack.Topics[0].Topic = other
	} else if answer.Status != 0 {
		about.BaseOffset = -1
		about.ErrorMessage = new(answer.Body[:min(len(answer.Body), 30000)])
	}
	c.answer(ack)
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

// Trickle delivers an acknowledgement without its last byte.
func (c *client) Trickle() {
	whole := c.bytes(c.acknowledgement())
	_, _ = c.Write(whole[:len(whole)-1])
	c.Hang()
}

func (c *client) Cut() { c.Close() }
