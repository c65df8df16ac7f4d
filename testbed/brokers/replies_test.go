package brokers_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
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

func newLate() *late {
	return &late{payments: map[payment.ID]bool{}, outcomes: map[payment.ID]payment.Result{}}
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
	r := &replies{t: t, ledger: newLate(), log: &heardLog{}}
	r.server = brokers.Start(t, func(o *server.Options) {
		o.MaxPayload = 8 << 20
		o.Users = []*server.User{{Username: admin, Password: admin}, {
			Username: "rail", Password: "rail", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$JS.API.STREAM.INFO.REPLIES", "$JS.API.CONSUMER.INFO.REPLIES.railhead",
					"$JS.API.CONSUMER.MSG.NEXT.REPLIES.railhead",
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

// stream makes the stream with a change, or changes it.
func (r *replies) stream(change func(*jetstream.StreamConfig)) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		config := jetstream.StreamConfig{
			Name: "REPLIES", Subjects: []string{"replies.>"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
			MaxMsgSize: 1 << 17,
		}
		if change != nil {
			change(&config)
		}
		_, err := js.CreateOrUpdateStream(ctx, config)
		return err
	})
}

// consumer makes the consumer with a change.
func (r *replies) consumer(change func(*jetstream.ConsumerConfig)) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "REPLIES")
		if err != nil {
			return err
		}
		config := jetstream.ConsumerConfig{
			Durable: "railhead", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1,
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
	source, err := nats.OpenReplies(nats.Config{
		Servers: []string{r.server.URL()}, AllowPlaintext: true, Stream: "PAYMENTS", Subject: "payments.{participant_id}",
		Replicas: 1, User: "rail", Password: ref(r.t, "env:PASSWORD"),
		Replies: &nats.RepliesConfig{Stream: "REPLIES", Consumer: "railhead"},
	}, replyEnv)
	if err != nil {
		r.t.Fatal(err)
	}
	takeFrom(r.t, source, r.ledger, r.log)
}

func replyEnv(name string) string {
	return map[string]string{"PASSWORD": "rail", "SECRET": replySecret}[name]
}

// takeFrom starts a callback endpoint that reads a source, and returns a function that ends it.
func takeFrom(t *testing.T, source reader.Source, ledger *late, log *heardLog) (end func()) {
	t.Helper()
	table, err := codes.Named("iso20022")
	if err != nil {
		t.Fatal(err)
	}
	read, err := reader.Open(reader.Config{
		Secrets: []secret.Ref{ref(t, "env:SECRET")}, Key: "key", Status: "status",
		Statuses: map[string]payment.Result{"DONE": payment.ResultExecuted},
	}, table, replyEnv, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := callback.NewReceiver(map[string]*reader.Reader{"events": read}, ledger, "callbacks-1", time.Second,
		ledger, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		source.Run(ctx, receiver.Kept("events"))
	}()
	end = func() { stop(); <-over }
	t.Cleanup(end)
	return end
}

func ref(t *testing.T, text string) (r secret.Ref) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// reply publishes what a consumer reported of a payment three hours ago, signed by the secret.
func (r *replies) reply(event, key, by string) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		body, headers, err := signed(event, key, by)
		if err != nil {
			return err
		}
		header := natsgo.Header{}
		for name, value := range headers {
			header[name] = []string{value}
		}
		_, err = js.PublishMsg(ctx, &natsgo.Msg{Subject: "replies.events", Data: []byte(body), Header: header})
		return err
	})
}

// signed returns the body and the headers of what a consumer reported of a payment three hours ago.
func signed(event, key, by string) (body string, headers map[string]string, err error) {
	stamp := strconv.FormatInt(time.Now().Add(-3*time.Hour).Unix(), 10)
	body = `{"key": "` + key + `", "status": "DONE"}`
	secret, err := base64.StdEncoding.DecodeString(by)
	if err != nil {
		return "", nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(event + "." + stamp + "." + body))
	return body, map[string]string{
		"webhook-id": event, "webhook-timestamp": stamp,
		"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	}, nil
}

// payment is one that the ledger knows.
func (r *replies) payment() payment.ID { return r.ledger.payment() }

func (l *late) payment() payment.ID {
	id := payment.NewID()
	l.set(func() { l.payments[id] = true })
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

// TestNATSReplies tests that what consumers report by messages is recorded once: what came before the endpoint started,
// what came while the database was away, and what came after the server started again. What is refused comes again.
func TestNATSReplies(t *testing.T) {
	t.Parallel()
	r := newReplies(t)
	r.stream(nil)
	r.consumer(nil)
	first, second, third := r.payment(), r.payment(), r.payment()
	forgotten := payment.NewID()
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_1", payment.RailKey(first), replySecret)
	r.reply("evt_2", payment.RailKey(first), "b3RoZXIgc2VjcmV0IG9mIGEgdGhpZWY=")
	r.reply("evt_3", payment.RailKey(forgotten), replySecret)
	r.reply("evt_4", "not a key", replySecret)
	r.read()
	r.await("the first report alone to be recorded, and three to be refused", 1, 3)
	for _, what := range []string{"IN", "MINE", callback.Unsigned, callback.NotOurs, callback.Unreadable} {
		r.hears(what)
	}
	if !strings.Contains(r.log.String(), `from="message 3 of stream REPLIES" delivery=1 webhook_id=evt_2`) {
		t.Errorf("the refusal is not in the log:\n%s", r.log)
	}
	r.ledger.set(func() { r.ledger.payments[forgotten] = true })
	r.await("the report of a payment that was not known", 2, 2)

	r.ledger.set(func() { r.ledger.away = true })
	r.reply("evt_5", payment.RailKey(second), replySecret)
	r.hears(callback.Failed)
	r.await("the report to wait", 2, 3)
	r.ledger.set(func() { r.ledger.away = false })
	r.await("the report to be recorded when the database is back", 3, 2)

	r.server.End()
	r.server.Begin(t)
	r.reply("evt_6", payment.RailKey(third), replySecret)
	r.await("the report to a server that has started again", 4, 2)
}

// hears waits until something was made of a callback.
func (r *replies) hears(what string) {
	r.t.Helper()
	if err := await.Until(r.t.Context(), 20*time.Second, what, func() (bool, error) {
		_, heard := r.ledger.recorded()
		return slices.Contains(heard, what), nil
	}); err != nil {
		r.t.Fatalf("%v\n%s", err, r.log)
	}
}

// TestRepliesRemovedUnread tests that reports which a stream has removed for their age, while no callback endpoint ran,
// are said to be missed, once, and that what comes after them is read.
func TestRepliesRemovedUnread(t *testing.T) {
	t.Parallel()
	r := newReplies(t)
	r.stream(nil)
	r.consumer(nil)
	for _, event := range []string{"evt_1", "evt_2"} {
		r.reply(event, payment.RailKey(r.payment()), replySecret)
	}
	aged := func(most time.Duration) {
		r.stream(func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = most, min(most, time.Minute) })
	}
	aged(100 * time.Millisecond)
	err := await.Until(t.Context(), 20*time.Second, "the removal of both", func() (gone bool, err error) {
		r.as(func(ctx context.Context, js jetstream.JetStream) error {
			stream, err := js.Stream(ctx, "REPLIES")
			if err == nil {
				gone = stream.CachedInfo().State.Msgs == 0
			}
			return err
		})
		return gone, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	aged(7 * 24 * time.Hour)
	r.reply("evt_3", payment.RailKey(r.payment()), replySecret)
	r.read()
	r.hears(callback.Missed)
	r.await("the report behind them", 1, 0)
	if text := r.log.String(); strings.Count(text, "messages 1 to 2 of stream REPLIES were removed") != 1 {
		t.Errorf("the log does not say once which are gone:\n%s", text)
	}
}

// TestHostileReplies tests that messages which look like the server's own, or are too long, hold up no report.
func TestHostileReplies(t *testing.T) {
	t.Parallel()
	r := newReplies(t)
	r.stream(func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 })
	r.consumer(nil)
	for _, header := range []natsgo.Header{
		{"Status": {"404"}, "Description": {"No Messages"}}, {"Status": {"408"}}, {"Status": {"503"}}, {"Status": {"100"}},
		{"Status": {"409"}, "Description": {"Consumer Deleted"}}, {"Nats-Pin-Id": {"x"}}, {},
		{"Webhook-Id": {"evt"}, "webhook-id": {"other"}, "webhook-timestamp": {"noon"}, "webhook-signature": {"v1,"}},
	} {
		r.publish(header, nil)
	}
	r.publish(natsgo.Header{"x": {strings.Repeat("y", 60_000)}}, []byte(strings.Repeat("x", 3<<20)))
	for _, status := range []string{
		"404 No Messages", "408 Request Timeout", "503", "409 Consumer Deleted", "100 Idle Heartbeat",
	} {
		r.raw("replies.events", "NATS/1.0 "+status+"\r\n\r\n")
	}
	// Blanks of Unicode, and none of the server's.
	for _, blank := range []string{"\v", "\f", "\u00a0", "\u2003", "\u3000"} {
		r.raw("replies.a"+blank+"b", "NATS/1.0\r\n\r\n")
	}
	r.stream(nil)
	r.reply("evt_1", payment.RailKey(r.payment()), replySecret)
	r.read()
	r.await("the report behind 19 others", 1, 19)
	if _, heard := r.ledger.recorded(); slices.Contains(heard, callback.Unread) {
		t.Errorf("a message ended the reading: %v\n%s", heard, r.log)
	}
}

// raw publishes a message with headers that no client library writes.
func (r *replies) raw(subject, head string) {
	r.t.Helper()
	at, err := url.Parse(r.server.URL())
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"headers\":true,\"verbose\":false}\r\n", admin, admin)
	fmt.Fprintf(conn, "HPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(head), len(head), head)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "PONG") {
			return
		}
		if strings.HasPrefix(lines.Text(), "-ERR") {
			r.t.Fatal(lines.Text())
		}
	}
	r.t.Fatal("the server did not answer")
}

func (r *replies) publish(header natsgo.Header, data []byte) {
	r.t.Helper()
	r.as(func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.PublishMsg(ctx, &natsgo.Msg{Subject: "replies.events", Data: data, Header: header})
		return err
	})
}

// TestRepliesAreNotLost tests that a stream or a consumer whose settings would lose reports is not read, until it is
// set or made as it has to be.
func TestRepliesAreNotLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream   func(*jetstream.StreamConfig)
		consumer func(*jetstream.ConsumerConfig)
	}{
		"the stream's max_age":           {stream: func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		"the stream's discard":           {stream: func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 9 }},
		"the stream's allow_rollup_hdrs": {stream: func(c *jetstream.StreamConfig) { c.AllowRollup = true }},
		"the stream's max_msg_size":      {stream: func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 }},
		"the consumer's ack_wait":        {consumer: func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second }},
		"the consumer's backoff": {consumer: func(c *jetstream.ConsumerConfig) {
			c.AckWait, c.BackOff = 0, []time.Duration{time.Minute, time.Hour}
		}},
		"the consumer's mem_storage": {consumer: func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true }},
		"the consumer's ack_policy is none": {consumer: func(c *jetstream.ConsumerConfig) {
			c.AckPolicy, c.AckWait, c.MaxAckPending = jetstream.AckNonePolicy, 0, 0
		}},
		"the consumer's ack_policy is all": {consumer: func(c *jetstream.ConsumerConfig) {
			c.AckPolicy = jetstream.AckAllPolicy
		}},
		"the consumer's max_deliver":        {consumer: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 }},
		"the consumer's max_ack_pending":    {consumer: func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 0 }},
		"the consumer's headers_only":       {consumer: func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }},
		"the consumer's inactive_threshold": {consumer: func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
		"the consumer's deliver_policy": {consumer: func(c *jetstream.ConsumerConfig) {
			c.DeliverPolicy = jetstream.DeliverLastPolicy
		}},
		"the consumer's replay_policy": {consumer: func(c *jetstream.ConsumerConfig) {
			c.ReplayPolicy = jetstream.ReplayOriginalPolicy
		}},
		"the consumer's pause_until": {consumer: func(c *jetstream.ConsumerConfig) {
			until := time.Now().Add(time.Hour)
			c.PauseUntil = &until
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplies(t)
			r.stream(c.stream)
			r.consumer(c.consumer)
			r.reply("evt_1", payment.RailKey(r.payment()), replySecret)
			r.read()
			r.hears(callback.Unread)
			if got, _ := r.ledger.recorded(); got > 0 || !strings.Contains(r.log.String(), name) {
				t.Fatalf("%d reports are recorded:\n%s", got, r.log)
			}
			r.stream(nil)
			r.as(func(ctx context.Context, js jetstream.JetStream) error {
				return js.DeleteConsumer(ctx, "REPLIES", "railhead")
			})
			r.consumer(nil)
			r.await("the report to be recorded", 1, 0)
		})
	}
}
