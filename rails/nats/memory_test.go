package nats_test

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// journal is a stream that a test moves: it acknowledges each message with the number after its last one, and
// finds no message.
type journal struct{ *broker }

func newJournal(t *testing.T, last int) journal {
	l := journal{witness{}.broker(t, func(c *client) {
		if strings.HasPrefix(c.request.subject, "$JS") {
			c.Say(railtest.Answer{Body: `{"error":{"err_code":10037}}`})
			return
		}
		c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
	})}
	l.end("2020", last)
	return l
}

// end makes it a stream that was created in a year, has its first message of that year, and ends with a message.
func (l journal) end(year string, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = last
	l.stream = strings.ReplaceAll(strings.Join(strings.Fields(fit), ""), `":"2020-`, `":"`+year+"-")
}

// cutOff makes its leader one of which the others have heard nothing.
func (l journal) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = strings.NewReplacer(`"active":1000000`, `"active":5000000000`,
		`"active":900000000`, `"active":5000000000`).Replace(l.stream)
}

// afterAll is later than all streams of the tests were created. Those that take the place of another one were created
// after the process has looked at that, so in years to come.
var afterAll = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

// resend is the second send of a message that was sent after all streams were created.
func resend() rails.Send {
	again := message()
	again.SendNo, again.FirstSentAt = 2, afterAll
	return again
}

// refuses tests that a rail sends nothing, finds nothing and says why.
func refuses(t *testing.T, rail rails.Rail, why string) {
	t.Helper()
	first, again := rail.Send(t.Context(), message()), rail.Send(t.Context(), resend())
	asked := rail.(rails.Inquirer).Inquire(t.Context(), question())
	railtest.Want(t, first, payment.ResultRefusedRail, false)
	railtest.Want(t, again, payment.ResultRefusedRail, false)
	railtest.Want(t, asked, payment.ResultUnavailable, false)
	for _, got := range []rails.Result{first, again, asked} {
		if !strings.Contains(got.Message, why) || got.Loss != "" {
			t.Errorf("%q (lost: %q), want that it was known: %s", got.Message, got.Loss, why)
		}
	}
}

// TestNumberTwice tests a stream that acknowledges a number for the second time: it has gone back, so the
// message may be lost with the next restore, and the rail is refused from then on, however far the stream comes.
func TestNumberTwice(t *testing.T) {
	t.Parallel()
	for _, last := range []int{7, 999} {
		l := newJournal(t, 999)
		rail := open(t, config(t, l.Address()), profile())
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		l.end("2020", last)
		why := fmt.Sprintf("went back from message 1000 to %d", last+1)
		got := rail.Send(t.Context(), message())
		railtest.Want(t, got, payment.ResultUnknown, true)
		if !got.SeenBefore || !strings.Contains(got.Loss, why) || !strings.Contains(got.Message, why) {
			t.Errorf("%+v, want that it %s", got, why)
		}
		l.end("2020", 2000) // others have published meanwhile
		refuses(t, rail, why)
		heir := open(t, config(t, l.Address()), profile())
		heir.(rails.Heir).Inherit(rail)
		refuses(t, heir, why)
		l.end("2101", 1) // it was created anew
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		for _, open := range []rails.Rail{rail, heir} {
			if err := open.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWentBackIsRemembered tests a stream that was seen to end too early, or to be an older one of its name,
// and has grown since: the process that has seen it refuses it.
func TestWentBackIsRemembered(t *testing.T) {
	t.Parallel()
	for why, back := range map[string]struct {
		year string
		last int
	}{
		"ends with message 7 and had 1000": {"2020", 7},
		"was created on 2019-01-01":        {"2019", 5000},
	} {
		l := newJournal(t, 999)
		rail := open(t, config(t, l.Address()), profile())
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		l.end(back.year, back.last)
		got := rail.Send(t.Context(), resend())
		railtest.Want(t, got, payment.ResultRefusedRail, false)
		if !strings.Contains(got.Loss, why) {
			t.Errorf("found lost: %q, want that it %s", got.Loss, why)
		}
		l.end(back.year, 9000)
		refuses(t, rail, why)
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLeaderThatWasCutOff tests that a leader which has not what the others have stored is sent nothing. That is no
// refusal, which would pause the rail for all processes, and proves no loss: their stream has gone on.
func TestLeaderThatWasCutOff(t *testing.T) {
	t.Parallel()
	l := newJournal(t, 999)
	rail := open(t, config(t, l.Address()), profile())
	defer rail.(io.Closer).Close()
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	l.end("2020", 998)
	l.cutOff()
	railtest.Want(t, rail.(rails.Inquirer).Inquire(t.Context(), question()), payment.ResultUnavailable, true)
	got := rail.Send(t.Context(), resend())
	railtest.Want(t, got, payment.ResultNotSent, false)
	if got.Loss != "" || !strings.Contains(got.Message, "ends with message 998 and had 1000: its leader has heard of 1") {
		t.Errorf("%q (lost: %q), want why it is not asked", got.Message, got.Loss)
	}
	l.end("2020", 1000)
	railtest.Want(t, rail.Send(t.Context(), resend()), payment.ResultAccepted, true)
}

// TestWentBackBeforeTheFirstByte tests a re-send that is about to be written when another call finds that the
// stream went back: it is not written.
func TestWentBackBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	l := newJournal(t, 999)
	rail := open(t, config(t, l.Address()), profile())
	defer rail.(io.Closer).Close()
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	again := resend()
	l.end("2020", 1000)
	again.BeforeFirstByte = func() error {
		l.end("2020", 7)
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultRefusedRail, false)
		return nil
	}
	railtest.Want(t, rail.Send(t.Context(), again), payment.ResultNotSent, false)
	if sent := l.Times(again.RailKey); sent != 0 {
		t.Errorf("it was sent %d times", sent)
	}
}

// TestAcknowledgementsCross tests two messages under way at once, of which the later one is acknowledged
// first: the stream has not gone back.
func TestAcknowledgementsCross(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}), make(chan struct{})
	var messages atomic.Int64
	b := witness{stream: fit}.broker(t, func(c *client) {
		number := 40 + messages.Add(1)
		if number == 41 {
			close(arrived)
			<-over
		}
		c.Say(railtest.Answer{Body: fmt.Sprintf(`{"stream":"PAYMENTS","seq":%d}`, number)})
	})
	rail, first := open(t, config(t, b.Address()), profile()), make(chan rails.Result, 1)
	defer rail.(io.Closer).Close()
	go func() { first <- rail.Send(t.Context(), message()) }()
	<-arrived
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	close(over)
	got := <-first
	railtest.Want(t, got, payment.ResultAccepted, true)
	if got.Loss != "" {
		t.Errorf("found lost: %s", got.Loss)
	}
}
