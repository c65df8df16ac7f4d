package kafka_test

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/rails/railtest"
	"github.com/railhead-pay/railhead/rails/secret"
)

const (
	password = "password-7f3e91c0ffee"
	payload  = `{"event": "created", "id": 7}`
)

func getenv(name string) string { return map[string]string{"KAFKA_PASSWORD": password}[name] }

func ref(t testing.TB, text string) (r secret.Ref) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

func profile() rails.Profile {
	return rails.Profile{
		RailType: "events", Kind: rails.KindMessage, Headers: []string{"x-tenant"},
		Policy: payment.Policy{
			Acceptance: payment.AcceptanceFinal, ResendOnUnknown: payment.ResendNever, IDAfterRefusal: payment.IDSame,
			RefusesBeforeProcessing: true,
		},
	}.WithDefaults()
}

func config(t testing.TB, address string) kafka.Config {
	return kafka.Config{
		Servers: []string{address}, AllowPlaintext: true, Mechanism: "PLAIN", User: "rail",
		Password: ref(t, "env:KAFKA_PASSWORD"), Topic: "payments", Partitions: 4,
	}
}

func open(t testing.TB, config kafka.Config, profile rails.Profile) *kafka.Rail {
	t.Helper()
	rail, err := kafka.Open(config, profile, getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rail.Close(); err != nil {
			t.Error(err)
		}
	})
	return rail
}

func message() rails.Send {
	id := payment.NewID()
	return rails.Send{
		OutboxID: id, RailKey: payment.RailKey(id), InstructionID: "instr-1", ParticipantID: "bank a.b", SendNo: 1,
		Payload: []byte(payload), Headers: map[string]string{"x-tenant": "t1"},
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// once makes one send by a rail of its own.
func once(t *testing.T, config kafka.Config, send rails.Send) rails.Result {
	t.Helper()
	return rails.SendSafely(t.Context(), open(t, config, profile()), send)
}

func TestConformance(t *testing.T) {
	railtest.Run(t, railtest.Subject{
		Witness: witness{},
		Open: func(t testing.TB, address string, profile rails.Profile) rails.Rail {
			t.Helper()
			rail, err := kafka.Open(config(t, address), profile, getenv)
			if err != nil {
				t.Fatal(err)
			}
			return rail
		},
		Profile: profile(), Send: message(),
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
		Secrets: []string{password},
	})
}

// TestRecord tests each byte of what is sent that a consumer relies on.
func TestRecord(t *testing.T) {
	t.Parallel()
	b := witness{}.broker(t, func(c *client) { c.Say(railtest.Answer{}) })
	send := message()
	send.Headers["railhead-rail-key"], send.Headers["traceparent"] = "forged", "forged"
	got := once(t, config(t, b.Address()), send)
	railtest.Want(t, got, payment.ResultAccepted, true)
	c := b.all()[0]
	partition := c.request.Topics[0].Partitions[0]
	if want := fmt.Sprintf("payments/%d/41", partition.Partition); got.Reference != want {
		t.Errorf("reference %q, want %q", got.Reference, want)
	}
	if c.request.Acks != -1 || c.request.TransactionID != nil || len(c.request.Topics) != 1 {
		t.Errorf("acks %d, transaction %v, %d topics", c.request.Acks, c.request.TransactionID, len(c.request.Topics))
	}
	batch := c.batch
	if sum := crc32.Checksum(partition.Records[21:], crc32.MakeTable(crc32.Castagnoli)); int32(sum) != batch.CRC ||
		int(batch.Length) != len(partition.Records)-12 || batch.NumRecords != 1 || batch.Magic != 2 {
		t.Errorf("the batch %+v has checksum %d and %d bytes", batch, sum, len(partition.Records))
	}
	if batch.ProducerID != -1 || batch.ProducerEpoch != -1 || batch.FirstTimestamp != -1 || batch.Attributes != 0 {
		t.Errorf("the batch has a producer, a time, or attributes: %+v", batch)
	}
	if string(c.record.Key) != "bank a.b" || string(c.record.Value) != payload {
		t.Errorf("key %q, value %q", c.record.Key, c.record.Value)
	}
	if int(c.record.Length) != len(c.record.AppendTo(nil))-len(kmsgVarint(c.record.Length)) {
		t.Errorf("the record's length is %d", c.record.Length)
	}
	var headers []string
	for _, header := range c.record.Headers {
		headers = append(headers, header.Key+"="+string(header.Value))
	}
	want := "content-type=application/json railhead-instruction-id=instr-1 railhead-participant-id=bank a.b " +
		"railhead-rail-key=" + send.RailKey + " railhead-schema-version=1 traceparent=" + send.TraceParent + " x-tenant=t1"
	if joined := strings.Join(headers, " "); joined != want {
		t.Errorf("headers\n%s, want\n%s", joined, want)
	}
}

func kmsgVarint(n int32) []byte {
	record := kmsg.NewRecord()
	empty := len(record.AppendTo(nil))
	record.Length = n
	return make([]byte, len(record.AppendTo(nil))-empty+1)
}

// TestPartitions tests the partitions of keys against those of Kafka's own producers: the hashes are
// those of its test UtilsTest.testMurmur2.
func TestPartitions(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		b := witness{partitions: 997}.broker(t, func(c *client) { c.Say(railtest.Answer{}) })
		many := config(t, b.Address())
		many.Partitions = 997
		send := message()
		send.ParticipantID = key
		railtest.Want(t, once(t, many, send), payment.ResultAccepted, true)
		if got, want := b.all()[0].request.Topics[0].Partitions[0].Partition, (hash&0x7fffffff)%997; got != want {
			t.Errorf("%s is in partition %d, want %d", key, got, want)
		}
	}
}

// TestErrors tests what each error of Kafka proves: UNKNOWN, but for those that come before the
// append alone.
func TestErrors(t *testing.T) {
	t.Parallel()
	want := map[int]payment.Result{
		10: payment.ResultRefusedRail, 17: payment.ResultRefusedRail, 18: payment.ResultRefusedRail,
		29: payment.ResultRefusedRail, 87: payment.ResultRefusedRail, 19: payment.ResultRefusedLater,
	}
	code := 0
	b := witness{}.broker(t, func(c *client) { c.Say(railtest.Answer{Status: code}) })
	rail := open(t, config(t, b.Address()), profile())
	for code = -1; code <= 140; code++ {
		expected, refusal := want[code]
		switch {
		case code == 0:
			expected = payment.ResultAccepted
		case !refusal:
			expected = payment.ResultUnknown
		}
		if got := rail.Send(t.Context(), message()); got.Result != expected || !got.FirstByte {
			t.Errorf("error %d: %+v, want %s", code, got, expected)
		}
	}
}

// TestAnswersProveNothing tests that what is not the acknowledgement of our record is UNKNOWN, at
// every byte at which an answer may end.
func TestAnswersProveNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*client, *kmsg.ProduceResponse){
		"no topic":        func(_ *client, a *kmsg.ProduceResponse) { a.Topics = nil },
		"two topics":      func(_ *client, a *kmsg.ProduceResponse) { a.Topics = append(a.Topics, a.Topics[0]) },
		"other letters":   func(_ *client, a *kmsg.ProduceResponse) { a.Topics[0].Topic = "Payments" },
		"no partition":    func(_ *client, a *kmsg.ProduceResponse) { a.Topics[0].Partitions = nil },
		"other partition": func(_ *client, a *kmsg.ProduceResponse) { a.Topics[0].Partitions[0].Partition++ },
		"no offset":       func(_ *client, a *kmsg.ProduceResponse) { a.Topics[0].Partitions[0].BaseOffset = -1 },
		"another request": func(c *client, _ *kmsg.ProduceResponse) { c.number-- },
		"another version": func(_ *client, a *kmsg.ProduceResponse) { a.Version-- },
	} {
		b := witness{}.broker(t, func(c *client) {
			answer := c.acknowledgement()
			change(c, answer)
			c.answer(answer)
		})
		if got := once(t, config(t, b.Address()), message()); got.Result != payment.ResultUnknown || !got.FirstByte {
			t.Errorf("%s: %+v", name, got)
		}
	}
	longer := witness{}.broker(t, func(c *client) {
		whole := append(c.bytes(c.acknowledgement()), 0)
		whole[3]++ // the size
		_, _ = c.Write(whole)
	})
	railtest.Want(t, once(t, config(t, longer.Address()), message()), payment.ResultUnknown, true)
	size := 0
	for cut := 0; cut == 0 || cut <= size; cut++ {
		b := witness{}.broker(t, func(c *client) {
			whole := c.bytes(c.acknowledgement())
			size = len(whole)
			_, _ = c.Write(whole[:min(cut, size)])
			c.Close()
		})
		got := once(t, config(t, b.Address()), message())
		if cut > 0 && cut == size {
			railtest.Want(t, got, payment.ResultAccepted, true)
			return
		}
		railtest.Want(t, got, payment.ResultUnknown, true)
		b.Close()
	}
}

// TestUnfitTopics tests that a topic that loses records or hides them gets none.
func TestUnfitTopics(t *testing.T) {
	t.Parallel()
	faults := []struct {
		topic witness
		says  string
	}{
		{witness{partitions: 5}, "5 partitions"}, {witness{replicas: 2}, "2 replicas"},
	}
	for name, value := range map[string]string{
		"cleanup.policy": "compact,delete", "flush.messages": "100", "max.message.bytes": "327679",
		"message.timestamp.type": "CreateTime",
		"min.insync.replicas":    "1", "retention.bytes": "1000000", "retention.ms": "604800000",
		"segment.bytes": "327679", "unclean.leader.election.enable": "true",
	} {
		faults = append(faults, struct {
			topic witness
			says  string
		}{witness{settings: map[string]string{name: value}}, name + ` is "` + value}, struct {
			topic witness
			says  string
		}{witness{settings: map[string]string{name: ""}}, "does not show " + name})
	}
	for _, name := range []string{"flush.messages", "unclean.leader.election.enable", "cleanup.policy", "retention.ms",
		"retention.bytes"} {
		faults = append(faults, struct {
			topic witness
			says  string
		}{witness{inherited: name}, "by a default"})
	}
	for _, fault := range faults {
		b := fault.topic.broker(t, never(t, "a record was sent"))
		got := once(t, config(t, b.Address()), message())
		railtest.Want(t, got, payment.ResultRefusedRail, false)
		if !strings.Contains(got.Message, fault.says) {
			t.Errorf("%q does not say %q", got.Message, fault.says)
		}
	}
	b := witness{settings: map[string]string{"retention.ms": "604800000"}}.broker(t, func(c *client) {
		c.Say(railtest.Answer{})
	})
	kept := config(t, b.Address())
	kept.KeepsFor = payment.Duration(168 * time.Hour)
	railtest.Want(t, once(t, kept, message()), payment.ResultAccepted, true)
	kept.KeepsFor++
	kept.KeepsFor += payment.Duration(time.Millisecond)
	railtest.Want(t, once(t, kept, message()), payment.ResultRefusedRail, false)
	lazy := config(t, accepts(t, witness{settings: map[string]string{"flush.messages": "100"}}).Address())
	lazy.Unflushed = true
	railtest.Want(t, once(t, lazy, message()), payment.ResultAccepted, true)
}

// TestTopicIsLookedAtAgain tests that a topic whose settings have changed is refused as soon as its broker was
// connected to again.
func TestTopicIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"cleanup.policy": "compact", "retention.ms": "3600000", "retention.bytes": "1000000",
	} {
		settings := map[string]string{}
		b := witness{settings: settings}.broker(t, func(c *client) {
			c.Say(railtest.Answer{})
			c.broker.mu.Lock()
			settings[name] = value
			c.broker.mu.Unlock()
			c.Cut()
		})
		rail := open(t, config(t, b.Address()), profile())
		railtest.Want(t, rails.SendSafely(t.Context(), rail, message()), payment.ResultAccepted, true)
		got := rails.SendSafely(t.Context(), rail, message())
		railtest.Want(t, got, payment.ResultRefusedRail, false)
		if !strings.Contains(got.Message, name+` is "`+value) {
			t.Errorf("%q does not name %s", got.Message, name)
		}
	}
}

// TestPartitionWentBack tests a partition that gives an offset for the second time: what it says is stored
// is stored, and the rail is refused from then on, since payments are lost.
func TestPartitionWentBack(t *testing.T) {
	t.Parallel()
	for _, again := range []int64{12, 4711} {
		offset := int64(4711)
		b := witness{}.broker(t, func(c *client) {
			ack := c.acknowledgement()
			ack.Topics[0].Partitions[0].BaseOffset, offset = offset, again
			c.answer(ack)
		})
		rail := open(t, config(t, b.Address()), profile())
		for _, loss := range []string{"", fmt.Sprintf("went back from 4711 to %d", again)} {
			got := rail.Send(t.Context(), message())
			railtest.Want(t, got, payment.ResultAccepted, true)
			if !strings.Contains(got.Loss, loss) || (loss == "") != (got.Loss == "") {
				t.Errorf("found lost: %q, want %q", got.Loss, loss)
			}
		}
		for _, participant := range []string{"bank a.b", "another", "a third"} {
			send := message()
			send.ParticipantID = participant
			got := rail.Send(t.Context(), send)
			railtest.Want(t, got, payment.ResultRefusedRail, false)
			if !strings.Contains(got.Message, fmt.Sprintf("went back from 4711 to %d", again)) {
				t.Errorf("%q does not say what was lost", got.Message)
			}
		}
		heir := open(t, config(t, b.Address()), profile())
		heir.Inherit(rail)
		railtest.Want(t, heir.Send(t.Context(), message()), payment.ResultRefusedRail, false)
		elsewhere := config(t, b.Address())
		elsewhere.Servers = append(elsewhere.Servers, "kafka://127.0.0.1:1")
		other := open(t, elsewhere, profile())
		other.Inherit(rail)
		railtest.Want(t, other.Send(t.Context(), message()), payment.ResultAccepted, true)
		railtest.Want(t, once(t, config(t, b.Address()), message()), payment.ResultAccepted, true) // another process
	}
}

// TestAcknowledgementsCross tests two records under way at once, of which the later one is acknowledged
// first: the partition has not gone back.
func TestAcknowledgementsCross(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}), make(chan struct{})
	b := witness{}.broker(t, func(c *client) {
		ack := c.acknowledgement()
		if ack.Topics[0].Partitions[0].BaseOffset == 41 {
			close(arrived)
			<-over
		}
		c.answer(ack)
	})
	rail, first := open(t, config(t, b.Address()), profile()), make(chan rails.Result, 1)
	go func() { first <- rail.Send(t.Context(), message()) }()
	<-arrived
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	close(over)
	railtest.Want(t, <-first, payment.ResultAccepted, true)
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
}

// TestNothingArrivesLate tests a broker that does not read: when the call has ended, what its
// connection had not delivered is not delivered later, when an operator may have sent it again.
func TestNothingArrivesLate(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	b := witness{}.broker(t, never(t, "the record arrived after the call"))
	b.mu.Lock()
	b.looked = func() { <-over }
	b.mu.Unlock()
	send, facts := message(), profile()
	send.Payload = []byte(`"` + strings.Repeat("x", 250<<10) + `"`)
	short := payment.Duration(200 * time.Millisecond)
	facts.Timeouts.Write, facts.Timeouts.ResponseHeader, facts.Timeouts.Body = short, short, short
	got := rails.SendSafely(t.Context(), open(t, config(t, b.Address()), facts), send)
	railtest.Want(t, got, payment.ResultUnknown, true)
	close(over)
	err := await.Until(t.Context(), time.Minute, "every connection has ended", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.serving == 0, nil
	})
	if err != nil {
		t.Error(err)
	}
}
