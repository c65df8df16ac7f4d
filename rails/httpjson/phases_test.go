package httpjson_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
)

// TestEachPhaseHasItsOwnClock tests one short phase at a time, all others long, with a bank that
// hangs in that phase.
func TestEachPhaseHasItsOwnClock(t *testing.T) {
	const short = 150 * time.Millisecond
	for name, c := range map[string]struct {
		shorten func(*rails.Timeouts)
		bank    func(net.Conn)
	}{
		"response header": {
			func(t *rails.Timeouts) { t.ResponseHeader = payment.Duration(short) },
			func(c net.Conn) { readRequest(c) },
		},
		"body": {
			func(t *rails.Timeouts) { t.Body = payment.Duration(short) },
			func(c net.Conn) {
				readRequest(c)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
			},
		},
	} {
		url := rawBank(t, c.bank)
		facts := profile()
		c.shorten(&facts.Timeouts)
		rail := open(t, config(t, url), facts)
		began := time.Now()
		got := rail.Send(t.Context(), instruction(t))
		rail.(io.Closer).Close()
		if got.Result != payment.ResultUnknown || !got.FirstByte || got.OwnStop {
			t.Errorf("%s: %+v, want UNKNOWN", name, got)
		}
		if took := time.Since(began); took < short || took > short+3*time.Second {
			t.Errorf("%s: took %s, its clock is %s", name, took, short)
		}
	}
}

func readRequest(c net.Conn) {
	request, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// rawBank passes each connection to behave and closes it when the test ends.
func rawBank(t *testing.T, behave func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				behave(conn)
				<-over
				conn.Close()
			}()
		}
	}()
	t.Cleanup(func() { close(over); listener.Close(); <-ended })
	return "http://" + listener.Addr().String()
}

// TestForbiddenAddresses tests that no name and no URL leads to this machine or to its cloud's
// metadata service. A configured address pauses the rail, because no send could succeed; for a name
// see TestStrayName.
func TestForbiddenAddresses(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]",
		"[::ffff:169.254.169.254]", "224.0.0.1", "255.255.255.255", "100.100.100.200", "[::ffff:100.100.100.200]",
		"[fd00:ec2::254]",
	} {
		settings := config(t, "http://"+host+":1")
		settings.AllowLoopback = false
		rail := open(t, settings, profile())
		got := rail.Send(t.Context(), instruction(t))
		rail.(io.Closer).Close()
		if got.Result != payment.ResultRefusedRail || got.FirstByte {
			t.Errorf("%s: %+v, want REFUSED_RAIL", host, got)
		}
	}
	named := config(t, "http://localhost:1")
	named.AllowLoopback = false
	byName := open(t, named, profile())
	defer byName.(io.Closer).Close()
	if got := byName.Send(t.Context(), instruction(t)); got.Result != payment.ResultNotSent ||
		!strings.Contains(got.Message, "can have") {
		t.Errorf("localhost: %+v, want NOT_SENT for its address", got)
	}
	settings := config(t, "http://169.254.169.254")
	rail := open(t, settings, profile())
	defer rail.(io.Closer).Close()
	if got := rail.Send(t.Context(), instruction(t)); got.Result != payment.ResultRefusedRail {
		t.Errorf("allowing loopback allows metadata: %+v", got)
	}
}

// TestAnswerBeforeTheRequest tests a bank that answers before the request: the answer is about
// something else, and the request must not follow once its call has ended.
func TestAnswerBeforeTheRequest(t *testing.T) {
	arrived := make(chan int, 1)
	url := rawBank(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		n, _ := c.Read(make([]byte, 100))
		arrived <- n
	})
	rail := open(t, config(t, url), profile())
	over := make(chan struct{})
	send := instruction(t)
	send.BeforeFirstByte = func() error {
		select {
		case <-over:
		case <-time.After(2 * time.Second): // the answer came before the call: net/http waits for its writer then
		}
		return nil
	}
	got := rail.Send(t.Context(), send)
	close(over)
	if got.Result != payment.ResultNotSent || got.FirstByte {
		t.Errorf("%+v, want NOT_SENT", got)
	}
	rail.(io.Closer).Close()
	if n := <-arrived; n != 0 {
		t.Errorf("%d bytes came after NOT_SENT was said", n)
	}
}

// TestDeadlineOfTheCaller tests that a deadline that the bank missed does not count as our own
// stop.
func TestDeadlineOfTheCaller(t *testing.T) {
	rail := open(t, config(t, rawBank(t, readRequest)), profile())
	defer rail.(io.Closer).Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := rail.Send(ctx, instruction(t)); got.Result != payment.ResultUnknown || got.OwnStop {
		t.Errorf("%+v, want UNKNOWN by the bank's fault", got)
	}
}

// TestCloseEndsBackgroundDials tests Close with a transport that continues to dial for a call that
// was cancelled.
func TestCloseEndsBackgroundDials(t *testing.T) {
	connected := make(chan struct{}, 1)
	url := rawBank(t, func(net.Conn) { connected <- struct{}{} })
	leaks := goleak.IgnoreCurrent()
	rail := open(t, config(t, "https"+strings.TrimPrefix(url, "http")), profile())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-connected; cancel() }()
	if got := rail.Send(ctx, instruction(t)); got.Result != payment.ResultNotSent || !got.OwnStop {
		t.Errorf("%+v", got)
	}
	rail.(io.Closer).Close()
	const bank = "github.com/railhead-pay/railhead/rails/httpjson_test.rawBank.func1.1"
	goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction(bank))
}

// TestCheckRefusesWhatCanNotBeRendered tests that the refusal comes before a claim is used up.
func TestCheckRefusesWhatCanNotBeRendered(t *testing.T) {
	rail := open(t, config(t, "http://127.0.0.1:1"), profile())
	send := instruction(t)
	send.Payload = []byte(`{"debtor":{}}`)
	err := rail.(rails.Checker).Check(send)
	if err == nil || !strings.Contains(err.Error(), "creditor") {
		t.Errorf("got %v", err)
	}
	if got := rail.Send(t.Context(), send); got.Result != payment.ResultNotSent || got.FirstByte {
		t.Errorf("%+v", got)
	}
}

var _ rails.Inquirer = (*httpjson.Asking)(nil)
