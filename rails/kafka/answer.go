package kafka

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

const codeTable = "kafka"

// refusals are the errors by which a leader refuses a batch before it appends it, and which no
// broker reports after that. Every other error is UNKNOWN: a leader that lost its place, a timeout,
// and too few replicas after the append are answers to records that the topic may have.
var refusals = map[int16]payment.Result{
	// The leader counts the replicas in sync before it appends. After that it reports
	// NOT_ENOUGH_REPLICAS_AFTER_APPEND. It may take hours until a replica is back: no send is counted.
	errorNotEnoughReplicas: payment.ResultRefusedLater,
	// The topic's settings, or its permissions, have changed since they were looked at. INVALID_RECORD
	// is one of them: a validation that was switched on refuses every record, not one payment.
	errorInvalidRecord:      payment.ResultRefusedRail,
	errorMessageTooLarge:    payment.ResultRefusedRail,
	errorRecordListTooLarge: payment.ResultRefusedRail,
	errorInvalidTopic:       payment.ResultRefusedRail,
	errorTopicNotAllowed:    payment.ResultRefusedRail,
}

// judge returns what the answer to a record proves. Newest is the highest offset that the partition had
// acknowledged before the record was written.
func (r *Rail) judge(partition int32, newest int64, body []byte) rails.Result {
	unknown := func(format string, args ...any) rails.Result {
		return rails.Result{Result: payment.ResultUnknown, FirstByte: true, Message: fmt.Sprintf(format, args...)}
	}
	got := kmsg.NewPtrProduceResponse()
	got.Version = produceVersion
	// What is longer than what was understood is not understood.
	if err := got.ReadFrom(body); err != nil || len(got.AppendTo(nil)) != len(body) {
		return unknown("the acknowledgement can't be read")
	}
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		return unknown("the acknowledgement is not of one partition")
	}
	about := got.Topics[0].Partitions[0]
	if got.Topics[0].Topic != r.config.Topic || about.Partition != partition {
		return unknown("partition %d of topic %q acknowledged it, and not %d of %s", about.Partition, got.Topics[0].Topic,
			partition, r.config.Topic)
	}
	if about.ErrorCode == 0 {
		if about.BaseOffset < 0 {
			return unknown("the acknowledgement has no offset")
		}
		return rails.Result{Result: payment.ResultAccepted, FirstByte: true,
			Loss:      r.seen.saw(r.config.Topic, partition, newest, about.BaseOffset),
			Reference: fmt.Sprintf("%s/%d/%d", r.config.Topic, partition, about.BaseOffset)}
	}
	name, known := nameOf(about.ErrorCode)
	result := unknown("the broker answered %s (%d)", name, about.ErrorCode)
	result.Code, result.CodeTable, result.Unmapped = strconv.Itoa(int(about.ErrorCode)), codeTable, !known
	if about.ErrorMessage != nil {
		result.Message += ": " + *about.ErrorMessage
	}
	if refusal, proven := refusals[about.ErrorCode]; proven {
		result.Result, result.RailRefused = refusal, refusal == payment.ResultRefusedRail
	}
	return result
}

// newest returns the highest offset that a partition has acknowledged to this process; -1: none.
func (m *memory) newest(partition int32) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset, known := m.acknowledged[partition]; known {
		return offset
	}
	return -1
}

// saw remembers an acknowledged offset. Only a partition that has lost records gives an offset that is
// not above newest, which it had acknowledged before the record was written. The record itself is stored. It returns
// what the topic was found to have lost; empty: nothing, or it was found before.
func (m *memory) saw(topic string, partition int32, newest, offset int64) (loss string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset <= newest && m.wentBack == "" {
		m.wentBack = fmt.Sprintf("partition %d of topic %s went back from %d to %d: it has lost payments; resolve those by "+
			"hand, and start this process again", partition, topic, newest, offset)
		loss = m.wentBack
	}
	if known, ok := m.acknowledged[partition]; !ok || known < offset {
		m.acknowledged[partition] = offset
	}
	return loss
}

// loss says which records the topic has lost, as far as this process has seen; empty: none.
func (m *memory) loss() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wentBack
}
