package brokers_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/rails/railtest"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// kafkaWitness is franz-go's kfake, a fake, with a recorder in front. The fake answers what comes before a record,
// and takes each record that the test has accepted.
type kafkaWitness struct{}

func (kafkaWitness) Protocol() string       { return "Kafka (kafka=fake: franz-go's kfake)" }
func (kafkaWitness) Cases() []railtest.Case { return nil }

func (kafkaWitness) Nowhere(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "kafka://" + listener.Addr().String()
}

func (kafkaWitness) Open(t testing.TB, behave func(railtest.Request)) railtest.Bank {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{listener: listener, behave: behave, conns: map[net.Conn]bool{}, ended: make(chan struct{})}
	r.to = brokers.StartKafkaAt(t, listener.Addr())
	r.work.Go(r.accept)
	t.Cleanup(r.Close)
	return r
}

// recorder passes requests on, but for those with a record.
type recorder struct {
	listener net.Listener
	to       string // of the fake
	behave   func(railtest.Request)
	ended    chan struct{}
	work     sync.WaitGroup

	mu       sync.Mutex
	requests []string
	arrived  int64
	heard    bytes.Buffer
	conns    map[net.Conn]bool
}

func (r *recorder) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		fake, err := net.Dial("tcp", r.to)
		if err != nil {
			conn.Close()
			continue
		}
		r.mu.Lock()
		r.conns[conn], r.conns[fake] = true, true
		r.mu.Unlock()
		r.work.Go(func() {
			defer conn.Close()
			defer fake.Close()
			for r.next(conn, fake) == nil {
			}
		})
	}
}

// next reads a request, SIZE KEY VERSION NUMBER CLIENT BODY, and has it answered.
func (r *recorder) next(conn, fake net.Conn) error {
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head)-8)
	n, err := io.ReadFull(conn, rest)
	record := binary.BigEndian.Uint16(head[4:]) == uint16(kmsg.Produce)
	r.mu.Lock()
	r.heard.Write(rest[:n])
	if record {
		r.arrived += int64(len(head) + n)
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	request := &produced{Conn: conn, fake: fake, recorder: r, head: head, rest: rest}
	if !record {
		return request.pass()
	}
	r.mu.Lock()
	r.requests = append(r.requests, string(rest))
	r.mu.Unlock()
	r.behave(request)
	return nil
}

func (r *recorder) Address() string { return "kafka://" + r.listener.Addr().String() }
func (r *recorder) Asked() int      { return len(r.Sends()) }

func (r *recorder) Times(railKey string) int {
	return strings.Count(strings.Join(r.Sends(), "\n"), railKey)
}

func (r *recorder) Sends() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.requests...)
}

func (r *recorder) Arrived() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived
}

func (r *recorder) Heard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard.String()
}

func (r *recorder) Close() {
	r.mu.Lock()
	select {
	case <-r.ended:
	default:
		close(r.ended)
		r.listener.Close()
		for conn := range r.conns {
			conn.Close()
		}
	}
	r.mu.Unlock()
	r.work.Wait()
}

// produced is a connection, after a request with a record was read.
type produced struct {
	net.Conn
	fake       net.Conn
	recorder   *recorder
	head, rest []byte
}

var railKeys = regexp.MustCompile(`rh[0-9a-f]{32}`)

func (p *produced) RailKey() string { return railKeys.FindString(string(p.rest)) }

// answer has the fake answer.
func (p *produced) answer() ([]byte, error) {
	if _, err := p.fake.Write(append(p.head, p.rest...)); err != nil {
		return nil, err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(p.fake, size); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(p.fake, body)
	return append(size, body...), err
}

func (p *produced) pass() error {
	answer, err := p.answer()
	if err != nil {
		return err
	}
	_, err = p.Write(answer)
	return err
}

// Say has the fake take the record, or answers in its place: with an error code, or as another topic.
func (p *produced) Say(answer railtest.Answer) {
	if answer.Status == 0 && answer.Body == "" {
		_ = p.pass() // either side may have gone
		return
	}
	name := int(binary.BigEndian.Uint16(p.rest))
	request := kmsg.NewPtrProduceRequest()
	request.Version = int16(binary.BigEndian.Uint16(p.head[6:]))
	if err := request.ReadFrom(p.rest[2+name:]); err != nil {
		p.Close()
		return
	}
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	about, partition := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
	about.Topic, partition.Partition = request.Topics[0].Topic, request.Topics[0].Partitions[0].Partition
	if other, ok := strings.CutPrefix(answer.Body, "topic "); ok {
		about.Topic = other
	} else {
		partition.ErrorCode, partition.BaseOffset = int16(answer.Status), -1
		partition.ErrorMessage = new(answer.Body[:min(len(answer.Body), 30000)])
	}
	about.Partitions = append(about.Partitions, partition)
	response.Topics = append(response.Topics, about)
	body := response.AppendTo(nil)
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	_, _ = p.Write(append(append(out, p.head[8:12]...), body...)) // the other side may have gone
}

func (p *produced) Hang() {
	gone := make(chan struct{})
	p.recorder.work.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, p.Conn)
	})
	select {
	case <-gone:
	case <-p.recorder.ended:
		p.Close()
		<-gone
	}
}

// Trickle delivers the fake's acknowledgement without its last byte.
func (p *produced) Trickle() {
	if whole, err := p.answer(); err == nil {
		_, _ = p.Write(whole[:len(whole)-1])
	}
	p.Hang()
}

func (p *produced) Cut() { p.Close() }
