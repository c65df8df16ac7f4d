package kafka_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// accepts is a broker that acknowledges each record.
func accepts(t *testing.T, facts witness) *broker {
	t.Helper()
	return facts.broker(t, func(c *client) { c.Say(railtest.Answer{}) })
}

// never is a broker that must get no record.
func never(t *testing.T, says string) func(*client) {
	return func(c *client) {
		t.Error(says)
		c.Cut()
	}
}

// everywhere has a broker lead each partition.
func everywhere(leader *broker) map[int32]string {
	leads := map[int32]string{}
	for n := range int32(4) {
		leads[n] = leader.Address()
	}
	return leads
}

// silent is a broker that takes connections and says nothing, as one that was stopped does.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return "kafka://" + listener.Addr().String()
}

// quick is a profile with a second to connect.
func quick() rails.Profile {
	facts := profile()
	facts.Timeouts.Connect = payment.Duration(800 * time.Millisecond)
	facts.Timeouts.TLS = payment.Duration(200 * time.Millisecond)
	return facts
}

// TestLeader tests that a record goes to the broker that leads its partition, and to no other.
func TestLeader(t *testing.T) {
	t.Parallel()
	leads := accepts(t, witness{})
	follows := witness{leaders: everywhere(leads)}.broker(t, never(t, "a follower has it"))
	rail := open(t, config(t, follows.Address()), profile())
	for range 3 {
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	}
	if n := leads.Asked(); n != 3 {
		t.Errorf("the leader has %d records, want 3", n)
	}
	if leads.logins != 1 || follows.logins != 1 {
		t.Errorf("%d and %d logins, want one each", leads.logins, follows.logins)
	}
}

// TestBrokersDisagree tests brokers of which each names another one as the leader: no record leaves.
func TestBrokersDisagree(t *testing.T) {
	t.Parallel()
	second := witness{}.broker(t, never(t, "a record was sent"))
	first := witness{leaders: everywhere(second)}.broker(t, never(t, "a record was sent"))
	second.mu.Lock()
	second.facts.leaders = everywhere(first)
	second.mu.Unlock()
	railtest.Want(t, once(t, config(t, first.Address()), message()), payment.ResultNotSent, false)
}

// TestBrokersThatAreDead tests that a broker that is down or silent stops the partitions that it leads,
// and that the adapter still sends to the others.
func TestBrokersThatAreDead(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]string{"down": witness{}.Nowhere(t), "silent": silent(t)} {
		alive := accepts(t, witness{})
		c := config(t, dead)
		c.Servers = append(c.Servers, alive.Address())
		rail, ours := open(t, c, quick()), message()
		railtest.Want(t, rail.Send(t.Context(), ours), payment.ResultAccepted, true)
		led := alive.all()[0].request.Topics[0].Partitions[0].Partition
		alive.mu.Lock()
		alive.facts.leaders = map[int32]string{led: dead}
		alive.mu.Unlock()
		railtest.Want(t, rail.Send(t.Context(), ours), payment.ResultNotSent, false)
		others := 0
		for n := range 20 {
			send := message()
			send.ParticipantID = fmt.Sprintf("participant-%d", n)
			switch got := rail.Send(t.Context(), send); got.Result {
			case payment.ResultAccepted:
				others++
			case payment.ResultNotSent:
			default:
				t.Errorf("%s: %+v", name, got)
			}
			if others == 5 {
				break
			}
		}
		if others < 5 {
			t.Errorf("%s: the other partitions took %d records", name, others)
		}
	}
}

// TestOneBrokerRefuses tests that the rail is refused by all brokers that answer, or not at all.
func TestOneBrokerRefuses(t *testing.T) {
	t.Parallel()
	alive := accepts(t, witness{})
	unfit := witness{settings: map[string]string{"cleanup.policy": "compact"}}
	for name, facts := range map[string]witness{
		"a login": {refuses: true, leaders: everywhere(alive)}, "the topic": {settings: unfit.settings},
		"a partition": {partitions: 5},
	} {
		refuses := facts.broker(t, never(t, name+": a record was sent"))
		alone := config(t, refuses.Address())
		railtest.Want(t, once(t, alone, message()), payment.ResultRefusedRail, false)
		alone.Servers = append(alone.Servers, witness{}.Nowhere(t))
		railtest.Want(t, once(t, alone, message()), payment.ResultRefusedRail, false)
		both := config(t, refuses.Address())
		both.Servers = append(both.Servers, alive.Address())
		railtest.Want(t, once(t, both, message()), payment.ResultAccepted, true)
		// The other broker answers, and names the first one as the leader: it can't be known what others say.
		points := witness{leaders: everywhere(refuses)}.broker(t, never(t, name+": a record was sent"))
		both.Servers[1] = points.Address()
		railtest.Want(t, once(t, both, message()), payment.ResultNotSent, false)
	}
}

// TestTopicIsNotKnownYet tests that a broker which does not know the topic, as one that has just
// started, is asked again: the rail is not refused.
func TestTopicIsNotKnownYet(t *testing.T) {
	t.Parallel()
	for name, facts := range map[string]witness{
		"the topic": {topicErrors: []int16{3, 5}}, "its settings": {settingsErrors: []int16{3, 3}},
	} {
		rail := open(t, config(t, accepts(t, facts).Address()), profile())
		for range 2 {
			got := rail.Send(t.Context(), message())
			railtest.Want(t, got, payment.ResultNotSent, false)
			if !strings.Contains(got.Message, "UNKNOWN_TOPIC_OR_PARTITION") && !strings.Contains(got.Message, "LEADER_NOT") {
				t.Errorf("%s: %q names no error", name, got.Message)
			}
		}
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	}
}

// TestVersions tests that a broker which does not take our versions of the requests gets none.
func TestVersions(t *testing.T) {
	t.Parallel()
	for says, versions := range map[string]map[kmsg.Key][2]int16{
		"Produce in version 8":         {kmsg.Produce: {0, 7}},
		"Metadata in version 7":        {kmsg.Metadata: {8, 13}},
		"DescribeConfigs in version 1": {kmsg.DescribeConfigs: {0, 0}},
		"SASLAuthenticate in":          {kmsg.SASLAuthenticate: {0, 0}},
	} {
		b := witness{versions: versions}.broker(t, never(t, "a record was sent"))
		got := once(t, config(t, b.Address()), message())
		railtest.Want(t, got, payment.ResultRefusedRail, false)
		if !strings.Contains(got.Message, says) || strings.Contains(b.Heard(), password) {
			t.Errorf("%q does not say %q, or the password was sent", got.Message, says)
		}
	}
}

// TestUnknownSaysWhere tests that what is known of a record in doubt is told: an operator has to find
// it, or the broker that could still append it. A refusal may come to be in doubt too.
func TestUnknownSaysWhere(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]railtest.Answer{
		"a cut": {}, "an error with much text": {Status: 7, Body: strings.Repeat("x ", 10_000)},
		"a refusal of the rail": {Status: 29}, "a refusal for now": {Status: 19},
	} {
		b, before := witness{}.broker(t, func(c *client) {
			if answer.Status == 0 {
				c.Cut()
				return
			}
			c.Say(answer)
		}), time.Now().Truncate(time.Millisecond)
		send := message()
		send.Payload = []byte(`{"for": "payments of topic 0 written to broker 7 by partition"}`)
		got := rails.Redact(once(t, config(t, b.Address()), send), send.Payload)
		if got.Result == payment.ResultAccepted || !got.FirstByte {
			t.Errorf("%s: %+v", name, got)
		}
		where, rest, _ := strings.Cut(got.Message, ", at ")
		want := fmt.Sprintf("sent to the leader of partition %d of topic payments, broker 7",
			b.all()[0].request.Topics[0].Partitions[0].Partition)
		moment, _, _ := strings.Cut(rest, ": ")
		at, err := time.Parse(time.RFC3339, moment)
		if where != want || err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s: %.200q (%v)", name, got.Message, err)
		}
	}
}

// TestCheck tests that what makes no record of the topic is refused before it is sent.
func TestCheck(t *testing.T) {
	t.Parallel()
	rail := open(t, config(t, "kafka://127.0.0.1:9"), profile())
	for field, change := range map[string]func(*rails.Send){
		"payload":        func(s *rails.Send) { s.Payload = make([]byte, 256<<10+1) },
		"participant_id": func(s *rails.Send) { s.ParticipantID = strings.Repeat("p", 1<<10+1) },
		"headers": func(s *rails.Send) {
			s.Payload = make([]byte, 256<<10)
			s.Headers = map[string]string{"x-tenant": strings.Repeat("t", 64<<10)}
		},
	} {
		send := message()
		if err := rail.Check(send); err != nil {
			t.Fatal(err)
		}
		change(&send)
		if err := rail.Check(send); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
		railtest.Want(t, rail.Send(t.Context(), send), payment.ResultNotSent, false)
	}
}

// TestLogin tests that a broker that refuses the login gets nothing more.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := witness{}.broker(t, never(t, "a record was sent"))
	wrong := config(t, b.Address())
	wrong.User = "another"
	railtest.Want(t, once(t, wrong, message()), payment.ResultRefusedRail, false)
}
