package kafka

import (
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/rails"
)

// schemaVersion is the version of the form of a record: which headers it has, and what its value is.
const schemaVersion = "1"

// The headers of a record. Names of the caller's that begin with railhead- are refused by the
// profile.
const (
	headerKey         = "railhead-rail-key"
	headerInstruction = "railhead-instruction-id"
	headerParticipant = "railhead-participant-id"
	headerSchema      = "railhead-schema-version"
	headerContent     = "content-type"
)

// render returns the request for one record. The record has no time: the topic adds its own, so that
// each send of an instruction is the same.
func (r *Rail) render(s rails.Send) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks = produceVersion, -1
	request.TimeoutMillis = int32(time.Duration(r.timeouts.ResponseHeader).Milliseconds())
	about, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	partition.Partition, partition.Records = r.partition(s.ParticipantID), batch(s)
	about.Topic, about.Partitions = r.config.Topic, append(about.Partitions, partition)
	request.Topics = append(request.Topics, about)
	return request
}

// batch returns a batch with one record, without a producer's id: a topic de-duplicates by that for
// as long as one process lives, which would hide that a record is there twice only sometimes.
func batch(s rails.Send) []byte {
	headers := maps.Clone(s.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	delete(headers, "traceparent")
	delete(headers, "tracestate")
	if s.TraceParent != "" {
		headers["traceparent"] = s.TraceParent
		if s.TraceState != "" {
			headers["tracestate"] = s.TraceState
		}
	}
	headers[headerKey], headers[headerInstruction] = s.RailKey, s.InstructionID
	headers[headerParticipant] = s.ParticipantID
	headers[headerSchema], headers[headerContent] = schemaVersion, "application/json"

	record := kmsg.NewRecord()
	record.Key, record.Value = []byte(s.ParticipantID), s.Payload
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		header := kmsg.NewHeader()
		header.Key, header.Value = name, []byte(headers[name])
		record.Headers = append(record.Headers, header)
	}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // the length 0 has one byte

	set := kmsg.NewRecordBatch()
	set.PartitionLeaderEpoch, set.Magic = -1, 2
	set.FirstTimestamp, set.MaxTimestamp = -1, -1
	set.ProducerID, set.ProducerEpoch, set.FirstSequence = -1, -1, -1
	set.NumRecords, set.Records = 1, record.AppendTo(nil)
	set.Length = int32(len(set.AppendTo(nil)) - untilLength)
	set.CRC = int32(crc32.Checksum(set.AppendTo(nil)[untilCRC:], castagnoli))
	return set.AppendTo(nil)
}

// The parts of a batch, in bytes: what comes before what its length counts, and its checksum covers.
const (
	untilLength = 8 + 4
	untilCRC    = untilLength + 4 + 1 + 4
)

// partition returns the partition of a participant: that which Kafka's own producers choose for the
// same key.
func (r *Rail) partition(participantID string) int32 {
	return int32((murmur2([]byte(participantID)) & 0x7fffffff) % uint32(r.config.Partitions))
}

// murmur2 is the hash of Kafka's producers, with their seed.
func murmur2(key []byte) uint32 {
	const seed, m, shift = uint32(0x9747b28c), uint32(0x5bd1e995), 24
	h := seed ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> shift
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
