package kafka_test

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/kafka"
)

// These tests have a stub of this package as the broker. None has run on a real Kafka.

// TestReplies tests that each record is brought as it is, and that the position is stored behind it: a second process
// is brought what is new alone.
func TestReplies(t *testing.T) {
	t.Parallel()
	shelf, first, second := newShelf(), &taken{}, &taken{}
	b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
	shelf.append(0, "a", "b")
	shelf.append(3, "c")
	stop := readFrom(t, repliesConfig(t, b.Address()), first)
	first.until(t, "all to be kept", func() bool { return shelf.position(0) == 2 && shelf.position(3) == 1 })
	shelf.append(0, "d")
	first.until(t, "the next", func() bool { return shelf.position(0) == 3 })
	stop()
	if got := first.bodies(); got != "a b c d" {
		t.Fatalf("brought %q", got)
	}
	want := callback.Kept{Header: http.Header{"Webhook-Id": {"evt_d"}}, Body: []byte("d"), Deliveries: 1,
		From: "offset 2 of partition 0 of topic replies"}
	if got := first.all[3]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	readFrom(t, repliesConfig(t, b.Address()), second)
	shelf.append(1, "e")
	second.until(t, "the new one alone", func() bool { return second.bodies() == "e" })
	for _, each := range []*taken{first, second} {
		if unread, missed := each.said(); unread+missed != "" {
			t.Errorf("unread %s\nmissed %s", unread, missed)
		}
	}
}

// TestRepliesWait tests that what is not taken holds up no other, and that the position stays before it: a process that
// starts again is brought it, and the one that runs after 5 seconds.
func TestRepliesWait(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]callback.Fate{
		"refused": callback.Refused, "not recorded": callback.Again, "perhaps forgotten": callback.Later,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fair atomic.Bool
			shelf, first, second := newShelf(), &taken{}, &taken{}
			first.fate = func(kept callback.Kept) callback.Fate {
				if string(kept.Body) == "bad" && !fair.Load() {
					return fate
				}
				return callback.Taken
			}
			b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
			shelf.append(0, "a", "bad", "c", "d")
			readFrom(t, repliesConfig(t, b.Address()), first)
			first.until(t, "all to be brought", func() bool { return first.bodies() == "a bad c d" && shelf.position(0) >= 1 })
			shelf.append(1, "e")
			first.until(t, "the next to be kept", func() bool { return shelf.position(1) == 1 })
			if at := shelf.position(0); at != 1 {
				t.Fatalf("the position is %d", at)
			}
			stop := readFrom(t, repliesConfig(t, b.Address()), second)
			second.until(t, "what was not taken, and what is behind it", func() bool { return second.bodies() == "bad c d" })
			stop()
			fair.Store(true)
			first.until(t, "it to come again", func() bool { return first.bodies() == "a bad bad c d e" })
			if got := first.all[len(first.all)-1]; got.Deliveries != 2 || got.Last {
				t.Errorf("brought again: %+v", got)
			}
		})
	}
}

// TestRepliesGaps tests that what was removed before it was read is said, and that what is behind it is read.
func TestRepliesGaps(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]struct {
		prepare func(*shelf)
		brought string
	}{
		"": {func(s *shelf) { s.append(0, "a", "b", "c"); s.at(0, 2); s.remove(0, 2) }, "c"},
		"partition 0: offsets 1 to 2 were removed before the group had read them": {
			func(s *shelf) { s.append(0, "a", "b", "c", "d"); s.at(0, 1); s.remove(0, 3) }, "d"},
		"partition 0: the group has no position, and the first record is at offset 1": {
			func(s *shelf) { s.append(0, "a", "b"); s.remove(0, 1) }, "b"},
		"partition 0: offsets 1 to 2 are not in the partition any more": {
			func(s *shelf) {
				s.append(0, "a", "b", "c", "d")
				s.logs[0].batches = append(s.logs[0].batches[:1], s.logs[0].batches[3])
			}, "a d"},
		"partition 0: offsets 0 to 0 are not in the partition any more": {
			func(s *shelf) {
				s.logs[0].add(func(int64) []byte { return batchOf(1, 0, -1, nil, "b") }, 2)
			}, "b"},
		"partition 0: it is not the one that was read up to offset 8: it was made anew, or has lost records": {
			func(s *shelf) { s.append(0, "a", "b"); s.at(0, 9) }, "a b"},
		"partition 0: the position of the group, 2, was stored by another client or by hand": {
			func(s *shelf) { s.append(0, "a", "b", "c"); s.at(0, 2) }, "c"},
		"partition 0: the position of the group is of cluster elsewhere, and this is cluster-1": {
			func(s *shelf) {
				s.append(0, "a", "b")
				s.at(0, 2)
				at := s.group[0]
				at.Metadata = new("railhead/1 elsewhere 1 0123")
				s.group[0] = at
			}, "a b"},
		"partition 0: what is at offsets 1 to 1 is compressed": {
			func(s *shelf) {
				s.append(0, "a")
				s.logs[0].add(func(first int64) []byte { return batchOf(first, 2, -1, nil, "packed") }, 1)
				s.append(0, "c")
			}, "a c"},
		"partition 0: what is at offsets 1 to 1 is in a form from before Kafka 0.11": {
			func(s *shelf) {
				s.append(0, "a")
				s.logs[0].add(func(first int64) []byte {
					old := batchOf(first, 0, -1, nil, "old")
					old[16] = 1
					return old
				}, 1)
				s.append(0, "c")
			}, "a c"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			shelf, into := newShelf(), &taken{}
			c.prepare(shelf)
			end := shelf.logs[0].end
			b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
			readFrom(t, repliesConfig(t, b.Address()), into)
			into.until(t, "what is left", func() bool { return into.bodies() == c.brought && shelf.position(0) == end })
			if _, missed := into.said(); !strings.Contains(missed, says) || (says == "") != (missed == "") ||
				strings.Count(missed, "\n") > 0 {
				t.Errorf("missed %q, want %q", missed, says)
			}
		})
	}
}

// at gives the group a position that an operator has set.
func (s *shelf) at(partition int32, offset int64) {
	s.set(func() {
		s.group[partition] = kmsg.OffsetFetchResponseTopicPartition{Partition: partition, Offset: offset, Metadata: new("")}
	})
}

// TestRepliesOfAnotherLog tests a topic that was made anew with as many records as before, or more: all of them are
// read, though their offsets are before the position.
func TestRepliesOfAnotherLog(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{{"x", "y"}, {"x", "y", "z"}} {
		shelf, first, second := newShelf(), &taken{}, &taken{}
		b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
		shelf.append(0, "a", "b")
		stop := readFrom(t, repliesConfig(t, b.Address()), first)
		first.until(t, "all to be kept", func() bool { return shelf.position(0) == 2 })
		stop()
		shelf.set(func() { shelf.logs[0] = &partitionLog{} })
		shelf.append(0, values...)
		readFrom(t, repliesConfig(t, b.Address()), second)
		second.until(t, "all of the new one", func() bool { return second.bodies() == strings.Join(values, " ") })
		if _, missed := second.said(); !strings.Contains(missed, "it is not the one that was read up to offset 1") {
			t.Errorf("missed %q", missed)
		}
	}
}

// TestRepliesOfTransactions tests that records of aborted transactions are none, whatever else their producer wrote.
func TestRepliesOfTransactions(t *testing.T) {
	t.Parallel()
	shelf, into := newShelf(), &taken{}
	log := shelf.logs[0]
	begin := func(value string) {
		log.add(func(first int64) []byte { return batchOf(first, 0x10, 7, nil, value) }, 1)
	}
	end := func(kind byte) {
		log.add(func(first int64) []byte { return batchOf(first, 0x30, 7, []byte{0, 0, 0, kind}, "marker") }, 1)
	}
	aborts := func() {
		log.aborted = append(log.aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: 7,
			FirstOffset: log.end})
	}
	begin("committed-1")
	end(1)
	aborts()
	begin("aborted-1")
	end(0)
	begin("committed-2")
	end(1)
	aborts()
	begin("aborted-2")
	end(0)
	begin("committed-3")
	end(1)
	b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
	readFrom(t, repliesConfig(t, b.Address()), into)
	into.until(t, "all", func() bool { return shelf.position(0) == log.end })
	if got := into.bodies(); got != "committed-1 committed-2 committed-3" {
		t.Errorf("brought %q", got)
	}
	if unread, missed := into.said(); unread+missed != "" {
		t.Errorf("unread %q, missed %q", unread, missed)
	}
}

// TestRepliesFaults tests that a partition with a fault is not passed, and holds up no other.
func TestRepliesFaults(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(*partitionLog){
		"partition 0: the batch at offset 1 has another checksum": func(l *partitionLog) { l.batches[1].bytes[70] ^= 1 },
		"partition 0: the batch at offset 1 has":                  func(l *partitionLog) { l.batches[1].bytes[8] = 0x7f },
		"partition 0: the broker answered KAFKA_STORAGE_ERROR":    func(l *partitionLog) { l.fault = 56 },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			shelf, into := newShelf(), &taken{}
			shelf.append(0, "a", "b", "c")
			shelf.append(1, "d")
			var whole []byte
			shelf.set(func() {
				whole = append(whole, shelf.logs[0].batches[1].bytes...)
				spoil(shelf.logs[0])
			})
			b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
			readFrom(t, repliesConfig(t, b.Address()), into)
			into.until(t, "the fault, and the other partition", func() bool {
				unread, _ := into.said()
				return strings.Contains(unread, says) && shelf.position(1) == 1
			})
			if at := shelf.position(0); at > 1 {
				t.Fatalf("the position is %d", at)
			}
			shelf.set(func() { shelf.logs[0].fault, shelf.logs[0].batches[1].bytes = 0, whole })
			into.until(t, "all", func() bool { return shelf.position(0) == 3 && into.bodies() == "a b c d" })
		})
	}
}

// TestRepliesOfAnotherCluster tests that no broker is read that is not of the cluster that was reached first, or does
// not say which it is of.
func TestRepliesOfAnotherCluster(t *testing.T) {
	t.Parallel()
	for _, clusters := range [][]string{{""}, {"cluster-1", "other"}, {"cluster-1", "cluster-1", "cluster-1", "other"}} {
		shelf, into := newShelf(), &taken{}
		shelf.clusters = clusters
		shelf.append(0, "a")
		b := witness{shelf: shelf}.broker(t, never(t, "a record was sent"))
		readFrom(t, repliesConfig(t, b.Address()), into)
		into.until(t, "the fault", func() bool {
			unread, _ := into.said()
			return strings.Contains(unread, "it is of cluster")
		})
		if got := into.bodies(); got != "" || shelf.position(0) >= 0 {
			t.Errorf("brought %q, position %d", got, shelf.position(0))
		}
	}
}

// TestRepliesOfUnfitTopics tests that a topic which loses records or holds them up is not read, until it is set right.
func TestRepliesOfUnfitTopics(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"cleanup.policy": "compact,delete", "compression.type": "producer", "flush.messages": "100",
		"max.message.bytes": "2097153", "message.timestamp.type": "CreateTime", "min.insync.replicas": "1",
		"retention.bytes": "1000000", "retention.ms": "604799999", "unclean.leader.election.enable": "true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shelf, into := newShelf(), &taken{}
			shelf.append(0, "a")
			settings := map[string]string{name: value}
			b := witness{shelf: shelf, settings: settings}.broker(t, never(t, "a record was sent"))
			readFrom(t, repliesConfig(t, b.Address()), into)
			into.until(t, "the fault", func() bool {
				unread, _ := into.said()
				return strings.Contains(unread, name+` is "`+value)
			})
			if got := into.bodies(); got != "" || shelf.position(0) >= 0 {
				t.Errorf("brought %q, position %d", got, shelf.position(0))
			}
		})
	}
	for says, facts := range map[string]witness{
		"2 replicas": {replicas: 2}, "by a default": {inherited: "unclean.leader.election.enable"},
		"it does not take Fetch in version 11": {versions: map[kmsg.Key][2]int16{kmsg.Fetch: {0, 10}}},
	} {
		facts.shelf = newShelf()
		facts.shelf.append(0, "a")
		into := &taken{}
		readFrom(t, repliesConfig(t, facts.broker(t, never(t, "a record was sent")).Address()), into)
		into.until(t, says, func() bool {
			unread, _ := into.said()
			return strings.Contains(unread, says)
		})
		if got := into.bodies(); got != "" {
			t.Errorf("%s: brought %q", says, got)
		}
	}
}

// TestRepliesConfig tests what may be given.
func TestRepliesConfig(t *testing.T) {
	t.Parallel()
	for field, replies := range map[string]kafka.RepliesConfig{
		`replies.topic is ""`:                                   {Group: "g"},
		`replies.topic is "__x"`:                                {Topic: "__x", Group: "g"},
		`replies.topic is "payments", the topic of the payment`: {Topic: "payments", Group: "g"},
		`replies.group is "a b"`:                                {Topic: "replies", Group: "a b"},
	} {
		c := config(t, "kafka://127.0.0.1:9092")
		c.Replies = &replies
		if _, err := kafka.OpenReplies(c, getenv); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := kafka.OpenReplies(config(t, "kafka://127.0.0.1:9092"), getenv); err == nil {
		t.Error("no replies are opened")
	}
}
