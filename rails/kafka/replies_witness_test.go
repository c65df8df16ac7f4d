package kafka_test

import (
	"context"
	"hash/crc32"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/kafka"
)

// shelf is a topic of replies with the positions of a group, by which a witness answers. It is no real broker.
type shelf struct {
	mu       sync.Mutex
	clusters []string // of the first answers about the topic; the last stays
	logs     map[int32]*partitionLog
	group    map[int32]kmsg.OffsetFetchResponseTopicPartition
}

// partitionLog is a partition.
type partitionLog struct {
	start, end int64
	batches    []shelved
	aborted    []kmsg.FetchResponseTopicPartitionAbortedTransaction
	fault      int16 // of each fetch
}

type shelved struct {
	last  int64
	bytes []byte
}

func newShelf() *shelf {
	s := &shelf{clusters: []string{"cluster-1"}, logs: map[int32]*partitionLog{},
		group: map[int32]kmsg.OffsetFetchResponseTopicPartition{}}
	for n := range int32(4) {
		s.logs[n] = &partitionLog{}
	}
	return s
}

func (s *shelf) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// batchOf makes a batch of records with these values from an offset on.
func batchOf(first int64, attributes int16, producer int64, key []byte, values ...string) []byte {
	set := kmsg.NewRecordBatch()
	set.FirstOffset, set.Magic, set.Attributes, set.ProducerID = first, 2, attributes, producer
	set.LastOffsetDelta, set.NumRecords = int32(len(values)-1), int32(len(values))
	for n, value := range values {
		record := kmsg.NewRecord()
		record.OffsetDelta, record.Key, record.Value = int32(n), key, []byte(value)
		record.Headers = []kmsg.Header{{Key: "webhook-id", Value: []byte("evt_" + value)}}
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		set.Records = record.AppendTo(set.Records)
	}
	set.Length = int32(len(set.AppendTo(nil)) - 12)
	set.CRC = int32(crc32.Checksum(set.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return set.AppendTo(nil)
}

// append adds records to a partition, each batch with one.
func (s *shelf) append(partition int32, values ...string) {
	s.set(func() {
		for _, value := range values {
			s.logs[partition].add(func(first int64) []byte { return batchOf(first, 0, -1, nil, value) }, 1)
		}
	})
}

// add adds a batch with a number of records.
func (l *partitionLog) add(batch func(first int64) []byte, records int64) {
	l.batches = append(l.batches, shelved{l.end + records - 1, batch(l.end)})
	l.end += records
}

// remove removes what is before an offset.
func (s *shelf) remove(partition int32, before int64) {
	s.set(func() {
		l := s.logs[partition]
		l.start = before
		l.batches = slices.DeleteFunc(l.batches, func(b shelved) bool { return b.last < before })
	})
}

// position returns that of the group; -1: it has none.
func (s *shelf) position(partition int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.group[partition]; known {
		return at.Offset
	}
	return -1
}

func (s *shelf) cluster(*broker) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.clusters[0]
	if len(s.clusters) > 1 {
		s.clusters = s.clusters[1:]
	}
	return first
}

func (s *shelf) answer(b *broker, request kmsg.Request) kmsg.Response {
	switch request := request.(type) {
	case *kmsg.FindCoordinatorRequest:
		answer := request.ResponseKind().(*kmsg.FindCoordinatorResponse)
		host, port, _ := net.SplitHostPort(b.listener.Addr().String())
		number, _ := strconv.Atoi(port)
		answer.Host, answer.Port = host, int32(number)
		return answer
	case *kmsg.OffsetFetchRequest:
		return s.tell(request)
	case *kmsg.OffsetCommitRequest:
		return s.store(request)
	case *kmsg.ListOffsetsRequest:
		return s.list(request)
	default:
		return s.fetch(request.(*kmsg.FetchRequest))
	}
}

func (s *shelf) tell(request *kmsg.OffsetFetchRequest) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := request.ResponseKind().(*kmsg.OffsetFetchResponse)
	topic := kmsg.OffsetFetchResponseTopic{Topic: request.Topics[0].Topic}
	for _, partition := range request.Topics[0].Partitions {
		at, known := s.group[partition]
		if !known {
			at = kmsg.OffsetFetchResponseTopicPartition{Partition: partition, Offset: -1, Metadata: new("")}
		}
		topic.Partitions = append(topic.Partitions, at)
	}
	answer.Topics = append(answer.Topics, topic)
	return answer
}

func (s *shelf) store(request *kmsg.OffsetCommitRequest) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := request.ResponseKind().(*kmsg.OffsetCommitResponse)
	topic := kmsg.OffsetCommitResponseTopic{Topic: request.Topics[0].Topic}
	for _, at := range request.Topics[0].Partitions {
		s.group[at.Partition] = kmsg.OffsetFetchResponseTopicPartition{Partition: at.Partition, Offset: at.Offset,
			Metadata: at.Metadata}
		topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: at.Partition})
	}
	answer.Topics = append(answer.Topics, topic)
	return answer
}

func (s *shelf) list(request *kmsg.ListOffsetsRequest) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := request.ResponseKind().(*kmsg.ListOffsetsResponse)
	asked := request.Topics[0].Partitions[0]
	found := kmsg.NewListOffsetsResponseTopicPartition()
	found.Partition, found.Offset = asked.Partition, s.logs[asked.Partition].start
	if asked.Timestamp == -1 {
		found.Offset = s.logs[asked.Partition].end
	}
	answer.Topics = append(answer.Topics, kmsg.ListOffsetsResponseTopic{Topic: request.Topics[0].Topic,
		Partitions: []kmsg.ListOffsetsResponseTopicPartition{found}})
	return answer
}

func (s *shelf) fetch(request *kmsg.FetchRequest) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := request.ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.FetchResponseTopic{Topic: request.Topics[0].Topic}
	empty := true
	for _, asked := range request.Topics[0].Partitions {
		log, found := s.logs[asked.Partition], kmsg.NewFetchResponseTopicPartition()
		found.Partition, found.ErrorCode = asked.Partition, log.fault
		if request.IsolationLevel == 1 {
			found.AbortedTransactions = log.aborted
		}
		if log.fault == 0 && (asked.FetchOffset < log.start || asked.FetchOffset > log.end) {
			found.ErrorCode = 1
		}
		for _, batch := range log.batches {
			if found.ErrorCode == 0 && batch.last >= asked.FetchOffset {
				found.RecordBatches, empty = append(found.RecordBatches, batch.bytes...), false
			}
		}
		topic.Partitions = append(topic.Partitions, found)
	}
	if empty && request.MaxWaitMillis > 0 { // as a broker waits for records, but not for so long
		s.mu.Unlock()
		<-time.After(10 * time.Millisecond)
		s.mu.Lock()
	}
	answer.Topics = append(answer.Topics, topic)
	return answer
}

// taken is what was brought to a callback endpoint.
type taken struct {
	mu             sync.Mutex
	fate           func(callback.Kept) callback.Fate // nil: all are taken
	all            []callback.Kept
	unread, missed []string
}

func (k *taken) Take(_ context.Context, kept callback.Kept) callback.Fate {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, kept)
	if k.fate != nil {
		return k.fate(kept)
	}
	return callback.Taken
}

func (k *taken) Unread(_ context.Context, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unread = append(k.unread, why.Error())
}

func (k *taken) Missed(_ context.Context, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missed = append(k.missed, why.Error())
}

// bodies returns what was brought, in the order of the values.
func (k *taken) bodies() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, kept := range k.all {
		all = append(all, string(kept.Body))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// said returns what was heard.
func (k *taken) said() (unread, missed string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.unread, "\n"), strings.Join(k.missed, "\n")
}

func repliesConfig(t testing.TB, address string) kafka.Config {
	c := config(t, address)
	c.Replies = &kafka.RepliesConfig{Topic: "replies", Group: "railhead"}
	return c
}

// readFrom starts a process that reads, and returns a function that ends it.
func readFrom(t *testing.T, config kafka.Config, into *taken) (stop func()) {
	t.Helper()
	source, err := kafka.OpenReplies(config, getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		source.Run(ctx, into)
	}()
	stop = func() { cancel(); <-over }
	t.Cleanup(stop)
	return stop
}

// until waits for what a test needs.
func (k *taken) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := await.Until(t.Context(), 30*time.Second, what, func() (bool, error) { return done(), nil })
	if err != nil {
		unread, missed := k.said()
		t.Fatalf("%v: brought %q\nunread %s\nmissed %s", err, k.bodies(), unread, missed)
	}
}
