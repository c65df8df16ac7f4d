package brokers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// kafkaReplies is a fake with a topic of replies, and what the callback endpoint that reads there has made of them.
type kafkaReplies struct {
	t      *testing.T
	fake   *brokers.Kafka
	ledger *late
	log    *heardLog
}

func newKafkaReplies(t *testing.T) *kafkaReplies {
	t.Helper()
	return &kafkaReplies{t: t, fake: brokers.StartKafka(t, 2), ledger: newLate(), log: &heardLog{}}
}

// read starts a callback endpoint.
func (r *kafkaReplies) read() (end func()) {
	r.t.Helper()
	config := topic(r.fake.URLs()...)
	config.Replies = &kafka.RepliesConfig{Topic: brokers.RepliesTopic, Group: "railhead"}
	source, err := kafka.OpenReplies(config, replyEnv)
	if err != nil {
		r.t.Fatal(err)
	}
	return takeFrom(r.t, source, r.ledger, r.log)
}

// as calls do with a client of franz-go. kfake does not unpack what is compressed.
func (r *kafkaReplies) as(do func(context.Context, *kgo.Client) error, options ...kgo.Opt) {
	r.t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.TrimPrefix(r.fake.URLs()[0], "kafka://")),
		kgo.DefaultProduceTopic(brokers.RepliesTopic), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		r.t.Fatal("kafka=fake: ", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if err := do(ctx, client); err != nil {
		r.t.Fatal("kafka=fake: ", err)
	}
}

// record is what a consumer reports.
func (r *kafkaReplies) record(event, key, by string) *kgo.Record {
	r.t.Helper()
	body, headers, err := signed(event, key, by)
	if err != nil {
		r.t.Fatal(err)
	}
	record := &kgo.Record{Value: []byte(body)}
	for name, value := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return record
}

func (r *kafkaReplies) reply(event, key, by string) {
	r.t.Helper()
	record := r.record(event, key, by)
	r.as(func(ctx context.Context, client *kgo.Client) error { return client.ProduceSync(ctx, record).FirstErr() })
}

// position returns that of the group; -1: it has none.
func (r *kafkaReplies) position() (at int64) {
	r.as(func(ctx context.Context, client *kgo.Client) error {
		request := kmsg.NewPtrOffsetFetchRequest()
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = "railhead"
		request.Group, request.Groups = "railhead", append(request.Groups, group)
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		at = -1
		for _, group := range answer.Groups {
			for _, topic := range group.Topics {
				at = topic.Partitions[0].Offset
			}
		}
		return nil
	})
	return at
}

// await waits until so many outcomes are recorded, and the group has a position.
func (r *kafkaReplies) await(what string, outcomes int, position int64) {
	r.t.Helper()
	err := await.Until(r.t.Context(), 90*time.Second, what, func() (bool, error) {
		got, _ := r.ledger.recorded()
		return got == outcomes && r.position() == position, nil
	})
	if err != nil {
		got, heard := r.ledger.recorded()
		r.t.Fatalf("kafka=fake: %v: %d outcomes of %v, position %d\n%s", err, got, heard, r.position(), r.log)
	}
}

// TestKafkaReplies tests that what consumers report by records is recorded once: what came before the endpoint
// started, what came while the database was away, and what came after the fake started again. What is refused comes
// again, also to the next endpoint.
func TestKafkaReplies(t *testing.T) {
	t.Parallel()
	r := newKafkaReplies(t)
	first, second, third := r.ledger.payment(), r.ledger.payment(), r.ledger.payment()
	forgotten := payment.NewID()
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_3", payment.RailKey(forgotten), replySecret)
	r.reply("evt_2", payment.RailKey(first), "b3RoZXIgc2VjcmV0IG9mIGEgdGhpZWY=")
	r.reply("evt_4", "not a key", replySecret)
	r.read()
	r.await("the first report alone to be recorded", 1, 2)
	for _, what := range []string{"IN", "MINE", callback.Unsigned, callback.NotOurs, callback.Unreadable} {
		r.hears(what)
	}
	if !strings.Contains(r.log.String(), `from="offset 3 of partition 0 of topic REPLIES" delivery=1 webhook_id=evt_2`) {
		t.Errorf("kafka=fake: the refusal is not in the log:\n%s", r.log)
	}
	r.ledger.set(func() { r.ledger.payments[forgotten] = true })
	r.await("the report of a payment that was not known", 2, 3)

	r.ledger.set(func() { r.ledger.away = true })
	r.reply("evt_5", payment.RailKey(second), replySecret)
	r.hears(callback.Failed)
	r.ledger.set(func() { r.ledger.away = false })
	r.await("the report to be recorded when the database is back", 3, 3)

	r.fake.End()
	r.fake.Begin(t)
	r.reply("evt_6", payment.RailKey(third), replySecret)
	r.await("the report to a fake that has started again", 4, 3)
	if heard := r.log.String(); strings.Contains(heard, "may be lost") {
		t.Errorf("kafka=fake: %s", heard)
	}
}

// hears waits until something was made of a callback.
func (r *kafkaReplies) hears(what string) {
	r.t.Helper()
	if err := await.Until(r.t.Context(), 20*time.Second, what, func() (bool, error) {
		_, heard := r.ledger.recorded()
		return slices.Contains(heard, what), nil
	}); err != nil {
		r.t.Fatalf("kafka=fake: %v\n%s", err, r.log)
	}
}

// TestKafkaRepliesOfTransactions tests that a report of a transaction that was aborted is none.
func TestKafkaRepliesOfTransactions(t *testing.T) {
	t.Parallel()
	r := newKafkaReplies(t)
	const yes, no = kgo.TryCommit, kgo.TryAbort
	for n, commit := range []kgo.TransactionEndTry{yes, no, yes, no, yes} {
		record := r.record("evt_"+string(rune('a'+n)), payment.RailKey(r.ledger.payment()), replySecret)
		r.as(func(ctx context.Context, client *kgo.Client) error {
			if err := client.BeginTransaction(); err != nil {
				return err
			}
			if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
				return err
			}
			return client.EndTransaction(ctx, commit)
		}, kgo.TransactionalID("consumer"))
	}
	r.read()
	r.await("the reports that were committed", 3, 10)
}

// TestKafkaRepliesRemoved tests that reports which were removed before they were read are said to be lost.
func TestKafkaRepliesRemoved(t *testing.T) {
	t.Parallel()
	r := newKafkaReplies(t)
	r.reply("evt_1", payment.RailKey(r.ledger.payment()), replySecret)
	end := r.read()
	r.await("the first", 1, 1)
	end()
	for _, event := range []string{"evt_2", "evt_3", "evt_4"} {
		r.reply(event, payment.RailKey(r.ledger.payment()), replySecret)
	}
	r.as(func(ctx context.Context, client *kgo.Client) error {
		request := kmsg.NewPtrDeleteRecordsRequest()
		topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		topic.Topic, partition.Offset = brokers.RepliesTopic, 3
		topic.Partitions = append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		_, err := request.RequestWith(ctx, client)
		return err
	})
	r.read()
	r.await("what is left", 2, 4)
	r.hears(callback.Missed)
	if heard := r.log.String(); !strings.Contains(heard, "offsets 1 to 2 were removed before the group had read them") {
		t.Errorf("kafka=fake: %s", heard)
	}
}
