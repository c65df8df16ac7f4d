package nats_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestSubjectChanged tests inquiries about sends of another version, of a stream that keeps messages by their
// subjects. "No such message" proves nothing where they may have had another subject. What is found counts as ever.
func TestSubjectChanged(t *testing.T) {
	t.Parallel()
	same := func(*nats.Config, *rails.Profile) {}
	subject := func(c *nats.Config, _ *rails.Profile) { c.Subject = "payments.v2.{participant_id}.{rail_key}" }
	headers := func(_ *nats.Config, p *rails.Profile) { p.Headers = nil }
	for name, test := range map[string]struct {
		change  func(*nats.Config, *rails.Profile) // since the send
		stored  bool                               // the stream has the message
		sent    func(version string) string        // the version that was stored with the send; nil: that of the send
		want    payment.Result
		doubted bool // the stream is well, and what it says proves nothing
	}{
		"the same":                       {same, true, nil, payment.ResultExecuted, false},
		"the same, and not stored":       {same, false, nil, payment.ResultNotFound, false},
		"another subject":                {subject, true, nil, payment.ResultUnavailable, true},
		"another subject, not stored":    {subject, false, nil, payment.ResultUnavailable, true},
		"other headers":                  {headers, true, nil, payment.ResultExecuted, false},
		"other headers, and not stored":  {headers, false, nil, payment.ResultUnavailable, true},
		"an unknown version, not stored": {same, false, func(string) string { return "" }, payment.ResultNotFound, false},
		"other code, and not stored": {same, false, func(version string) string {
			return strings.Replace(version, "nats/1-", "nats/2-", 1)
		}, payment.ResultUnavailable, true},
		"another adapter": {same, false, func(string) string { return "httpjson/1-62e1ae73d7d4" },
			payment.ResultUnavailable, true},
	} {
		kept := &keeper{has: map[string]request{}, loses: !test.stored}
		b := witness{stream: fit}.broker(t, kept.behave)
		facts, of := config(t, b.Address()), profile()
		before, send := open(t, facts, of), message()
		railtest.Want(t, before.Send(t.Context(), send), payment.ResultUnknown, true)
		test.change(&facts, &of)
		after, q := open(t, facts, of), question()
		q.RailKey, q.RenderVersion = send.RailKey, before.RenderVersion()
		if test.sent != nil {
			q.RenderVersion = test.sent(q.RenderVersion)
		}
		got := after.(rails.Inquirer).Inquire(t.Context(), q)
		if got.Result != test.want || got.OwnStop != test.doubted || !got.FirstByte {
			t.Errorf("%s: %s (%s; own stop: %t), want %s", name, got.Result, got.Message, got.OwnStop, test.want)
		}
		if test.doubted && !strings.Contains(got.Message, "may have had another subject") {
			t.Errorf("%s: %q does not say why", name, got.Message)
		}
		for _, rail := range []rails.Rail{before, after} {
			if err := rail.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// keeper is a stream that has messages by their subjects, and acknowledges none.
type keeper struct {
	mu    sync.Mutex
	has   map[string]request
	loses bool // what it is sent
}

func (k *keeper) behave(c *client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !strings.HasPrefix(c.request.subject, "$JS") {
		if !k.loses {
			k.has[c.request.subject] = c.request
		}
		c.Cut()
		return
	}
	for subject, m := range k.has {
		if strings.Contains(c.request.data, fmt.Sprintf("%q", subject)) {
			c.Say(railtest.Answer{Body: fmt.Sprintf(`{"message":{"subject":%q,"seq":8,"hdrs":%q,"data":%q}}`, subject,
				base64.StdEncoding.EncodeToString([]byte(m.head)), base64.StdEncoding.EncodeToString([]byte(m.data)))})
			return
		}
	}
	c.Say(railtest.Answer{Body: `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`})
}
