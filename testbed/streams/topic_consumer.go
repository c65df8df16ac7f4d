package streams

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/railhead-pay/railhead/testbed/brokers"
)

// The headers of a record that a consumer reads.
const (
	topicKeyHeader         = "railhead-rail-key"
	topicInstructionHeader = "railhead-instruction-id"
)

// TopicConsumer reads the topic of a fake of Kafka, and executes each payment once.
type TopicConsumer struct {
	Server   string  // HOST:PORT
	Database string  // its connection string
	Lost     float64 // share of its own commits that it does not make
}

// Run consumes until the context ends. It goes on by itself when broker or database return.
func (c TopicConsumer) Run(ctx context.Context) error {
	db, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Server), kgo.ConsumerGroup(group), kgo.ConsumeTopics(brokers.Topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.RebalanceTimeout(2*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetched := client.PollRecords(poll, 100)
		cancel()
		for _, record := range fetched.Records() {
			if err := execute(ctx, db, headerOf(record, topicKeyHeader),
				headerOf(record, topicInstructionHeader)); err != nil {
				return err
			}
		}
		if fetched.NumRecords() > 0 && rand.Float64() < c.Lost {
			continue
		}
		// Without the commit records come again, and are recognised.
		answered, done := context.WithTimeout(ctx, time.Second)
		_ = client.CommitUncommittedOffsets(answered)
		done()
	}
	return nil
}

func headerOf(record *kgo.Record, name string) string {
	for _, header := range record.Headers {
		if header.Key == name {
			return string(header.Value)
		}
	}
	return ""
}
