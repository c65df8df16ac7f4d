package brokers_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	reader "github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/secret"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

const replySecret = "bmV3IHNlY3JldCBvZiB0aGUgYmFuaw=="

// late is a ledger that knows its payments, and can be away.
type late struct {
	mu       sync.Mutex
	payments map[payment.ID]bool
	outcomes map[payment.ID]payment.Result // by attempt
	heard    []string
	away     bool
}

func (l *late) ByRailKey(_ context.Context, key payment.ID) (payment.ID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.away:
		return key, errors.New("the database is away")
	case !l.payments[key]:
		return key, outbox.ErrNotFound
	}
	return key, nil
}

func (l *late) RecordLate(_ context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.outcomes[outcome.AttemptID]; known {
		return payment.VerdictMine, nil
	}
	l.outcomes[outcome.AttemptID] = outcome.Result
	return payment.VerdictIn, nil
}

func (l *late) Received(_, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, what)
}

func (l *late) Recorded(payment.Outcome, payment.Verdict) {}

// recorded returns how many outcomes are recorded, and what was heard.
func (l *late) recorded() (int, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.outcomes), append([]string(nil), l.heard...)
}

func (l *late) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// replies is a server with a stream of replies, a user that may do what docs/rails.md permits, and the callback
// endpoint that reads there.
type replies struct {
	t      *testing.T
	server *brokers.Server
	ledger *late
	log    *heardLog
}

// heardLog keeps what is logged.
type heardLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *heardLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *heardLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// admin is the user who makes streams and publishes replies.
const admin = "admin"

func newReplies(t *testing.T) *replies {
	t.Helper()
	r := &replies{t: t, ledger: &late{payments: map[payment.ID]bool{}, outcomes: map[payment.ID]payment.Result{}},
		log: &heardLog{}}
	r.server = brokers.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: admin, Password: admin}, {
			Username: "rail", Password: "rail", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$JS.API.CONSUMER.INFO.REPLIES.railhead", "$JS.API.CONSUMER.MSG.NEXT.REPLIES.railhead",
					"$JS.ACK.REPLIES.railhead.>",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_railhead.>"}},
			},
		}}
	})
	return r
}

// as calls do as the administrator of the server.
func (r *replies) as(do func(context.Context, jetstream.JetStream) error) {
	r.t.Helper()
	conn, err := natsgo.Connect(r.server.URL(), natsgo.UserInfo(admin, admin), natsgo.RetryOnFailedConnect(true))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if err := do(ctx, js); err != nil {
		r.t.Fatal(err)
	}
}

// consumer makes the stream, and its consumer with a change.
func (r *replies) consumer(change func(*jetstream.ConsumerConfig)) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "REPLIES", Subjects: []string{"replies.>"}, Storage: jetstream.FileStorage,
		})
		if err != nil {
			return err
		}
		config := jetstream.ConsumerConfig{
			Durable: "railhead", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second,
		}
		if change != nil {
			change(&config)
		}
		_, err = stream.CreateConsumer(ctx, config)
		return err
	})
}

// read starts a callback endpoint.
func (r *replies) read() {
	r.t.Helper()
	getenv := func(name string) string {
		return map[string]string{"PASSWORD": "rail", "SECRET": replySecret}[name]
	}
	table, err := codes.Named("iso20022")
	if err != nil {
		r.t.Fatal(err)
	}
	read, err := reader.Open(reader.Config{
		Secrets: []secret.Ref{ref(r.t, "env:SECRET")}, Key: "key", Status: "status",
		Statuses: map[string]payment.Result{"DONE": payment.ResultExecuted},
	}, table, getenv, time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	receiver, err := callback.NewReceiver(map[string]*reader.Reader{"events": read}, r.ledger, "callbacks-1", time.Second,
		r.ledger, log)
	if err != nil {
		r.t.Fatal(err)
	}
	source, err := nats.OpenReplies(nats.Config{
		Servers: []string{r.server.URL()}, AllowPlaintext: true, Stream: "PAYMENTS", Subject: "payments.{participant_id}",
		User: "rail", Password: ref(r.t, "env:PASSWORD"),
		Replies: &nats.RepliesConfig{Stream: "REPLIES", Consumer: "railhead"},
	}, getenv, log)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		source.Run(ctx, func(ctx context.Context, kept reader.Kept) reader.Fate {
			return receiver.TakeKept(ctx, "events", kept)
		})
	}()
	r.t.Cleanup(func() { stop(); <-over })
}

func ref(t *testing.T, text string) (r secret.Ref) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// reply publishes what a consumer reports of a payment, signed by the secret.
func (r *replies) reply(event, key, by string) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		body, stamp := `{"key": "`+key+`", "status": "DONE"}`, strconv.FormatInt(time.Now().Unix(), 10)
		secret, err := base64.StdEncoding.DecodeString(by)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(event + "." + stamp + "." + body))
		_, err = js.PublishMsg(ctx, &natsgo.Msg{Subject: "replies.events", Data: []byte(body), Header: natsgo.Header{
			"webhook-id": {event}, "webhook-timestamp": {stamp},
			"webhook-signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
		}})
		return err
	})
}

// payment is one that the ledger knows.
func (r *replies) payment() payment.ID {
	id := payment.NewID()
	r.ledger.set(func() { r.ledger.payments[id] = true })
	return id
}

// await waits until so many outcomes are recorded, and the consumer waits for so many acknowledgements.
func (r *replies) await(what string, outcomes int, open int) {
	r.t.Helper()
	err := await.Until(r.t.Context(), 30*time.Second, what, func() (done bool, err error) {
		r.as(func(ctx context.Context, js jetstream.JetStream) error {
			consumer, err := js.Consumer(ctx, "REPLIES", "railhead")
			if err != nil {
				return err
			}
			got, _ := r.ledger.recorded()
			about := consumer.CachedInfo()
			done = got == outcomes && about.NumAckPending+int(about.NumPending) == open
			return nil
		})
		return done, nil
	})
	if err != nil {
		got, heard := r.ledger.recorded()
		r.t.Fatalf("%v: %d outcomes of %v\n%s", err, got, heard, r.log)
	}
}

// TestReplies tests that what consumers report by messages is recorded once: what came before the endpoint started,
// what came while the database was away, and what came after the server started again.
func TestReplies(t *testing.T) {
	t.Parallel()
	r := newReplies(t)
	r.consumer(nil)
	first, second, third := r.payment(), r.payment(), r.payment()
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_2", payment.RailKey(first), "b3RoZXIgc2VjcmV0IG9mIGEgdGhpZWY=")
	r.reply("evt_3", payment.RailKey(payment.NewID()), replySecret)
	r.reply("evt_4", "not a key", replySecret)
	r.read()
	r.await("the first report alone to be recorded, and all to be settled", 1, 0)
	_, heard := r.ledger.recorded()
	for _, what := range []string{"IN", "MINE", callback.Unsigned, callback.NotOurs, callback.Unreadable} {
		if got := strings.Count(" "+strings.Join(heard, " ")+" ", " "+what+" "); got != 1 {
			t.Errorf("%s was heard %d times, want once: %v", what, got, heard)
		}
	}

	r.ledger.set(func() { r.ledger.away = true })
	r.reply("evt_5", payment.RailKey(second), replySecret)
	if err := await.Until(t.Context(), 20*time.Second, "a report that is not recorded", func() (bool, error) {
		_, heard := r.ledger.recorded()
		return strings.Contains(strings.Join(heard, " "), callback.Failed), nil
	}); err != nil {
		t.Fatal(err)
	}
	r.await("the report to wait", 1, 1)
	r.ledger.set(func() { r.ledger.away = false })
	r.await("the report to be recorded when the database is back", 2, 0)

	r.server.End()
	r.server.Begin(t)
	r.reply("evt_6", payment.RailKey(third), replySecret)
	r.await("the report to a server that has started again", 3, 0)
}

// TestRepliesAreNotLost tests that a consumer whose settings would lose reports is not read, until it is made anew.
func TestRepliesAreNotLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting string
		change  func(*jetstream.ConsumerConfig)
	}{
		{"ack_policy", func(c *jetstream.ConsumerConfig) { c.AckPolicy, c.AckWait = jetstream.AckNonePolicy, 0 }},
		{"ack_policy", func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }},
		{"max_deliver", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 }},
		{"inactive_threshold", func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
	} {
		t.Run(c.setting, func(t *testing.T) {
			t.Parallel()
			r := newReplies(t)
			r.consumer(c.change)
			r.reply("evt_1", payment.RailKey(r.payment()), replySecret)
			r.read()
			if err := await.Until(t.Context(), 20*time.Second, "the refusal", func() (bool, error) {
				return strings.Contains(r.log.String(), "the consumer's "+c.setting+" is"), nil
			}); err != nil {
				t.Fatalf("%v\n%s", err, r.log)
			}
			r.await("the report to wait", 0, 1)
			r.as(func(ctx context.Context, js jetstream.JetStream) error {
				return js.DeleteConsumer(ctx, "REPLIES", "railhead")
			})
			r.consumer(nil)
			r.await("the report to be recorded by another consumer", 1, 0)
		})
	}
}
