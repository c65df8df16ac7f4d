package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errOutOfRange means that a partition has no record at an offset: it was removed, or was never written.
var errOutOfRange = errors.New("the partition has no such offset")

// readCommitted hides the records of transactions that are open, and names those that were aborted.
const readCommitted = 1

// fetched is what a partition answered.
type fetched struct {
	err     error
	batches []byte
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
}

// fetch asks a leader for the records of partitions from offsets on, and waits for the first for a while. The records
// of all have together at most some 1 MiB, or one batch.
func (r *Replies) fetch(
	ctx context.Context, c *conn, about topic, partitions []int32, from func(int32) int64, wait time.Duration,
) (map[int32]fetched, error) {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.ReplicaID, request.MaxWaitMillis, request.MinBytes = fetchVersion, -1,
		int32(wait.Milliseconds()), 1
	request.MaxBytes, request.IsolationLevel, request.SessionEpoch = fetchAtOnce, readCommitted, -1
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic = r.wanted.topic
	for _, partition := range partitions {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes = partition, from(partition), fetchAtOnce
		one.CurrentLeaderEpoch, one.LogStartOffset = about.leaders[partition].epoch, -1
		asked.Partitions = append(asked.Partitions, one)
	}
	request.Topics = append(request.Topics, asked)
	call, cancel := context.WithTimeout(ctx, wait+replyCall)
	defer cancel()
	var got kmsg.FetchResponse
	if err := c.ask(call, request, &got); err != nil {
		return nil, err
	}
	if got.ErrorCode != 0 {
		return nil, answered(got.ErrorCode)
	}
	found := map[int32]fetched{}
	for _, topic := range got.Topics {
		for _, each := range topic.Partitions {
			if topic.Topic != r.wanted.topic {
				continue
			}
			one := fetched{batches: each.RecordBatches, aborted: each.AbortedTransactions}
			switch each.ErrorCode {
			case 0:
			case errorOutOfRange:
				one.err = errOutOfRange
			default:
				one.err = answered(each.ErrorCode)
			}
			found[each.Partition] = one
		}
	}
	for _, partition := range partitions {
		if _, told := found[partition]; !told {
			return nil, fmt.Errorf("the broker says nothing about partition %d", partition)
		}
	}
	return found, nil
}

// first asks a leader for the first offset of a partition.
func (r *Replies) first(ctx context.Context, c *conn, about topic, partition int32) (int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.Version, request.ReplicaID, request.IsolationLevel = listVersion, -1, readCommitted
	one := kmsg.NewListOffsetsRequestTopicPartition()
	one.Partition, one.Timestamp, one.CurrentLeaderEpoch = partition, -2, about.leaders[partition].epoch
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic, asked.Partitions = r.wanted.topic, append(asked.Partitions, one)
	request.Topics = append(request.Topics, asked)
	call, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	var got kmsg.ListOffsetsResponse
	if err := c.ask(call, request, &got); err != nil {
		return 0, err
	}
	if len(got.Topics) != 1 || got.Topics[0].Topic != r.wanted.topic || len(got.Topics[0].Partitions) != 1 ||
		got.Topics[0].Partitions[0].Partition != partition {
		return 0, errors.New("the answer about the first offset is about another partition")
	}
	found := got.Topics[0].Partitions[0]
	switch {
	case found.ErrorCode != 0:
		return 0, answered(found.ErrorCode)
	case found.Offset < 0:
		return 0, errors.New("the partition has no first offset")
	}
	return found.Offset, nil
}

// reply is one record.
type reply struct {
	mark
	header http.Header
	body   []byte
}

// replies are the records of a partition from an offset on.
type replies struct {
	all    []reply
	next   int64 // the offset after what was read
	missed []missed
}

// missed is what can't be read, or is not there, and where that begins.
type missed struct {
	offset int64
	why    string
}

// Bits of the attributes of a batch.
const (
	bitsCompression = 0x07
	bitTransaction  = 0x10
	bitControl      = 0x20
)

// read returns the records of what a partition answered. Those of aborted transactions are none. An error means that
// what arrived is not what was written; then it is asked for again.
func read(got fetched, from int64) (replies, error) {
	found, rest := replies{next: from}, got.batches
	aborted := map[int64][]int64{} // the first offsets of transactions that were aborted, by producer
	for _, each := range got.aborted {
		aborted[each.ProducerID] = append(aborted[each.ProducerID], each.FirstOffset)
	}
	for _, each := range aborted {
		slices.Sort(each)
	}
	for len(rest) > untilLength {
		offset, size := int64(binary.BigEndian.Uint64(rest)), int(binary.BigEndian.Uint32(rest[8:]))+untilLength
		switch {
		case size <= untilCRC || size > maxAnswer:
			return found, fmt.Errorf("the batch at offset %d has %d bytes", offset, size)
		case size > len(rest):
			return found, nil // cut off; the next answer has it
		}
		batch := rest[:size]
		rest = rest[size:]
		if batch[untilLength+4] != 2 {
			found.skip(offset, offset, "is in a form from before Kafka 0.11")
			continue
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(batch); err != nil {
			return found, fmt.Errorf("the batch at offset %d can't be read", offset)
		}
		if sum := crc32.Checksum(batch[untilCRC:], castagnoli); int32(sum) != b.CRC {
			return found, fmt.Errorf("the batch at offset %d has another checksum than it was written with", offset)
		}
		last := b.FirstOffset + int64(b.LastOffsetDelta)
		ends := len(aborted[b.ProducerID]) > 0 && aborted[b.ProducerID][0] <= b.FirstOffset
		switch {
		case last < found.next: // before what was asked for
		case b.Attributes&bitControl != 0:
			if ends && isAbort(b) {
				aborted[b.ProducerID] = aborted[b.ProducerID][1:]
			}
			found.skip(b.FirstOffset, last, "")
		case b.Attributes&bitTransaction != 0 && ends:
			found.skip(b.FirstOffset, last, "")
		case b.Attributes&bitsCompression != 0:
			found.skip(b.FirstOffset, last, "is compressed, and was stored before compression.type of the topic was "+
				"uncompressed")
		default:
			found.add(b, last)
		}
	}
	return found, nil
}

// isAbort reports whether a control batch ends a transaction by an abort: its key is VERSION TYPE, and type 0 is that.
func isAbort(b kmsg.RecordBatch) bool {
	var record kmsg.Record
	return record.ReadFrom(b.Records) == nil && len(record.Key) >= 4 && binary.BigEndian.Uint16(record.Key[2:]) == 0
}

// skip passes the offsets from one to another, and what is before them, which is missing. Why says what is wrong with
// them; empty: nothing.
func (r *replies) skip(first, last int64, why string) {
	r.gap(first)
	if last < r.next {
		return
	}
	if why != "" {
		why = fmt.Sprintf("what is at %s %s: it can't be read", span(r.next, last), why)
		r.missed = append(r.missed, missed{r.next, why})
	}
	r.next = last + 1
}

// gap notes that what is before an offset is missing.
func (r *replies) gap(offset int64) {
	if offset > r.next {
		r.missed = append(r.missed, missed{r.next, span(r.next, offset-1) + " are not in the partition any more"})
		r.next = offset
	}
}

func span(first, last int64) string { return fmt.Sprintf("offsets %d to %d", first, last) }

// add adds the records of a batch.
func (r *replies) add(b kmsg.RecordBatch, last int64) {
	for rest := b.Records; len(rest) > 0; {
		length, width := binary.Varint(rest)
		if width <= 0 || length < 0 || length > int64(len(rest)-width) {
			break
		}
		raw := rest[:width+int(length)]
		rest = rest[len(raw):]
		var record kmsg.Record
		if record.ReadFrom(raw) != nil {
			break
		}
		offset := b.FirstOffset + int64(record.OffsetDelta)
		if offset < r.next || offset > last {
			continue
		}
		r.gap(offset)
		sum := sha256.New()
		fmt.Fprintf(sum, "%d %d %d\n", offset, b.FirstTimestamp, b.MaxTimestamp)
		sum.Write(raw)
		one := reply{
			mark:   mark{offset: offset, digest: hex.EncodeToString(sum.Sum(nil)[:16])},
			header: make(http.Header, len(record.Headers)), body: record.Value,
		}
		for _, header := range record.Headers {
			one.header.Add(header.Key, strings.TrimSpace(string(header.Value)))
		}
		r.all, r.next = append(r.all, one), offset+1
	}
	r.skip(r.next, last, "is missing, or in no form that is known")
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
