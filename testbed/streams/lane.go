package streams

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// lane is one rail of a run: its broker in a process of its own, the proxy by which the relayers reach it, its
// consumer, and what the broker has stored.
type lane struct {
	rail             string
	proxy            *brokers.Proxy
	broker, consumer *service
	log              log
}

// log is what a broker has stored, read without the product.
type log interface {
	// messages counts the messages.
	messages(ctx context.Context) (int, error)
	// each reads all messages, and calls a function with the instruction and the key of each.
	each(ctx context.Context, do func(instruction, key string)) error
	// consumed reports whether the consumer has nothing left.
	consumed(ctx context.Context) (bool, error)
	close()
}

// The rails of a run, and the group of their consumers.
const (
	railNATS  = "nats"
	railKafka = "kafka"
	group     = "executor"
)

// startNATS starts a nats-server, the proxy to it, and its stream.
func (w *world) startNATS(ctx context.Context) error {
	address, err := child.FreeAddr()
	if err != nil {
		return err
	}
	l := &lane{rail: railNATS}
	w.lanes = append(w.lanes, l)
	if l.proxy, err = brokers.OpenProxy(brokers.NATSProtocol, address); err != nil {
		return err
	}
	l.broker = w.program("nats-server", "testbed", nil, "nats-server", "-listen", address, "-store",
		filepath.Join(w.Evidence, "store-nats"))
	if err := l.broker.start(); err != nil {
		return err
	}
	l.consumer = w.program("consumer-nats", "testbed", nil, "stream-consumer", "-server", "nats://"+address, "-stream",
		streamName, "-database", w.consumerURL())
	stream := &natsLog{}
	l.log = stream
	stream.conn, err = natsgo.Connect("nats://"+address, natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	if stream.js, err = jetstream.New(stream.conn); err != nil {
		return err
	}
	w.stream = stream
	return persist(ctx, "the stream to be made", func(ctx context.Context) error {
		_, err := stream.js.CreateOrUpdateStream(ctx, settings(window))
		return err
	})
}

// startKafka starts franz-go's kfake, a fake, with its topic, and the proxy that it has its clients connect to.
func (w *world) startKafka(ctx context.Context) error {
	address, err := child.FreeAddr()
	if err != nil {
		return err
	}
	l := &lane{rail: railKafka}
	w.lanes = append(w.lanes, l)
	if l.proxy, err = brokers.OpenProxy(brokers.KafkaProtocol, address); err != nil {
		return err
	}
	l.broker = w.program("kafka-fake", "testbed", nil, "kafka-fake", "-listen", address, "-advertise", l.proxy.Address(),
		"-store", filepath.Join(w.Evidence, "store-kafka-fake"))
	if err := l.broker.start(); err != nil {
		return err
	}
	l.consumer = w.program("consumer-kafka", "testbed", nil, "topic-consumer", "-server", l.proxy.Address(),
		"-database", w.consumerURL())
	topic := &topicLog{server: l.proxy.Address()}
	l.log = topic
	if topic.client, err = kgo.NewClient(kgo.SeedBrokers(topic.server), kgo.RetryTimeout(time.Second)); err != nil {
		return err
	}
	_, err = topic.messages(ctx)
	return err
}

// natsLog is a stream of NATS.
type natsLog struct {
	conn *natsgo.Conn
	js   jetstream.JetStream
}

func (l *natsLog) close() {
	if l.conn != nil {
		l.conn.Close()
	}
}

func (l *natsLog) messages(ctx context.Context) (n int, err error) {
	err = persist(ctx, "the stream to answer", func(ctx context.Context) error {
		stream, err := l.js.Stream(ctx, streamName)
		if err != nil {
			return err
		}
		n = int(stream.CachedInfo().State.Msgs)
		return nil
	})
	return n, err
}

func (l *natsLog) consumed(ctx context.Context) (bool, error) {
	durable, err := l.js.Consumer(ctx, streamName, group)
	if err != nil {
		return false, err
	}
	info := durable.CachedInfo()
	return info.NumPending == 0 && info.NumAckPending == 0, nil
}

func (l *natsLog) each(ctx context.Context, do func(instruction, key string)) error {
	want, err := l.messages(ctx)
	if err != nil {
		return err
	}
	reader, err := l.js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	for read := 0; read < want; {
		batch, err := reader.Fetch(min(want-read, 500), jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			return err
		}
		before := read
		for message := range batch.Messages() {
			read++
			do(message.Headers().Get(instructionHeader), message.Headers().Get(jetstream.MsgIDHeader))
		}
		if read == before {
			return errors.Join(errors.New("the stream ends early"), batch.Error())
		}
	}
	return nil
}

// topicLog is the topic of a fake of Kafka.
type topicLog struct {
	server string
	client *kgo.Client
}

func (l *topicLog) close() {
	if l.client != nil {
		l.client.Close()
	}
}

func (l *topicLog) messages(ctx context.Context) (n int, err error) {
	err = persist(ctx, "the topic to answer", func(ctx context.Context) error {
		ends, err := brokers.Offsets(ctx, l.client, true)
		n = 0
		for _, end := range ends {
			n += int(end)
		}
		return err
	})
	return n, err
}

func (l *topicLog) consumed(ctx context.Context) (bool, error) {
	ends, err := brokers.Offsets(ctx, l.client, true)
	if err != nil {
		return false, err
	}
	question := kmsg.NewPtrOffsetFetchRequest()
	question.Group = group
	about := kmsg.NewOffsetFetchRequestTopic()
	about.Topic = brokers.Topic
	for partition := range ends {
		about.Partitions = append(about.Partitions, partition)
	}
	question.Topics = append(question.Topics, about)
	ofGroup := kmsg.NewOffsetFetchRequestGroup()
	ofGroup.Group = group
	ofTopic := kmsg.NewOffsetFetchRequestGroupTopic()
	ofTopic.Topic, ofTopic.Partitions = about.Topic, about.Partitions
	ofGroup.Topics = append(ofGroup.Topics, ofTopic)
	question.Groups = append(question.Groups, ofGroup)
	answer, err := question.RequestWith(ctx, l.client)
	if err != nil {
		return false, err
	}
	done := map[int32]int64{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			done[partition.Partition] = partition.Offset
		}
	}
	for _, of := range answer.Groups {
		for _, topic := range of.Topics {
			for _, partition := range topic.Partitions {
				done[partition.Partition] = partition.Offset
			}
		}
	}
	for partition, end := range ends {
		if end > max(0, done[partition]) {
			return false, nil
		}
	}
	return true, nil
}

func (l *topicLog) each(ctx context.Context, do func(instruction, key string)) error {
	return brokers.Records(ctx, l.server, func(record *kgo.Record) {
		do(headerOf(record, topicInstructionHeader), headerOf(record, topicKeyHeader))
	})
}
