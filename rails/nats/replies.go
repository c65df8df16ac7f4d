package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/railhead-pay/railhead/rails/callback"
)

// RepliesConfig says where the callbacks of a rail are messages of a stream.
type RepliesConfig struct {
	Stream string `json:"stream"`
	// Consumer is a durable consumer of that stream, which an operator has made: it acknowledges each message
	// explicitly and delivers it without a bound of times. All callback endpoints of a cell share it.
	Consumer string `json:"consumer"`
}

func (c RepliesConfig) validate() error {
	var all []error
	if !streamName.MatchString(c.Stream) {
		all = append(all, fmt.Errorf("replies.stream is %q, must be 1 to 64 letters, digits, _ and -", c.Stream))
	}
	if !streamName.MatchString(c.Consumer) {
		all = append(all, fmt.Errorf("replies.consumer is %q, must be 1 to 64 letters, digits, _ and -", c.Consumer))
	}
	return errors.Join(all...)
}

// Bounds of how callbacks are read.
const (
	batchOfReplies = 6                // messages at once, as many as are recorded at once
	replyAgain     = 5 * time.Second  // until a message that was not recorded is delivered again
	replySession   = 5 * time.Second  // until the servers are connected to again after a fault
	replyCall      = 10 * time.Second // of a connection, and of a question to it
	lookAtConsumer = time.Minute      // between looks at the settings of the consumer
)

// Replies reads callbacks from a durable consumer. It is a callback.Source. Sends are made by a connection of
// our own, since what leaves must be certain; what is read here is delivered again until it was acknowledged,
// so that a client library may reconnect as it likes.
type Replies struct {
	config  Config
	options []natsgo.Option
	log     *slog.Logger
}

// OpenReplies returns the source of a rail's callbacks, or all faults of the configuration in one error. It
// resolves the secrets and connects to nothing.
func OpenReplies(config Config, getenv func(string) string, log *slog.Logger) (*Replies, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Replies == nil {
		return nil, errors.New("replies is missing")
	}
	by, _, err := loginOf(config, getenv)
	if err != nil {
		return nil, err
	}
	r := &Replies{config: config, log: log, options: []natsgo.Option{
		natsgo.Name("railhead callbacks"), natsgo.NoReconnect(), natsgo.DontRandomize(), natsgo.Timeout(replyCall),
		natsgo.CustomInboxPrefix(config.InboxPrefix),
	}}
	if strings.HasPrefix(config.Servers[0], "tls:") || by.tls.RootCAs != nil || len(by.tls.Certificates) > 0 {
		r.options = append(r.options, natsgo.Secure(by.tls))
	}
	switch {
	case by.credentials != "":
		jwt, err := nkeys.ParseDecoratedJWT([]byte(by.credentials))
		if err != nil {
			return nil, errors.New("credentials has no JWT")
		}
		r.options = append(r.options, natsgo.UserJWT(func() (string, error) { return jwt, nil },
			func(nonce []byte) ([]byte, error) {
				pair, err := nkeys.ParseDecoratedUserNKey([]byte(by.credentials))
				if err != nil {
					return nil, errors.New("credentials has no seed of a user")
				}
				defer pair.Wipe()
				return pair.Sign(nonce)
			}))
	case by.token != "":
		r.options = append(r.options, natsgo.Token(by.token))
	case by.user != "":
		r.options = append(r.options, natsgo.UserInfo(by.user, by.password))
	}
	return r, nil
}

// Run implements callback.Source. A fault of the servers, or of the consumer, is logged and tried again.
func (r *Replies) Run(ctx context.Context, take func(context.Context, callback.Kept) callback.Fate) {
	for ctx.Err() == nil {
		err := r.session(ctx, take)
		if ctx.Err() != nil {
			return
		}
		r.log.ErrorContext(ctx, "callbacks can't be read from the stream: they wait in it", "stream", r.config.Replies.Stream,
			"consumer", r.config.Replies.Consumer, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(replySession):
		}
	}
}

// session reads until a fault or until the context ends.
func (r *Replies) session(ctx context.Context, take func(context.Context, callback.Kept) callback.Fate) error {
	conn, err := natsgo.Connect(strings.Join(r.config.Servers, ","), r.options...)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if r.config.Domain != "" {
		js, err = jetstream.NewWithDomain(conn, r.config.Domain)
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		consumer, err := r.consumer(ctx, js)
		if err != nil {
			return err
		}
		for looked := time.Now(); ctx.Err() == nil && time.Since(looked) < lookAtConsumer; {
			if err := r.batch(ctx, consumer, take); err != nil {
				return err
			}
		}
	}
	return nil
}

// consumer returns the consumer if it keeps each message until it was acknowledged.
func (r *Replies) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	consumer, err := js.Consumer(ctx, r.config.Replies.Stream, r.config.Replies.Consumer)
	if err != nil {
		return nil, err
	}
	switch c := consumer.CachedInfo().Config; {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, fmt.Errorf("the consumer's ack_policy is %s: it must be explicit, or callbacks that are not recorded "+
			"are lost", c.AckPolicy)
	case c.MaxDeliver > 0:
		return nil, fmt.Errorf("the consumer's max_deliver is %d: it must be -1, or callbacks are lost while the database "+
			"is away", c.MaxDeliver)
	case c.InactiveThreshold > 0:
		return nil, fmt.Errorf("the consumer's inactive_threshold is %s: it must be 0, or the server removes it while no "+
			"callback endpoint runs, with what it knows of messages that were taken", c.InactiveThreshold)
	}
	return consumer, nil
}

// batch takes the next messages, or none if none comes for a while.
func (r *Replies) batch(
	ctx context.Context, consumer jetstream.Consumer, take func(context.Context, callback.Kept) callback.Fate,
) error {
	wait, cancel := context.WithTimeout(ctx, replyCall)
	defer cancel()
	batch, err := consumer.Fetch(batchOfReplies, jetstream.FetchContext(wait), jetstream.FetchHeartbeat(replyCall/4))
	if err != nil {
		return fmt.Errorf("asking for messages: %w", err)
	}
	var all sync.WaitGroup
	for message := range batch.Messages() {
		all.Go(func() { r.settle(ctx, message, take) })
	}
	all.Wait()
	if err := batch.Error(); err != nil && wait.Err() == nil {
		return fmt.Errorf("reading messages: %w", err)
	}
	return nil
}

// settle has a message taken and tells the server what became of it. What the server does not hear of is
// delivered again, and recognised.
func (r *Replies) settle(
	ctx context.Context, message jetstream.Msg, take func(context.Context, callback.Kept) callback.Fate,
) {
	about, err := message.Metadata()
	if err == nil {
		kept := callback.Kept{Header: make(http.Header), Body: message.Data(), Came: about.Timestamp}
		for name, values := range message.Headers() {
			for _, value := range values {
				kept.Header.Add(name, value)
			}
		}
		switch take(ctx, kept) {
		case callback.Taken:
			err = message.Ack()
		case callback.Refused:
			err = message.TermWithReason("it is no callback that will ever be accepted")
		default:
			err = message.NakWithDelay(replyAgain)
		}
	}
	if err != nil {
		r.log.WarnContext(ctx, "what became of a callback was not told to the stream, which delivers it again",
			"stream", r.config.Replies.Stream, "error", err)
	}
}
