package streams

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is one message of a stream, as [Read] writes it.
type Message struct {
	Sequence uint64    `json:"sequence"`
	Subject  string    `json:"subject"`
	ID       string    `json:"nats_msg_id"` // the rail key
	Time     time.Time `json:"time"`        // by the server's clock
	Size     int       `json:"size_bytes"`  // of the data
}

// Make makes a stream of payments on a server without replicas, or sets one that is there. It waits for
// a server that is starting until the context ends.
func Make(ctx context.Context, url, name string) error {
	config := settings(window)
	config.Name = name
	return on(url, func(js jetstream.JetStream) error {
		for {
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := js.CreateOrUpdateStream(try, config)
			cancel()
			if err == nil || ctx.Err() != nil {
				return err
			}
			var refused *jetstream.APIError
			if errors.As(err, &refused) && refused.Code < 500 {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// Read writes the messages that a stream has now, each a [Message] as a line of JSON, in their order.
func Read(ctx context.Context, url, name string, into io.Writer) error {
	out := bufio.NewWriter(into)
	lines := json.NewEncoder(out)
	err := on(url, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		last := stream.CachedInfo().State.LastSeq
		if stream.CachedInfo().State.Msgs == 0 {
			return nil
		}
		consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverAllPolicy,
		})
		if err != nil {
			return err
		}
		messages, err := consumer.Messages()
		if err != nil {
			return err
		}
		defer messages.Stop()
		for {
			message, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				return err
			}
			about, err := message.Metadata()
			if err != nil {
				return err
			}
			if err := lines.Encode(Message{
				Sequence: about.Sequence.Stream, Subject: message.Subject(), ID: message.Headers().Get("Nats-Msg-Id"),
				Time: about.Timestamp, Size: len(message.Data()),
			}); err != nil {
				return err
			}
			if about.Sequence.Stream >= last {
				return nil
			}
		}
	})
	if err != nil {
		return fmt.Errorf("reading stream %s: %w", name, err)
	}
	return out.Flush()
}

// on calls do with a connection. A server that does not listen yet is tried again.
func on(url string, do func(jetstream.JetStream) error) error {
	conn, err := natsgo.Connect(url, natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(js)
}
