package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic and TopicPartitions are those of a fake, and RepliesTopic is where consumers report, in one partition.
const (
	Topic           = "PAYMENTS"
	RepliesTopic    = "REPLIES"
	TopicPartitions = 4
)

// topicSettings are those that a fake shows of its topic. kfake knows no unclean election of a leader, and so does
// not show that setting by itself, nor whether it flushes each record, which kfake.SyncWrites has it do.
func topicSettings() map[string]string {
	return map[string]string{
		"cleanup.policy": "delete", "compression.type": "uncompressed", "flush.messages": "1", "max.message.bytes": "1048588",
		"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1", "retention.bytes": "-1",
		"retention.ms": "-1", "segment.bytes": "104857600", "unclean.leader.election.enable": "false",
	}
}

// Kafka is franz-go's kfake in this process: a fake of a cluster of Kafka, which answers its protocol and keeps a
// log in a folder that outlives it. It shows nothing of replication.
type Kafka struct {
	options []kfake.Opt
	cluster *kfake.Cluster
}

// StartKafka starts a fake with so many brokers; options may have them ask for a login.
func StartKafka(t testing.TB, brokers int, options ...kfake.Opt) *Kafka {
	t.Helper()
	var ports []int
	for range brokers {
		ports = append(ports, freePort(t))
	}
	return startKafka(t, append(options, kfake.Ports(ports...)))
}

// StartKafkaBehind starts a fake with one broker, which has its clients connect to a proxy.
func StartKafkaBehind(t testing.TB) (*Kafka, *Proxy) {
	t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	proxy, err := OpenProxy(KafkaProtocol, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return startKafka(t, []kfake.Opt{kfake.NumBrokers(1), behind(at, proxy.listener.Addr())}), proxy
}

// StartKafkaAt starts a fake with one broker, which has its clients connect to an address. It returns its own.
func StartKafkaAt(t testing.TB, advertise net.Addr) string {
	t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	startKafka(t, []kfake.Opt{kfake.NumBrokers(1), behind(at, advertise)})
	return at
}

func startKafka(t testing.TB, options []kfake.Opt) *Kafka {
	t.Helper()
	k := &Kafka{options: append(fakeOptions(t.TempDir()), options...)}
	k.Begin(t)
	t.Cleanup(k.End)
	return k
}

// Begin starts the fake, on the log that it had.
func (k *Kafka) Begin(t testing.TB) {
	t.Helper()
	cluster, err := begin(k.options)
	if err != nil {
		t.Fatal(err)
	}
	k.cluster = cluster
}

// End stops the fake; its log stays.
func (k *Kafka) End() { k.cluster.Close() }

// URLs are the addresses of its brokers.
func (k *Kafka) URLs() (all []string) {
	for _, address := range k.cluster.ListenAddrs() {
		all = append(all, KafkaProtocol.Scheme+"://"+address)
	}
	return all
}

// Lead has another broker lead a partition.
func (k *Kafka) Lead(t testing.TB, partition, broker int32) {
	t.Helper()
	if err := k.cluster.MoveTopicPartition(Topic, partition, broker); err != nil {
		t.Fatal(err)
	}
}

// Leader returns the broker that leads a partition.
func (k *Kafka) Leader(partition int32) int32 { return k.cluster.LeaderFor(Topic, partition) }

func fakeOptions(store string) []kfake.Opt {
	return []kfake.Opt{
		kfake.DataDir(store), kfake.SyncWrites(), kfake.SeedTopics(TopicPartitions, Topic), kfake.SeedTopics(1, RepliesTopic),
		kfake.GroupMinSessionTimeout(time.Second),
		// A record without a time of its own would else be older than any retention.
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}),
	}
}

func begin(options []kfake.Opt) (*kfake.Cluster, error) {
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, fmt.Errorf("starting kfake: %w", err)
	}
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(question kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return showTopic(question.(*kmsg.DescribeConfigsRequest)), nil, true
	})
	return cluster, nil
}

// showTopic answers which settings the topic has.
func showTopic(question *kmsg.DescribeConfigsRequest) kmsg.Response {
	answer := question.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, asked := range question.Resources {
		about := kmsg.NewDescribeConfigsResponseResource()
		about.ResourceType, about.ResourceName = asked.ResourceType, asked.ResourceName
		for name, value := range topicSettings() {
			setting := kmsg.NewDescribeConfigsResponseResourceConfig()
			setting.Name, setting.Value = name, &value
			setting.Source = kmsg.ConfigSourceDynamicTopicConfig
			about.Configs = append(about.Configs, setting)
		}
		answer.Resources = append(answer.Resources, about)
	}
	return answer
}

// advertised is a listener that is reached at another address.
type advertised struct {
	net.Listener
	at net.Addr
}

func (a advertised) Addr() net.Addr { return a.at }

// behind has a broker listen at one address, and tell its clients to connect to another.
func behind(listen string, at net.Addr) kfake.Opt {
	return kfake.ListenFn(func(network, _ string) (net.Listener, error) {
		listener, err := net.Listen(network, listen)
		if err != nil {
			return nil, err
		}
		return advertised{listener, at}, nil
	})
}

// ServeKafka runs a fake with one broker at an address of loopback, HOST:PORT, which has its clients connect to
// another, with its log in a folder, until the context ends. It flushes each record to the disk before it
// acknowledges it. A process that is killed can be started again on its folder.
func ServeKafka(ctx context.Context, listen, advertise, store string) error {
	at, err := net.ResolveTCPAddr("tcp", advertise)
	if err != nil {
		return err
	}
	cluster, err := begin(append(fakeOptions(store), kfake.NumBrokers(1), behind(listen, at)))
	if err != nil {
		return err
	}
	<-ctx.Done()
	cluster.Close()
	return nil
}

// Records reads the whole topic, and calls a function for each of its records.
func Records(ctx context.Context, address string, each func(*kgo.Record)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	from, err1 := Offsets(ctx, client, false)
	to, err2 := Offsets(ctx, client, true)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	left, start := 0, map[int32]kgo.Offset{}
	for partition, offset := range from {
		left += int(to[partition] - offset)
		start[partition] = kgo.NewOffset().At(offset)
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{Topic: start})
	for left > 0 {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			return err
		}
		fetched.EachRecord(func(record *kgo.Record) {
			if record.Offset < to[record.Partition] {
				left--
				each(record)
			}
		})
	}
	return nil
}

// Offsets returns the first offset of each partition of the topic, or the one after the last.
func Offsets(ctx context.Context, client *kgo.Client, last bool) (map[int32]int64, error) {
	question := kmsg.NewPtrListOffsetsRequest()
	question.ReplicaID = -1
	about := kmsg.NewListOffsetsRequestTopic()
	about.Topic = Topic
	for n := range int32(TopicPartitions) {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.CurrentLeaderEpoch, partition.Timestamp = n, -1, -2
		if last {
			partition.Timestamp = -1
		}
		about.Partitions = append(about.Partitions, partition)
	}
	question.Topics = append(question.Topics, about)
	answer, err := question.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 {
				return nil, fmt.Errorf("partition %d: error %d", partition.Partition, partition.ErrorCode)
			}
			offsets[partition.Partition] = partition.Offset
		}
	}
	if len(offsets) != TopicPartitions {
		return nil, fmt.Errorf("%d of %d partitions answered", len(offsets), TopicPartitions)
	}
	return offsets, nil
}
