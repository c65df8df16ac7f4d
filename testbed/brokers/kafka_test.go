package brokers_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/rails/railtest"
	"github.com/railhead-pay/railhead/rails/secret"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// These tests show how the adapter works with franz-go's kfake: each line of theirs says kafka=fake. None has run on
// a real Kafka.

func topicProfile() rails.Profile {
	p := rails.Profile{
		RailType: "events", Kind: rails.KindMessage,
		Policy: payment.Policy{
			Acceptance: payment.AcceptanceFinal, ResendOnUnknown: payment.ResendNever, IDAfterRefusal: payment.IDSame,
			RefusesBeforeProcessing: true,
		},
	}.WithDefaults()
	second := payment.Duration(5 * time.Second)
	p.Timeouts = rails.Timeouts{Connect: second, TLS: second, Write: second, ResponseHeader: second, Body: second}
	return p
}

func topic(servers ...string) kafka.Config {
	return kafka.Config{
		Servers: servers, AllowPlaintext: true, Topic: brokers.Topic, Partitions: brokers.TopicPartitions, Replicas: 1,
	}
}

func openTopic(t testing.TB, config kafka.Config, profile rails.Profile) *kafka.Rail {
	t.Helper()
	rail, err := kafka.Open(config, profile, func(string) string { return "a password" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rail.Close() })
	return rail
}

// records counts those of the topic by their rail keys.
func records(t *testing.T, address string) map[string]int {
	t.Helper()
	counted := map[string]int{}
	err := brokers.Records(t.Context(), strings.TrimPrefix(address, "kafka://"), func(record *kgo.Record) {
		for _, header := range record.Headers {
			if header.Key == "railhead-rail-key" {
				counted[string(header.Value)]++
			}
		}
	})
	if err != nil {
		t.Fatal("kafka=fake: ", err)
	}
	return counted
}

// TestKafkaConformance runs the adapter suite on the fake.
func TestKafkaConformance(t *testing.T) {
	railtest.Run(t, railtest.Subject{
		Witness: kafkaWitness{},
		Open: func(t testing.TB, address string, profile rails.Profile) rails.Rail {
			t.Helper()
			rail, err := kafka.Open(topic(address), profile, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			return rail
		},
		Profile: topicProfile(), Send: message(),
		Sends: map[payment.Result]railtest.Answer{
			payment.ResultAccepted:     {},
			payment.ResultUnknown:      {Status: 7},
			payment.ResultRefusedLater: {Status: 19},
			payment.ResultRefusedRail:  {Status: 29},
		},
		OtherPayment: railtest.Answer{Body: "topic other"},
		UnmappedCode: railtest.Answer{Status: 9999},
		Remark:       func(text string) railtest.Answer { return railtest.Answer{Status: -1, Body: text} },
		Without: map[string]string{
			"REFUSED_TRANSIENT": "too few replicas are the only refusal for now, and last: REFUSED_LATER",
			"REFUSED_FINAL":     "a topic judges no payment",
			"REFUSED_BUSINESS":  "a topic knows no funds",
		},
	})
}

// TestKafkaLostAcknowledgement tests a record whose acknowledgement is lost: its outcome is unknown, and the topic has
// it once, since nothing is sent again.
func TestKafkaLostAcknowledgement(t *testing.T) {
	t.Parallel()
	_, proxy := brokers.StartKafkaBehind(t)
	rail, send := openTopic(t, topic(proxy.URL()), topicProfile()), message()
	want(t, "kafka=fake: before", rails.SendSafely(t.Context(), rail, message()), payment.ResultAccepted)
	proxy.LoseAcks(true)
	want(t, "kafka=fake: a lost acknowledgement", rails.SendSafely(t.Context(), rail, send), payment.ResultUnknown)
	proxy.LoseAcks(false)
	if err := await.Until(t.Context(), time.Minute, "the record to arrive", func() (bool, error) {
		return records(t, proxy.URL())[send.RailKey] > 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	want(t, "kafka=fake: the next", rails.SendSafely(t.Context(), rail, message()), payment.ResultAccepted)
	if n := records(t, proxy.URL())[send.RailKey]; n != 1 {
		t.Errorf("kafka=fake: the topic has it %d times", n)
	}
}

// TestKafkaStartsAgain tests that a fake which is cut off and started again on its log has what it acknowledged, and
// that the rail goes on.
func TestKafkaStartsAgain(t *testing.T) {
	t.Parallel()
	fake := brokers.StartKafka(t, 1)
	rail, first := openTopic(t, topic(fake.URLs()...), topicProfile()), message()
	want(t, "kafka=fake: the first", rails.SendSafely(t.Context(), rail, first), payment.ResultAccepted)
	at := fake.URLs()[0]
	fake.End()
	want(t, "kafka=fake: while it is cut off", rails.SendSafely(t.Context(), rail, message()), payment.ResultNotSent)
	fake.Begin(t)
	second := message()
	want(t, "kafka=fake: the second", rails.SendSafely(t.Context(), rail, second), payment.ResultAccepted)
	if all := records(t, at); len(all) != 2 || all[first.RailKey] != 1 || all[second.RailKey] != 1 {
		t.Errorf("kafka=fake: the topic has %v", all)
	}
}

// TestKafkaLeaderMoves tests partitions whose leaders change: each record reaches the leader, and no other broker.
func TestKafkaLeaderMoves(t *testing.T) {
	t.Parallel()
	fake := brokers.StartKafka(t, 3)
	rail := openTopic(t, topic(fake.URLs()...), topicProfile())
	for n := range 24 {
		for partition := range int32(brokers.TopicPartitions) {
			fake.Lead(t, partition, (fake.Leader(partition)+1)%3)
		}
		send := message()
		send.ParticipantID = fmt.Sprintf("participant-%d", n)
		want(t, "kafka=fake: after a move", rails.SendSafely(t.Context(), rail, send), payment.ResultAccepted)
	}
	if all := records(t, fake.URLs()[0]); len(all) != 24 {
		t.Errorf("kafka=fake: the topic has %d records", len(all))
	}
}

// TestKafkaLogin tests each mechanism, with the password and with another: the fake then ends the connection, where
// Kafka answers with an error first.
func TestKafkaLogin(t *testing.T) {
	t.Parallel()
	var password secret.Ref
	if err := password.UnmarshalText([]byte("env:PASSWORD")); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for theirs, result := range map[string]payment.Result{
			"a password": payment.ResultAccepted, "another": payment.ResultNotSent,
		} {
			fake := brokers.StartKafka(t, 1, kfake.EnableSASL(), kfake.Superuser(mechanism, "rail", theirs))
			config := topic(fake.URLs()...)
			config.Mechanism, config.User, config.Password = mechanism, "rail", password
			got := rails.SendSafely(t.Context(), openTopic(t, config, topicProfile()), message())
			want(t, "kafka=fake: "+mechanism+" with "+theirs, got, result)
		}
	}
}

// TestKafkaTLS tests that a record goes to brokers alone whose certificates are trusted. Another one pauses the rail
// only if it lasts, which the adapter's own tests hold.
func TestKafkaTLS(t *testing.T) {
	t.Parallel()
	theirs := httptest.NewTLSServer(nil) // for its certificate
	defer theirs.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: theirs.Certificate().Raw}))
	fake := brokers.StartKafka(t, 1, kfake.TLS(&tls.Config{Certificates: theirs.TLS.Certificates}))
	for name, result := range map[string]payment.Result{
		"env:CA": payment.ResultAccepted, "": payment.ResultNotSent,
	} {
		config := topic(strings.Replace(fake.URLs()[0], "kafka://", "tls://", 1))
		config.AllowPlaintext = false
		if err := config.TLS.CA.UnmarshalText([]byte(name)); name != "" && err != nil {
			t.Fatal(err)
		}
		rail, err := kafka.Open(config, topicProfile(), func(string) string { return ca })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rail.Close() })
		want(t, "kafka=fake: with the CA "+name, rails.SendSafely(t.Context(), rail, message()), result)
	}
}
