package nats_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// has makes it a stream whose messages have this state, and whose setting max_age is so long.
func (l journal) has(maxAge time.Duration, state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(strings.Fields(fit), "")
	text = strings.Replace(text, `"max_age":0`, fmt.Sprintf(`"max_age":%d`, maxAge), 1)
	l.stream = text[:strings.Index(text, `"state":`)] + `"state":{` + state + `}}`
}

// TestRemovedFromTheStream tests a stream that has removed messages which it was to keep since it was seen: it is sent
// nothing more, and the loss names them. What it had removed before, or removes by age, is no loss.
func TestRemovedFromTheStream(t *testing.T) {
	t.Parallel()
	const whole = `"messages":7,"first_seq":1,"last_seq":{last}`
	ago := func(age time.Duration) string { return time.Now().Add(-age).UTC().Format(time.RFC3339Nano) }
	kept := func(first int, firstAge, lastAge time.Duration) string {
		return fmt.Sprintf(`"messages":7,"first_seq":%d,"last_seq":{last},"first_ts":%q,"last_ts":%q`, first, ago(firstAge),
			ago(lastAge))
	}
	for name, test := range map[string]struct {
		keeps         time.Duration
		before, after string
		lost          string // how the loss begins; empty: there is none
	}{
		"as it was":           {0, whole, whole, ""},
		"removed before":      {0, `"first_seq":5,"last_seq":{last},"num_deleted":2`, `"first_seq":5,"last_seq":{last},"num_deleted":2`, ""},
		"the first ones":      {0, whole, `"first_seq":5,"last_seq":{last}`, "messages 1 to 4 of stream PAYMENTS were removed"},
		"removed again":       {0, `"first_seq":5,"last_seq":{last}`, `"first_seq":7,"last_seq":{last}`, "messages 5 to 6 of"},
		"purged":              {0, whole, `"messages":0,"first_seq":1000,"last_seq":{last}`, "messages 1 to 999 of"},
		"the first, unseen":   {0, `"messages":0,"first_seq":0,"last_seq":{last}`, `"first_seq":2,"last_seq":{last}`, "messages 1 to 1 of"},
		"one is deleted":      {0, whole, whole + `,"num_deleted":1`, "messages were deleted between 1 and 1000 of"},
		"one can't be read":   {0, whole, whole + `,"lost":{"msgs":[3]}`, "stream PAYMENTS has messages that its server can't read"},
		"was unreadable":      {0, whole + `,"lost":{"msgs":[3]}`, whole + `,"lost":{"msgs":[3]}`, ""},
		"by age":              {time.Hour, kept(1, 2*time.Hour, time.Minute), kept(5, 59*time.Minute, 0), ""},
		"within the skew":     {time.Hour, kept(1, time.Hour-4*time.Second, time.Minute), kept(5, time.Minute, 0), ""},
		"too young":           {time.Hour, kept(1, 59*time.Minute, time.Minute), kept(5, time.Minute, 0), "messages 1 to 4 of"},
		"all, the last young": {time.Hour, kept(1, 2*time.Hour, time.Minute), kept(1001, 0, 0), "messages 1 to 1000 of"},
		"all, and later ones": {time.Hour, kept(1, 2*time.Hour, 2*time.Hour), kept(2000, 0, 0), "messages 1 to 1999 of"},
		"one within, by age":  {time.Hour, kept(1, 2*time.Hour, 0), kept(1, 2*time.Hour, 0) + `,"num_deleted":1`, "messages were deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c := newJournal(t, 999), config(t, "")
			c.Servers, c.KeepsFor = []string{l.Address()}, payment.Duration(test.keeps)
			l.has(test.keeps, test.before)
			rail := open(t, c, profile())
			defer rail.(io.Closer).Close()
			railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
			l.mu.Lock()
			l.last = 1000
			if strings.HasPrefix(name, "all, and later") {
				l.last = 3000
			}
			l.mu.Unlock()
			l.has(test.keeps, test.after)
			got := rail.Send(t.Context(), resend())
			if test.lost == "" {
				if got.Loss != "" || got.Result == payment.ResultRefusedRail {
					t.Errorf("%s (lost: %q), want no loss", got.Message, got.Loss)
				}
				railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
				return
			}
			railtest.Want(t, got, payment.ResultRefusedRail, false)
			if !strings.HasPrefix(got.Loss, test.lost) {
				t.Errorf("found lost: %q, want %q", got.Loss, test.lost)
			}
			refuses(t, rail, test.lost)
			heir := open(t, c, profile())
			defer heir.(io.Closer).Close()
			heir.(rails.Heir).Inherit(rail)
			refuses(t, heir, test.lost)
		})
	}
}

// TestMaxBytesOfServers tests that max_bytes is refused of a server that removes the oldest messages for new ones.
func TestMaxBytesOfServers(t *testing.T) {
	t.Parallel()
	bounded := strings.Replace(fit, `"discard":"old"`, `"discard":"new","max_bytes":3000,"was":0`, 1)
	bounded = strings.Replace(bounded, `"max_bytes":-1,`, "", 1)
	for version, takes := range map[string]bool{
		"2.9.10": false, "2.9.25": false, "2.10.4": false, "2.10.7": true, "2.10.29": true, "2.11.0-RC.1": true, "v2.15.3": true,
		"3.0.0": true, "1.99.99": false, "2.10": false, "dev": false,
	} {
		b := witness{stream: bounded, version: version}.broker(t, func(c *client) {
			c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
		})
		got := once(t, config(t, b.Address()), profile(), message())
		refused := got.Result == payment.ResultRefusedRail && strings.Contains(got.Message, "max_bytes is 3000")
		if refused == takes || takes && got.Result != payment.ResultAccepted {
			t.Errorf("%s: %s (%s), want it taken: %t", version, got.Result, got.Message, takes)
		}
	}
}
