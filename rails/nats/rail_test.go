package nats_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/railtest"
	"github.com/railhead-pay/railhead/rails/secret"
)

const token = "token-7f3e91c0ffee"

func getenv(name string) string { return map[string]string{"NATS_TOKEN": token}[name] }

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
			ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour),
			Inquiry: payment.InquiryPolicy{Max: 5, NotFound: payment.NotFoundInconclusive},
		},
	}.WithDefaults()
}

func config(t testing.TB, address string) nats.Config {
	return nats.Config{
		Servers: []string{address}, AllowPlaintext: true, Token: ref(t, "env:NATS_TOKEN"),
		Stream: "PAYMENTS", Subject: "payments.{participant_id}.{rail_key}",
	}
}

func open(t testing.TB, config nats.Config, profile rails.Profile) rails.Rail {
	t.Helper()
	rail, err := nats.Open(config, profile, getenv)
	if err != nil {
		t.Fatal(err)
	}
	return rail
}

const payload = `{"event": "created", "id": 7}`

func message() rails.Send {
	id := payment.NewID()
	return rails.Send{
		OutboxID: id, RailKey: payment.RailKey(id), InstructionID: "instr-1", ParticipantID: "bank a.b", SendNo: 1,
		Payload: []byte(payload), Headers: map[string]string{"x-tenant": "t1"},
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func subject() railtest.Subject {
	stored := `{"message":{"subject":"payments.bank=20a=2Eb.{rail_key}","seq":7,"hdrs":"{hdrs}","data":"` +
		base64.StdEncoding.EncodeToString([]byte(payload)) + `"}}`
	return railtest.Subject{
		Witness: witness{stream: fit},
		Open: func(t testing.TB, address string, profile rails.Profile) rails.Rail {
			return open(t, config(t, address), profile)
		},
		Profile: profile(), Send: message(),
		Sends: map[payment.Result]railtest.Answer{
			payment.ResultAccepted: {Body: `{"stream":"PAYMENTS","seq":{seq}}`},
			payment.ResultUnknown:  {Body: `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`},
		},
		Inquiries: map[payment.Result]railtest.Answer{
			payment.ResultExecuted:    {Body: stored},
			payment.ResultNotFound:    {Body: `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`},
			payment.ResultUnavailable: {Body: `{"error":{"code":503,"err_code":10008,"description":"unavailable"}}`},
		},
		OtherPayment: railtest.Answer{Body: `{"stream":"OTHER","seq":{seq}}`},
		Remark: func(text string) railtest.Answer {
			quoted, _ := json.Marshal(text) // a string can always be written
			return railtest.Answer{Body: `{"error":{"code":500,"err_code":10000,"description":` + string(quoted) + `}}`}
		},
		Without: map[string]string{
			"REFUSED_FINAL":     "a stream may report an error after it has stored the message",
			"REFUSED_TRANSIENT": "the same", "REFUSED_LATER": "the same", "REFUSED_BUSINESS": "a stream knows no funds",
			"REFUSED_RAIL": "no answer is one, an error in its place may be: TestErrorInPlaceOfAnAnswer, TestUnfitStreams",
			"REFUSED":      "a stream keeps no refusals", "IN_PROGRESS": "a stream has a message or not",
			"UnmappedCode": "there is no table: each error is UNKNOWN",
		},
		Secrets: []string{token},
	}
}

func TestConformance(t *testing.T) { railtest.Run(t, subject()) }

// TestAnswersProveNothing tests that what is not the acknowledgement of our stream is UNKNOWN, at
// every byte at which an answer may end.
func TestAnswersProveNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]railtest.Answer{
		"no responders": {Status: 503}, "empty": {Body: ""}, "null": {Body: "null"}, "a list": {Body: "[]"}, "no object": {Body: "+OK"},
		"half": {Body: `{"stream":"PAYMENTS","se`}, "two": {Body: `{"stream":"PAYMENTS","seq":7}{}`},
		"no stream": {Body: `{"seq":7}`}, "no sequence": {Body: `{"stream":"PAYMENTS"}`}, "sequence 0": {Body: `{"stream":"PAYMENTS","seq":0}`},
		"negative": {Body: `{"stream":"PAYMENTS","seq":-1}`}, "an error too": {Body: `{"stream":"PAYMENTS","seq":7,"error":{"err_code":10077}}`},
		"other letters": {Body: `{"stream":"payments","seq":7}`},
	} {
		b := witness{stream: fit}.broker(t, func(c *client) {
			if strings.HasPrefix(c.request.subject, "$JS") {
				c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
				return
			}
			c.Say(answer)
		})
		got := once(t, config(t, b.Address()), profile(), message())
		if got.Result != payment.ResultUnknown || !got.FirstByte {
			t.Errorf("%s: %+v", name, got)
		}
	}
	whole := ""
	for cut := 0; ; cut++ {
		b := witness{stream: fit}.broker(t, func(c *client) {
			body := `{"stream":"PAYMENTS","seq":8}`
			whole = fmt.Sprintf("MSG %s 1 %d\r\n%s\r\n", c.request.reply, len(body), body)
			fmt.Fprint(c, whole[:min(cut, len(whole))])
			c.Close()
		})
		got := once(t, config(t, b.Address()), profile(), message())
		if cut > 0 && cut >= len(whole) {
			railtest.Want(t, got, payment.ResultAccepted, true)
			return
		}
		railtest.Want(t, got, payment.ResultUnknown, true)
	}
}

// TestDomains tests that a stream of the same name in another JetStream domain acknowledges nothing,
// whether the domain is configured or is that of the server.
func TestDomains(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		configured, server, answer string
		want                       payment.Result
	}{
		{"", "", "", payment.ResultAccepted},
		{"", "", "leaf", payment.ResultUnknown},
		{"", "hub", "hub", payment.ResultAccepted},
		{"", "hub", "leaf", payment.ResultUnknown},
		{"", "hub", "", payment.ResultUnknown},
		{"hub", "leaf", "hub", payment.ResultAccepted},
		{"hub", "leaf", "leaf", payment.ResultUnknown},
		{"hub", "leaf", "", payment.ResultUnknown},
	} {
		b := witness{stream: fit}.broker(t, func(c *client) {
			c.Say(railtest.Answer{Body: fmt.Sprintf(`{"stream":"PAYMENTS","domain":%q,"seq":{seq}}`, test.answer)})
		})
		b.mu.Lock()
		b.domain = test.server
		b.mu.Unlock()
		facts := config(t, b.Address())
		facts.Domain = test.configured
		if got := once(t, facts, profile(), message()); got.Result != test.want {
			t.Errorf("%+v: %s (%s)", test, got.Result, got.Message)
		}
	}
}

// TestSilentServer tests a server that takes connections and says nothing, and one that greets and
// answers nothing else: the next server has time left, or is the first of the next call.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	fits := witness{stream: fit}.broker(t, func(c *client) { c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`}) })
	greets := witness{stream: fit}.broker(t, func(c *client) {})
	greets.mu.Lock()
	greets.dumb = true
	greets.mu.Unlock()
	facts := profile()
	facts.Timeouts.Connect, facts.Timeouts.TLS = payment.Duration(time.Second), payment.Duration(time.Second)
	for name, test := range map[string]struct {
		first string
		want  []payment.Result
	}{
		"silent": {"nats://" + silent.Addr().String(), []payment.Result{payment.ResultAccepted}},
		"greets": {greets.Address(), []payment.Result{payment.ResultNotSent, payment.ResultAccepted}},
	} {
		both := config(t, test.first)
		both.Servers = append(both.Servers, fits.Address())
		rail := open(t, both, facts)
		for n, want := range test.want {
			if got := rails.SendSafely(t.Context(), rail, message()); got.Result != want {
				t.Errorf("%s, send %d: %s (%s), want %s", name, n+1, got.Result, got.Message, want)
			}
		}
		if err := rail.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusedLogin tests that the rail refuses us only if every server that can be reached does, for
// who we are: another server may let us in, and an error that passes is no refusal.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	refusing := func(why string) string {
		b := witness{stream: fit}.broker(t, func(c *client) {})
		b.mu.Lock()
		b.refuses = why
		b.mu.Unlock()
		return b.Address()
	}
	fits := witness{stream: fit}.broker(t, func(c *client) { c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`}) })
	stranger, full := refusing("Authorization Violation"), refusing("maximum connections exceeded")
	for name, test := range map[string]struct {
		servers []string
		want    payment.Result
	}{
		"a stranger":           {[]string{stranger}, payment.ResultRefusedRail},
		"expired":              {[]string{refusing("User Authentication Expired")}, payment.ResultRefusedRail},
		"full":                 {[]string{full}, payment.ResultNotSent},
		"the other is full":    {[]string{stranger, full}, payment.ResultNotSent},
		"the other is down":    {[]string{stranger, witness{}.Nowhere(t)}, payment.ResultRefusedRail},
		"the other lets us in": {[]string{stranger, fits.Address()}, payment.ResultAccepted},
	} {
		facts := config(t, "")
		facts.Servers = test.servers
		if got := once(t, facts, profile(), message()); got.Result != test.want {
			t.Errorf("%s: %s (%s), want %s", name, got.Result, got.Message, test.want)
		}
	}
}

// once opens a rail, makes one send, and closes it.
func once(t *testing.T, config nats.Config, profile rails.Profile, send rails.Send) rails.Result {
	t.Helper()
	rail := open(t, config, profile)
	defer rail.(interface{ Close() error }).Close()
	return rails.SendSafely(t.Context(), rail, send)
}

// TestNothingArrivesLate tests a server that does not read a message that is larger than its kernel's
// buffer: when the call has ended, what its connection had not delivered is not delivered later. A
// message that fits is not held back: TestWholeMessageArrivesLate.
func TestNothingArrivesLate(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	b := witness{stream: fit}.broker(t, func(c *client) { t.Error("the message arrived after the call") })
	b.mu.Lock()
	b.looked = func() { <-over }
	b.mu.Unlock()
	send, facts := message(), profile()
	send.Payload = []byte(`"` + strings.Repeat("x", 250<<10) + `"`)
	short := payment.Duration(200 * time.Millisecond)
	facts.Timeouts.Write, facts.Timeouts.ResponseHeader, facts.Timeouts.Body = short, short, short
	rail := open(t, config(t, b.Address()), facts)
	got := rails.SendSafely(t.Context(), rail, send)
	railtest.Want(t, got, payment.ResultUnknown, true)
	close(over)
	if err := rail.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
	b.drained(t)
}

// TestWholeMessageArrivesLate tests a server that was held up: it may read a message that its kernel
// had taken after the call has ended without an answer. It has the bytes of every other send, with the
// condition that its subject has no message.
func TestWholeMessageArrivesLate(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	b := witness{stream: fit}.broker(t, func(c *client) {})
	b.mu.Lock()
	b.looked = func() { <-over }
	b.mu.Unlock()
	facts := profile()
	short := payment.Duration(200 * time.Millisecond)
	facts.Timeouts.Write, facts.Timeouts.ResponseHeader, facts.Timeouts.Body = short, short, short
	rail := open(t, config(t, b.Address()), facts)
	railtest.Want(t, rails.SendSafely(t.Context(), rail, message()), payment.ResultUnknown, true)
	close(over)
	if err := rail.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
	b.drained(t)
	late := b.all()
	t.Logf("%d messages arrived after the call", len(late))
	for _, r := range late {
		if !strings.Contains(r.head, "\r\nNats-Expected-Last-Subject-Sequence: 0\r\n") || r.data != payload {
			t.Errorf("%q %q arrived without its condition", r.head, r.data)
		}
	}
}

// TestForgedAnswer tests that an answer to another subject than that of the request under way is
// ignored: another client of the server may guess, or have heard, subjects of earlier ones.
func TestForgedAnswer(t *testing.T) {
	t.Parallel()
	var earlier string
	b := witness{stream: fit}.broker(t, func(c *client) {
		body := `{"stream":"PAYMENTS","seq":8}`
		inbox := c.request.reply[:strings.LastIndex(c.request.reply, ".")]
		for _, forged := range []string{"_INBOX.x", inbox + ".0", inbox + ".*", earlier} {
			if forged != "" {
				fmt.Fprintf(c, "MSG %s 1 %d\r\n%s\r\n", forged, len(body), body)
			}
		}
		earlier = c.request.reply
		if !strings.HasPrefix(inbox, "_INBOX_railhead.") || len(inbox) < len("_INBOX_railhead.")+20 {
			t.Errorf("the inbox is %q, want one with a random part", inbox)
		}
		c.Say(railtest.Answer{Body: `{"error":{"err_code":10023}}`})
	})
	rail := open(t, config(t, b.Address()), profile())
	defer rail.(interface{ Close() error }).Close()
	for range 3 {
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultUnknown, true)
	}
}

// TestHadItAlready tests that "I have it already" counts only if what is stored is ours.
func TestHadItAlready(t *testing.T) {
	t.Parallel()
	data := base64.StdEncoding.EncodeToString([]byte(payload))
	other := base64.StdEncoding.EncodeToString([]byte("NATS/1.0\r\nNats-Msg-Id: rh0\r\n\r\n"))
	const mine = "payments.bank=20a=2Eb.{rail_key}"
	for said, isQuestion := range map[string]string{
		`{"stream":"PAYMENTS","seq":7,"duplicate":true}`:                            `{"seq":7}`,
		`{"error":{"err_code":10071,"description":"wrong last sequence: 7"}}`:       `{"last_by_subj":"` + mine + `"}`,
		`{"error":{"err_code":10077,"description":"maximum messages per subject"}}`: `{"last_by_subj":"` + mine + `"}`,
	} {
		for kept, want := range map[string]payment.Result{
			`{"message":{"subject":"` + mine + `","seq":7,"hdrs":"{hdrs}","data":"` + data + `"}}`:        payment.ResultAccepted,
			`{"message":{"subject":"moved.{rail_key}","seq":7,"hdrs":"{hdrs}","data":"` + data + `"}}`:    payment.ResultUnknown,
			`{"message":{"subject":"` + mine + `","seq":7,"hdrs":"` + other + `","data":"` + data + `"}}`: payment.ResultUnknown,
			`{"message":{"subject":"` + mine + `","seq":7,"hdrs":"{hdrs}","data":"e30="}}`:                payment.ResultUnknown,
			`{"message":{"subject":"` + mine + `","seq":7,"data":"` + data + `"}}`:                        payment.ResultUnknown,
			`{"error":{"err_code":10037,"description":"no message found"}}`:                               payment.ResultUnknown,
			`{"error":{"err_code":10008,"description":"unavailable"}}`:                                    payment.ResultUnknown,
			`{}`: payment.ResultUnknown, `nothing`: payment.ResultUnknown,
		} {
			send := message()
			b := witness{stream: fit}.broker(t, func(c *client) {
				if !strings.HasPrefix(c.request.subject, "$JS") {
					c.Say(railtest.Answer{Body: said})
					return
				}
				if asked := strings.ReplaceAll(isQuestion, "{rail_key}", send.RailKey); c.request.data != asked {
					t.Errorf("the stream was asked %s, want %s", c.request.data, asked)
				}
				hdrs := base64.StdEncoding.EncodeToString([]byte("NATS/1.0\r\nNats-Msg-Id: " + send.RailKey + "\r\n\r\n"))
				c.Say(railtest.Answer{Body: strings.NewReplacer("{hdrs}", hdrs, "{rail_key}", send.RailKey).Replace(kept)})
			})
			got := once(t, config(t, b.Address()), profile(), send)
			seen := got.Result == payment.ResultUnknown && !strings.Contains(kept, "10037")
			if got.Result != want || got.SeenBefore != seen {
				t.Errorf("%s, and it has %s: %+v, want %s", said, kept, got, want)
			}
		}
	}
}
