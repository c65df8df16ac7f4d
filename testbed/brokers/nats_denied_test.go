package brokers_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// users are that of the rail, who needs no login and may publish to some subjects, and one who may do everything.
func users(publish ...string) []*server.User {
	publish = append(publish, "$JS.API.STREAM.INFO.PAYMENTS", "$JS.API.STREAM.MSG.GET.PAYMENTS")
	return []*server.User{
		{Username: "admin", Password: "pw"},
		{Username: "rail", Password: "pw", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_railhead.>"}},
		}},
	}
}

// refusedAtOnce tests that a send is refused by an answer, and not by the end of the time for one.
func refusedAtOnce(t *testing.T, what string, rail rails.Rail, send rails.Send) {
	t.Helper()
	begun := time.Now()
	got := rails.SendSafely(t.Context(), rail, send)
	took := time.Since(begun)
	if got.Result != payment.ResultRefusedRail || !got.FirstByte || took > 5*time.Second {
		t.Errorf("%s: %s after %s, first byte %t: %s", what, got.Result, took, got.FirstByte, got.Message)
	}
}

// TestPublishDenied tests that a permission which is withdrawn from a running server refuses the rail at once, that
// the stream gets no message, and that the same payments are taken when it is given back.
func TestPublishDenied(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, func(o *server.Options) { o.Users, o.NoAuthUser = users("payments.>"), "rail" })
	stream := brokers.Stream(t, strings.Replace(s.URL(), "//", "//admin:pw@", 1), brokers.Settings(1))
	rail := open(t, 1, s.URL())
	want(t, "before", rails.SendSafely(t.Context(), rail, message()), payment.ResultAccepted)
	s.Reload(t, func(o *server.Options) { o.Users = users() })
	one, two := message(), message()
	refusedAtOnce(t, "while it is withdrawn", rail, one)
	refusedAtOnce(t, "the next", rail, two)
	counted(t, "while it is withdrawn", stream, 1)
	s.Reload(t, func(o *server.Options) { o.Users = users("payments.>") })
	for _, send := range []rails.Send{one, two} {
		want(t, "given back", rails.SendSafely(t.Context(), rail, send), payment.ResultAccepted)
	}
	counted(t, "in the end", stream, 3)
}

// TestMaxPayloadLowered tests that a server which takes shorter messages from now on refuses the rail: the message that
// is too long, and the next one before its first byte.
func TestMaxPayloadLowered(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	stream := brokers.Stream(t, s.URL(), brokers.Settings(1))
	rail := open(t, 1, s.URL())
	want(t, "before", rails.SendSafely(t.Context(), rail, message()), payment.ResultAccepted)
	s.Reload(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	long := message()
	long.Payload = append(append([]byte(`{"event":"`), bytes.Repeat([]byte("x"), 200<<10)...), `"}`...)
	refusedAtOnce(t, "a long one", rail, long)
	next := rails.SendSafely(t.Context(), rail, message())
	if next.Result != payment.ResultRefusedRail || next.FirstByte || !strings.Contains(next.Message, "max_payload") {
		t.Errorf("the next: %s, first byte %t: %s", next.Result, next.FirstByte, next.Message)
	}
	counted(t, "while it is lowered", stream, 1)
	s.Reload(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	want(t, "raised again", rails.SendSafely(t.Context(), rail, long), payment.ResultAccepted)
	counted(t, "in the end", stream, 2)
}
