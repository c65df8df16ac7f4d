package nats_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestUnfitStreams tests that a stream that could lose a message, hide it or take it twice is sent
// nothing, and that the result says what to change.
func TestUnfitStreams(t *testing.T) {
	t.Parallel()
	for change, says := range map[string]string{
		`"storage":"memory"`: "storage", `"num_replicas":2`: "num_replicas", `"retention":"workqueue"`: "retention",
		`"retention":"interest"`: "retention", `"no_ack":true`: "no_ack", `"sealed":true`: "sealed", `"mirror":{"name":"X"}`: "mirror",
		`"sources":[{"name":"X"}]`: "sources", `"subject_transform":{"src":"a","dest":"b"}`: "subject_transform",
		`"allow_rollup_hdrs":true`: "allow_rollup_hdrs", `"allow_msg_counter":true`: "allow_msg_counter",
		`"persist_mode":"async"`: "persist_mode", `"max_msgs":100`: "discard", `"max_bytes":100`: "discard",
		`"max_msgs_per_subject":1`: "discard", `"max_age":3600000000000`: "max_age", `"name":"OTHER"`: "named",
		`"max_msgs_per_subject":1,"discard":"new"`: "discard_new_per_subject", `"duplicate_window":3599000000000`: "duplicate_window",
		`"max_msg_size":1000`: "max_msg_size", `"subjects":["other.>"]`: "subjects", `"subjects":["payments.*"]`: "subjects",
		// These are fit.
		`"max_msgs":100,"discard":"new"`: "", `"max_msgs_per_subject":1,"discard":"new","discard_new_per_subject":true`: "",
		`"persist_mode":"default"`: "", `"num_replicas":5`: "", `"subjects":["x","payments.*.*"]`: "", `"max_msg_size":327680`: "",
	} {
		b := witness{stream: `{"config":{` + change + "," +
			without(fit[len(`{"config":{`):], change)}.broker(t, func(c *client) {
			c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
		})
		got := once(t, config(t, b.Address()), profile(), message())
		switch {
		case says == "" && got.Result != payment.ResultAccepted:
			t.Errorf("%s: %+v, want an acceptance", change, got)
		case says != "" && (got.Result != payment.ResultRefusedRail || got.FirstByte || b.Arrived() != 0 ||
			!strings.Contains(got.Message, says)):
			t.Errorf("%s: %+v and %d bytes, want a refusal that names %s", change, got, b.Arrived(), says)
		}
	}
}

// without removes the settings that a change gives from the rest of the document: of two members of
// one name the last would count.
func without(rest, change string) string {
	for _, name := range []string{
		"name", "subjects", "retention", "storage", "discard", "num_replicas", "max_msgs", "max_bytes", "max_age",
		"max_msgs_per_subject", "max_msg_size", "duplicate_window",
	} {
		if strings.Contains(change, `"`+name+`":`) {
			rest = strings.Replace(rest, `"`+name+`":`, `"was_`+name+`":`, 1)
		}
	}
	return rest
}

// TestForgetfulStream tests that no message is sent again to a stream that may have forgotten it, and
// that "no such message" of such a stream proves nothing.
func TestForgetfulStream(t *testing.T) {
	t.Parallel()
	since := time.Now().Add(-time.Minute)
	at := func(age time.Duration) string { return since.Add(-age).UTC().Format(time.RFC3339Nano) }
	for name, test := range map[string]struct {
		created, state string
		remembers      bool
	}{
		"as it was":              {at(time.Hour), `{"messages":7,"first_seq":1}`, true},
		"empty":                  {at(time.Hour), `{"messages":0,"first_seq":0}`, true},
		"created again":          {at(-time.Second), `{"messages":0,"first_seq":0}`, false},
		"created within skew":    {at(4 * time.Second), `{"messages":0,"first_seq":0}`, false},
		"deleted":                {at(time.Hour), `{"messages":7,"first_seq":1,"num_deleted":1}`, false},
		"purged":                 {at(time.Hour), `{"messages":0,"first_seq":8}`, false},
		"lost":                   {at(time.Hour), `{"messages":7,"first_seq":1,"lost":{"msgs":[3]}}`, false},
		"removed what was later": {at(time.Hour), `{"messages":7,"first_seq":4,"first_ts":"` + at(-time.Second) + `"}`, false},
		"removed what was older": {at(time.Hour), `{"messages":7,"first_seq":4,"first_ts":"` + at(time.Minute) + `"}`, true},
		"a clock that is behind": {at(time.Hour), `{"messages":7,"first_seq":1},"ts":"` + at(-50*time.Second) + `"`, false},
		"a clock that is ahead":  {at(time.Hour), `{"messages":7,"first_seq":1},"ts":"` + at(-5*time.Minute) + `"`, false},
		"a clock within skew":    {at(time.Hour), `{"messages":7,"first_seq":1},"ts":"` + at(-61*time.Second) + `"`, true},
	} {
		stream := fit[:strings.Index(fit, `,"created"`)] + `,"created":"` + test.created + `","state":{"last_seq":{last},` + test.state[1:] + `}`
		b := witness{stream: stream}.broker(t, func(c *client) {
			if strings.HasPrefix(c.request.subject, "$JS") {
				c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
				return
			}
			c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
		})
		rail := open(t, config(t, b.Address()), profile())
		send := message()
		railtest.Want(t, rail.Send(t.Context(), send), payment.ResultAccepted, true)
		for _, first := range []time.Time{since, {}} {
			send.SendNo, send.FirstSentAt = 2, first
			got := rail.Send(t.Context(), send)
			q := rails.Inquiry{
				RailKey: send.RailKey, ParticipantID: send.ParticipantID, Payload: send.Payload, FirstSentAt: first, SendNo: 1,
			}
			asked := rail.(rails.Inquirer).Inquire(t.Context(), q)
			sent, found := payment.ResultNotSent, payment.ResultUnavailable
			if test.remembers && !first.IsZero() {
				sent, found = payment.ResultAccepted, payment.ResultNotFound
			}
			if got.Result != sent || got.OwnStop != (sent == payment.ResultNotSent) || asked.Result != found {
				t.Errorf("%s, first sent %s: %s (%s, own stop %t) and %s (%s), want %s and %s", name, first, got.Result,
					got.Message, got.OwnStop, asked.Result, asked.Message, sent, found)
			}
		}
		if err := rail.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNotFoundProves tests which streams are believed that they have no message of a payment: not one
// that lists its subject, because a message that can't be read is reported with the same code; nor one
// whose leader may have been replaced, or whose settings forget messages.
func TestNotFoundProves(t *testing.T) {
	t.Parallel()
	const followed = `"cluster":{"leader":"n1","replicas":[{"name":"n2","active":1000000},
	{"name":"n3","active":900000000}]},`
	if !strings.Contains(fit, followed) {
		t.Fatal("the stream of the tests has other servers")
	}
	q := question()
	mine := `"payments.bank=20a=2Eb.` + q.RailKey + `"`
	cluster := func(replicas string) string {
		return strings.Replace(fit, followed, `"cluster":{"leader":"n1","replicas":[`+replicas+`]},`, 1)
	}
	for name, test := range map[string]struct {
		stream string
		found  payment.Result
		says   string
	}{
		"all follow":    {fit, payment.ResultNotFound, ""},
		"other subject": {strings.Replace(fit, `"state":{`, `"state":{"subjects":{"payments.x.y":1},`, 1), payment.ResultNotFound, ""},
		"can't be read": {strings.Replace(fit, `"state":{`, `"state":{"subjects":{`+mine+`:1},`, 1), payment.ResultUnavailable, "subject"},
		"a majority":    {cluster(`{"active":3999999999},{"active":60000000000}`), payment.ResultNotFound, ""},
		"silent":        {cluster(`{"active":4000000000},{"active":4000000000}`), payment.ResultUnavailable, "1 of its 3 replicas"},
		"offline":       {cluster(`{"active":1,"offline":true},{"active":1,"offline":true}`), payment.ResultUnavailable, "replicas"},
		"never seen":    {cluster(`{},{}`), payment.ResultUnavailable, "replicas"},
		"not all named": {cluster(``), payment.ResultUnavailable, "replicas"},
		"being moved":   {cluster(`{"active":1},{},{}`), payment.ResultUnavailable, "2 of its 4 replicas"},
		"no leader":     {strings.Replace(fit, `"leader":"n1"`, `"leader":""`, 1), payment.ResultUnavailable, "no leader"},
		"no cluster":    {strings.Replace(fit, followed, "", 1), payment.ResultUnavailable, "no leader"},
	} {
		b := witness{stream: test.stream}.broker(t, func(c *client) {
			c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
		})
		rail := open(t, config(t, b.Address()), profile())
		got := rail.(rails.Inquirer).Inquire(t.Context(), q)
		if got.Result != test.found || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: %s (%s), want %s", name, got.Result, got.Message, test.found)
		}
		if asked := `{"subjects_filter":` + mine + `}`; !strings.Contains(b.Heard(), asked) {
			t.Errorf("%s: the stream was not asked %s", name, asked)
		}
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
	single := config(t, "")
	single.Replicas = 1
	b := witness{stream: strings.Replace(strings.Replace(fit, followed, "", 1), `"num_replicas":3`, `"num_replicas":1`, 1)}.
		broker(t, func(c *client) { c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`}) })
	single.Servers = []string{b.Address()}
	rail := open(t, single, profile())
	railtest.Want(t, rail.(rails.Inquirer).Inquire(t.Context(), q), payment.ResultNotFound, true)
	if err := rail.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamWentBack tests a stream that was rolled back with its disks: it was created when it was, and has
// lost the newest messages. It is sent nothing, first send or not, and its "no such message" proves
// nothing. One that was created again is another stream.
func TestStreamWentBack(t *testing.T) {
	t.Parallel()
	acknowledge := func(c *client) {
		if strings.HasPrefix(c.request.subject, "$JS") {
			c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
			return
		}
		c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
	}
	for created, want := range map[string][3]payment.Result{
		"2020": {payment.ResultUnavailable, payment.ResultRefusedRail, payment.ResultRefusedRail},
		"2101": {payment.ResultNotFound, payment.ResultAccepted, payment.ResultAccepted},
	} {
		b := witness{stream: fit}.broker(t, acknowledge)
		rail := open(t, config(t, b.Address()), profile())
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		restored := strings.ReplaceAll(strings.Join(strings.Fields(fit), ""), `":"2020-`, `":"`+created+"-")
		b.mu.Lock()
		b.stream, b.last = restored, 7
		b.mu.Unlock()
		q := question()
		q.FirstSentAt = afterAll
		asked := rail.(rails.Inquirer).Inquire(t.Context(), q)
		resend := rail.Send(t.Context(), resend())
		first := rail.Send(t.Context(), message())
		if got := [3]payment.Result{asked.Result, resend.Result, first.Result}; got != want {
			t.Errorf("created in %s: %s, want %s (%s)", created, got, want, resend.Message)
		}
		if created == "2020" { // by a rail that is opened for another profile
			heir := open(t, config(t, b.Address()), profile())
			heir.(rails.Heir).Inherit(rail)
			railtest.Want(t, heir.Send(t.Context(), message()), payment.ResultRefusedRail, false)
			if err := heir.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
		}
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnfitSinceTheLook tests a stream whose settings were changed after they were looked at: that it
// has no message proves nothing.
func TestUnfitSinceTheLook(t *testing.T) {
	t.Parallel()
	b := witness{stream: fit}.broker(t, func(c *client) {
		c.broker.stream = strings.Replace(c.broker.stream, `"max_age":0`, `"max_age":1000000000`, 1)
		c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
	})
	rail := open(t, config(t, b.Address()), profile())
	defer rail.(io.Closer).Close()
	got := rail.(rails.Inquirer).Inquire(t.Context(), question())
	if got.Result != payment.ResultUnavailable || !strings.Contains(got.Message, "max_age") {
		t.Errorf("%s (%s), want no proof", got.Result, got.Message)
	}
}

// question asks about a message that was sent a minute ago.
func question() rails.Inquiry {
	send := message()
	return rails.Inquiry{RailKey: send.RailKey, ParticipantID: send.ParticipantID, Payload: send.Payload,
		FirstSentAt: time.Now().Add(-time.Minute), SendNo: 1}
}

// TestSubjects tests that each participant has a token of its own, whatever its name.
func TestSubjects(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, participant := range []string{
		"a", "A", "a.b", "a b", "a*b", "a>b", "a=2Eb", "a_b", "a-b", "a=b", "a\tb", ">", "*", ".", "a.", "é", "$JS",
	} {
		send := message()
		send.ParticipantID = participant
		b := witness{stream: fit}.broker(t, func(c *client) { c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`}) })
		railtest.Want(t, once(t, config(t, b.Address()), profile(), send), payment.ResultAccepted, true)
		tokens := strings.Split(b.all()[0].subject, ".")
		if len(tokens) != 3 || tokens[0] != "payments" || tokens[2] != send.RailKey ||
			strings.ContainsAny(tokens[1], " *>\t$") {
			t.Errorf("%q is sent to %q", participant, tokens)
			continue
		}
		if other, twice := seen[tokens[1]]; twice {
			t.Errorf("%q and %q have the token %s", participant, other, tokens[1])
		}
		seen[tokens[1]] = participant
	}
}

// TestHeaders tests the headers of a message, and that their order is that of their names.
func TestHeaders(t *testing.T) {
	t.Parallel()
	send := message()
	b := witness{stream: fit}.broker(t, func(c *client) { c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`}) })
	railtest.Want(t, once(t, config(t, b.Address()), profile(), send), payment.ResultAccepted, true)
	want := "NATS/1.0\r\nContent-Type: application/json\r\nNats-Expected-Last-Subject-Sequence: 0\r\n" +
		"Nats-Expected-Stream: PAYMENTS\r\nNats-Msg-Id: " + send.RailKey + "\r\nRailhead-Instruction-Id: instr-1\r\n" +
		"Railhead-Participant-Id: bank a.b\r\nRailhead-Schema-Version: 1\r\ntraceparent: " + send.TraceParent +
		"\r\nx-tenant: t1\r\n\r\n"
	if got := b.all()[0]; got.head != want || got.data != payload {
		t.Errorf("%q %q, want %q %q", got.head, got.data, want, payload)
	}
}

// TestConfigNamesEachFault tests that every fault has the path of its field first.
func TestConfigNamesEachFault(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*nats.Config){
		"servers has":                       func(c *nats.Config) { c.Servers = nil },
		"servers[0] is no":                  func(c *nats.Config) { c.Servers = []string{"nats"} },
		"servers[0] has the port \"\"":      func(c *nats.Config) { c.Servers = []string{"tls://nats.example"} },
		"servers[0] has the port \"65536\"": func(c *nats.Config) { c.Servers = []string{"tls://nats.example:65536"} },
		"servers[0] is nats":                func(c *nats.Config) { c.AllowPlaintext = false },
		"servers[0] holds":                  func(c *nats.Config) { c.Servers = []string{"tls://me:pw@nats.example:4222"} },
		"servers[0] has":                    func(c *nats.Config) { c.Servers = []string{"ws://nats.example:4222"} },
		"credentials is":                    func(c *nats.Config) { c.Credentials = ref(t, "env:CREDS") },
		"password goes":                     func(c *nats.Config) { c.Token, c.User = ref(t, "env:X"), "me" },
		"tls.client_cert":                   func(c *nats.Config) { c.TLS.ClientCert = ref(t, "env:CERT") },
		"stream is":                         func(c *nats.Config) { c.Stream = "A.B" },
		"domain is":                         func(c *nats.Config) { c.Domain = "A.B" },
		"subject is":                        func(c *nats.Config) { c.Subject = "" },
		"subject must have":                 func(c *nats.Config) { c.Subject = "payments.{rail_key}" },
		"subject has {rail":                 func(c *nats.Config) { c.Subject = "{rail_key}.{participant_id}" },
		"subject has the":                   func(c *nats.Config) { c.Subject = "payments.*.{participant_id}" },
		"inbox_prefix is":                   func(c *nats.Config) { c.InboxPrefix = "_INBOX" },
		"replicas is":                       func(c *nats.Config) { c.Replicas = 6 },
		"keeps_for is":                      func(c *nats.Config) { c.KeepsFor = -1 },
		"clock_skew is":                     func(c *nats.Config) { c.ClockSkew = payment.Duration(time.Hour) },
	} {
		c := config(t, "nats://127.0.0.1:4222")
		change(&c)
		if err := c.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestAgrees tests that a profile can't rely on what the stream does not give.
func TestAgrees(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*nats.Config, *rails.Profile){
		"profile.inquiry.max": func(c *nats.Config, p *rails.Profile) { c.Subject = "payments.{participant_id}" },
		"profile.resend_on_unknown": func(c *nats.Config, p *rails.Profile) { // a re-send may arrive after any window
			c.Subject, p.KeyWindow = "payments.{participant_id}", payment.Duration(24*time.Hour)
		},
		"profile.inquiry.not_found_age is 1m59s": func(c *nats.Config, p *rails.Profile) {
			p.Inquiry.NotFound, p.Inquiry.NotFoundAge = payment.NotFoundNotExecuted, payment.Duration(119*time.Second)
		},
		"profile.key_window is 1h, longer": func(c *nats.Config, p *rails.Profile) {
			c.KeepsFor = payment.Duration(time.Minute)
		},
		"profile.inquiry.not_found_until": func(c *nats.Config, p *rails.Profile) {
			c.KeepsFor, p.Inquiry.NotFoundUntil = payment.Duration(2*time.Hour), payment.Duration(3*time.Hour)
		},
		"profile.acceptance": func(c *nats.Config, p *rails.Profile) { p.Acceptance = payment.AcceptanceProvisional },
	} {
		c, p := config(t, "nats://127.0.0.1:4222").WithDefaults(), profile()
		if err := c.Agrees(p); err != nil {
			t.Fatal(err)
		}
		change(&c, &p)
		if err := c.Agrees(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
