package brokers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// TestRemovedMessagesOfOthers tests a stream that has removed another publisher's message, by its age or by a purge of
// its subject: the process that has seen it says so, and goes on.
func TestRemovedMessagesOfOthers(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(context.Context, jetstream.Stream) error{
		"its age": func(ctx context.Context, stream jetstream.Stream) error {
			for { // until the message is gone
				info, err := stream.Info(ctx)
				if err != nil || info.State.NumDeleted > 0 {
					return err
				}
				time.Sleep(50 * time.Millisecond)
			}
		},
		"a purge": func(ctx context.Context, stream jetstream.Stream) error {
			return stream.Purge(ctx, jetstream.WithPurgeSubject("events.>"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := brokers.Start(t, nil)
			settings := brokers.Settings(1)
			settings.Subjects, settings.AllowMsgTTL = append(settings.Subjects, "events.>"), name == "its age"
			brokers.Stream(t, s.URL(), settings)
			rail := open(t, 1, s.URL())
			first := message()
			want(t, "the first", sends(t, rail, first), payment.ResultAccepted)
			conn, err := natsgo.Connect(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			js, err := jetstream.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var options []jetstream.PublishOpt
			if settings.AllowMsgTTL {
				options = append(options, jetstream.WithMsgTTL(2*time.Second))
			}
			if _, err := js.Publish(ctx, "events.a", []byte("x"), options...); err != nil {
				t.Fatal(err)
			}
			want(t, "the second", sends(t, rail, message()), payment.ResultAccepted)
			want(t, "a re-send", sends(t, rail, again(first)), payment.ResultAccepted) // a look at what is there
			stream, err := js.Stream(ctx, "PAYMENTS")
			if err == nil {
				err = remove(ctx, stream)
			}
			if err != nil {
				t.Fatal(err)
			}
			// Whether a re-send is taken is up to its window; the rail is not refused.
			got := rails.SendSafely(ctx, rail, again(first))
			said := strings.Contains(got.Loss, "it can't be told whether they were ours")
			if got.Result == payment.ResultRefusedRail || !said {
				t.Errorf("a re-send: %s %q, said %q", got.Result, got.Message, got.Loss)
			}
			want(t, "a first send after it", sends(t, rail, message()), payment.ResultAccepted)
		})
	}
}
