package railtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// statuses are the status codes of endless answers: some of each class, those without a body by
// definition, and the switch to another protocol.
var statuses = []int{100, 101, 102, 200, 202, 204, 205, 206, 300, 304, 400, 401, 404, 409, 422, 500, 503, 999}

// endings are ways in which an answer does not end after its status line.
var endings = []struct {
	name   string
	header string
	behave func(c *client)
}{
	{"a body that does not begin", "Content-Length: 100\r\n\r\n", (*client).Hang},
	{"a body in drips", "Content-Length: 60000\r\n\r\n", dripping(" ")},
	{"a body until the connection ends", "Connection: close\r\n\r\n", (*client).Hang},
	{"chunks in drips", "Transfer-Encoding: chunked\r\n\r\n", dripping("1\r\n \r\n")},
	{"a trailer in drips", "Transfer-Encoding: chunked\r\n\r\n0\r\n", dripping("X: 1\r\n")},
	{"another protocol that is silent", "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", (*client).Hang},
	{"another protocol that sends", "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", dripping(" ")},
}

func dripping(piece string) func(c *client) {
	return func(c *client) { c.stream(piece, 5*time.Millisecond) }
}

// endlessAnswers tests that an answer without an end costs no more than the budget, whatever its
// status and protocol, and proves nothing.
func (w httpWitness) endlessAnswers(t *testing.T, s Subject) {
	s = s.Hurried()
	for _, status := range statuses {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			w.endless(t, s, status, s.Budget(), func(context.CancelFunc) {})
		})
	}
}

// stopEndsAnswers tests that a stop ends the call at once, however much of its budget is left and
// whatever the bank is sending.
func (w httpWitness) stopEndsAnswers(t *testing.T, s Subject) {
	const reading = 20 * time.Millisecond // most rails read the body by then; an earlier stop is as good
	for _, status := range statuses {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			w.endless(t, s, status, slack, func(stop context.CancelFunc) { time.AfterFunc(reading, stop) })
		})
	}
}

// endless makes a send, and an inquiry if the rail can be asked, for every ending of an answer, all
// at once. It calls answering after the head of the answer was written.
func (w httpWitness) endless(
	t *testing.T, s Subject, status int, within time.Duration, answering func(stop context.CancelFunc),
) {
	var calls sync.WaitGroup
	for _, ending := range endings {
		call := func(kind string, want payment.Result, call func(context.Context, rails.Rail) rails.Result) {
			ctx, stop := context.WithCancel(t.Context())
			b := w.bank(t, func(c *client) {
				fmt.Fprintf(c, "HTTP/1.1 %d Status\r\n%s", status, ending.header)
				answering(stop)
				ending.behave(c)
				c.Close()
			})
			rail := s.Begin(t, b.Address())
			calls.Go(func() {
				defer stop()
				got := ends(t, b, kind+", "+ending.name, within, func() rails.Result { return call(ctx, rail) })
				if got.Result != want || !got.FirstByte {
					t.Errorf("%s, %s: %s (%s), want %s after the first byte", kind, ending.name, got.Result, got.Message, want)
				}
			})
		}
		call("send", payment.ResultUnknown, func(ctx context.Context, rail rails.Rail) rails.Result {
			return rail.Send(ctx, s.Next())
		})
		if len(s.Inquiries) > 0 {
			call("inquiry", payment.ResultUnavailable, func(ctx context.Context, rail rails.Rail) rails.Result {
				return rail.(rails.Inquirer).Inquire(ctx, s.Question())
			})
		}
	}
	calls.Wait()
}
