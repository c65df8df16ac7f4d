package brokers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// TestRemovedMessages tests a stream that removes acknowledged messages: by a purge and by a deletion. The process that
// has seen them says which, and sends it nothing more.
func TestRemovedMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		remove func(ctx context.Context, stream jetstream.Stream) error
		says   string
	}{
		"a purge": {func(ctx context.Context, stream jetstream.Stream) error {
			return stream.Purge(ctx)
		}, "messages 1 to 5 of stream PAYMENTS were removed"},
		"a deletion": {func(ctx context.Context, stream jetstream.Stream) error {
			return stream.DeleteMsg(ctx, 3)
		}, "messages were deleted between 1 and 5 of stream PAYMENTS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := brokers.Start(t, nil)
			brokers.Stream(t, s.URL(), brokers.Settings(1))
			rail := open(t, 1, s.URL())
			first := message()
			want(t, "the first", sends(t, rail, first), payment.ResultAccepted)
			for range 4 {
				want(t, "before", sends(t, rail, message()), payment.ResultAccepted)
			}
			// A look at what is there.
			want(t, "a re-send", sends(t, rail, again(first)), payment.ResultAccepted)
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
			stream, err := js.Stream(ctx, "PAYMENTS")
			if err == nil {
				err = test.remove(ctx, stream)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := sends(t, rail, again(first))
			want(t, "after it", got, payment.ResultRefusedRail)
			if !strings.HasPrefix(got.Loss, test.says) {
				t.Errorf("found lost: %q, want %q", got.Loss, test.says)
			}
			want(t, "a first send after it", sends(t, rail, message()), payment.ResultRefusedRail)
		})
	}
}
