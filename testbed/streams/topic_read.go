package streams

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/railhead-pay/railhead/testbed/brokers"
)

// Record is a record of the topic of a fake of Kafka.
type Record struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	RailKey   string    `json:"rail_key"`
	Time      time.Time `json:"time"`
	Size      int       `json:"size"` // bytes of its value
}

// ReadTopic writes each record that the topic of a fake of Kafka has as a line of JSON. The server is HOST:PORT; one
// that is starting is awaited until the context ends.
func ReadTopic(ctx context.Context, server string, into io.Writer) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(server))
	if err != nil {
		return err
	}
	defer client.Close()
	err = persist(ctx, "the fake of Kafka to start", func(ctx context.Context) error {
		_, err := brokers.Offsets(ctx, client, true)
		return err
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(into)
	lines := json.NewEncoder(out)
	var failed error
	err = brokers.Records(ctx, server, func(record *kgo.Record) {
		if failed == nil {
			failed = lines.Encode(Record{
				Partition: record.Partition, Offset: record.Offset, RailKey: headerOf(record, topicKeyHeader),
				Time: record.Timestamp, Size: len(record.Value),
			})
		}
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return out.Flush()
}
