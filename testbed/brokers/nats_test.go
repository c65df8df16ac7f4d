package brokers_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

func profile() rails.Profile {
	p := rails.Profile{
		RailType: "events", Kind: rails.KindMessage,
		Policy: payment.Policy{
			ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Minute),
			Inquiry: payment.InquiryPolicy{Max: 5, NotFound: payment.NotFoundInconclusive},
		},
	}.WithDefaults()
	second := payment.Duration(5 * time.Second)
	p.Timeouts = rails.Timeouts{Connect: second, TLS: second, Write: second, ResponseHeader: second, Body: second}
	return p
}

func open(t *testing.T, replicas int, servers ...string) rails.Rail {
	t.Helper()
	rail, err := nats.Open(nats.Config{
		Servers: servers, AllowPlaintext: true, Stream: "PAYMENTS", Subject: "payments.{participant_id}.{rail_key}",
		Replicas: replicas, ClockSkew: payment.Duration(time.Millisecond),
	}, profile(), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rail.(io.Closer).Close() })
	return rail
}

func message() rails.Send {
	id := payment.NewID()
	return rails.Send{
		OutboxID: id, RailKey: payment.RailKey(id), InstructionID: "i", ParticipantID: "p.1", SendNo: 1,
		Payload: []byte(`{"event": "created"}`), FirstSentAt: time.Now(),
	}
}

// again is a later send.
func again(send rails.Send) rails.Send {
	send.SendNo++
	return send
}

func ask(t *testing.T, rail rails.Rail, send rails.Send) rails.Result {
	t.Helper()
	return rails.InquireSafely(t.Context(), rail.(rails.Inquirer), rails.Inquiry{
		RailKey: send.RailKey, ParticipantID: send.ParticipantID, Payload: send.Payload, FirstSentAt: send.FirstSentAt,
		SendNo: send.SendNo,
	})
}

func want(t *testing.T, what string, got rails.Result, results ...payment.Result) {
	t.Helper()
	if slices.Contains(results, got.Result) {
		return
	}
	t.Errorf("%s: %s (%s), want one of %v", what, got.Result, got.Message, results)
}

// stored counts the messages of a stream.
func stored(t *testing.T, stream jetstream.Stream) uint64 {
	t.Helper()
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func counted(t *testing.T, what string, stream jetstream.Stream, want uint64) {
	t.Helper()
	if got := stored(t, stream); got != want {
		t.Errorf("%s: the stream has %d messages, want %d", what, got, want)
	}
}

// TestLostAcknowledgement tests a message that is stored and whose acknowledgement is lost: its
// outcome is unknown, an inquiry finds it, and sends after it add no second one.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, nil)
	stream := brokers.Stream(t, s.URL(), brokers.Settings(1))
	proxy := brokers.NewProxy(t, s)
	rail, send := open(t, 1, proxy.URL()), message()
	want(t, "before", ask(t, rail, send), payment.ResultNotFound)
	proxy.LoseAcks(true)
	want(t, "a lost acknowledgement", rails.SendSafely(t.Context(), rail, send), payment.ResultUnknown)
	proxy.LoseAcks(false)
	for stored(t, stream) == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the message did not arrive")
		case <-time.After(10 * time.Millisecond):
		}
	}
	want(t, "the inquiry", ask(t, rail, send), payment.ResultExecuted)
	want(t, "a second send", rails.SendSafely(t.Context(), rail, again(send)), payment.ResultAccepted)
	other := again(send)
	other.Payload = []byte(`{"event": "another"}`)
	want(t, "other content", rails.SendSafely(t.Context(), rail, other), payment.ResultUnknown)
	want(t, "an inquiry for other content", ask(t, rail, other), payment.ResultUnavailable)
	counted(t, "in the end", stream, 1)
}

// TestWindowIsOver tests a re-send after the stream has forgotten the key: the subject has its
// message, and the stream takes no second one.
func TestWindowIsOver(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, nil)
	settings := brokers.Settings(1)
	settings.Discard, settings.MaxMsgsPerSubject, settings.DiscardNewPerSubject = jetstream.DiscardOld, 0, false
	stream := brokers.Stream(t, s.URL(), settings)
	rail, send := open(t, 1, s.URL()), message()
	want(t, "the first send", rails.SendSafely(t.Context(), rail, send), payment.ResultAccepted)
	// A server that is started again with a shorter window has forgotten the key; the adapter would refuse
	// the window, so it is set back.
	settings.Duplicates = 100 * time.Millisecond
	brokers.Update(t, s.URL(), settings)
	<-time.After(500 * time.Millisecond)
	settings.Duplicates = time.Minute
	brokers.Update(t, s.URL(), settings)
	want(t, "a re-send", rails.SendSafely(t.Context(), rail, again(send)), payment.ResultAccepted)
	counted(t, "after the window", stream, 1)
}

// TestServerStartsAgain tests that a server that ends loses nothing that it acknowledged, and that
// what it did not acknowledge is sent once.
func TestServerStartsAgain(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, nil)
	brokers.Stream(t, s.URL(), brokers.Settings(1))
	rail, first := open(t, 1, s.URL()), message()
	want(t, "the first", rails.SendSafely(t.Context(), rail, first), payment.ResultAccepted)
	s.End()
	down := message()
	want(t, "while it is down", rails.SendSafely(t.Context(), rail, down), payment.ResultNotSent, payment.ResultUnknown)
	s.Begin(t)
	want(t, "the first, after it", ask(t, rail, first), payment.ResultExecuted)
	want(t, "the first once more", rails.SendSafely(t.Context(), rail, again(first)), payment.ResultAccepted)
	want(t, "the other", rails.SendSafely(t.Context(), rail, again(down)), payment.ResultAccepted)
	counted(t, "in the end", brokers.Open(t, s.URL(), "PAYMENTS"), 2)
}

// TestCreatedAgain tests a stream that was deleted and created again: it has no memory of what was
// sent, so nothing is sent again, and "no such message" proves nothing.
func TestCreatedAgain(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, nil)
	brokers.Stream(t, s.URL(), brokers.Settings(1))
	rail, send := open(t, 1, s.URL()), message()
	want(t, "the first send", rails.SendSafely(t.Context(), rail, send), payment.ResultAccepted)
	brokers.Delete(t, s.URL(), "PAYMENTS")
	want(t, "without the stream", rails.SendSafely(t.Context(), rail, again(send)), payment.ResultRefusedRail)
	stream := brokers.Stream(t, s.URL(), brokers.Settings(1))
	got := rails.SendSafely(t.Context(), rail, again(send))
	want(t, "a re-send", got, payment.ResultNotSent)
	if !got.Forgets {
		t.Errorf("the stream may remember it later: %s", got.Message)
	}
	want(t, "an inquiry", ask(t, rail, send), payment.ResultUnavailable)
	counted(t, "in the new stream", stream, 0)
	fresh := message()
	want(t, "a new message", rails.SendSafely(t.Context(), rail, fresh), payment.ResultAccepted)
}

// TestWithoutMajority tests a cluster of three of which one server is left: nothing is acknowledged,
// and what was in doubt is there once when the others are back.
func TestWithoutMajority(t *testing.T) {
	t.Parallel()
	cluster := brokers.Cluster(t)
	stream := brokers.Stream(t, cluster[0].URL(), brokers.Settings(3))
	var servers []string
	for _, s := range cluster {
		servers = append(servers, s.URL())
	}
	rail := open(t, 3, servers...)
	want(t, "with all", sends(t, rail, message()), payment.ResultAccepted)
	answer := known(t, func() rails.Result { return ask(t, rail, message()) })
	want(t, "one that was not sent", answer, payment.ResultNotFound)
	cluster[1].End()
	cluster[2].End()
	var doubt []rails.Send
	for range 3 {
		send := message()
		want(t, "without a majority", rails.SendSafely(t.Context(), rail, send), payment.ResultUnknown,
			payment.ResultNotSent)
		doubt = append(doubt, send)
	}
	cluster[1].Begin(t)
	cluster[2].Begin(t)
	deadline := time.Now().Add(2 * time.Minute)
	for _, send := range doubt {
		got := rails.SendSafely(t.Context(), rail, again(send))
		for got.Result != payment.ResultAccepted && time.Now().Before(deadline) {
			want(t, "until there is a leader", got, payment.ResultUnknown, payment.ResultNotSent)
			got = rails.SendSafely(t.Context(), rail, again(send))
		}
		want(t, "with a leader", got, payment.ResultAccepted)
	}
	counted(t, "in the end", stream, 4)
}

// TestMappedSubject tests a server that maps the subjects of payments to one subject: that there is a
// message already does not prove that it is ours.
func TestMappedSubject(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, nil)
	settings := brokers.Settings(1)
	settings.Subjects = []string{"payments.>", "all"}
	stream := brokers.Stream(t, s.URL(), settings)
	if err := s.MapSubject("payments.*.*", "all"); err != nil {
		t.Fatal(err)
	}
	rail := open(t, 1, s.URL())
	rails.SendSafely(t.Context(), rail, message())
	want(t, "the second payment", rails.SendSafely(t.Context(), rail, message()), payment.ResultUnknown)
	counted(t, "in the end", stream, 1)
}

// TestRealSettings tests that a real stream with settings that lose messages is refused.
func TestRealSettings(t *testing.T) {
	t.Parallel()
	s := brokers.Start(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	for name, edit := range map[string]func(*jetstream.StreamConfig){
		"memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"work queue":   func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"a window":     func(c *jetstream.StreamConfig) { c.Duplicates = time.Second },
		"an age":       func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"discards old": func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false },
		"transforms": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "payments.>", Destination: "moved.>"}
		},
		"no acks": func(c *jetstream.StreamConfig) { c.NoAck = true },
		"rollups": func(c *jetstream.StreamConfig) { c.AllowRollup = true },
	} {
		settings := brokers.Settings(1)
		edit(&settings)
		stream := brokers.Stream(t, s.URL(), settings)
		want(t, name, rails.SendSafely(t.Context(), open(t, 1, s.URL()), message()), payment.ResultRefusedRail)
		counted(t, name, stream, 0)
		brokers.Delete(t, s.URL(), "PAYMENTS")
	}
}
