package httpjson_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
)

// TestEachPhaseHasItsOwnClock: one short phase at a time, all others long, and a
// bank that hangs in just that one.
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

// rawBank gives each connection to behave and closes it when the test is over.
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

// TestForbiddenAddresses: no name and no URL leads to this machine or to its
// cloud's metadata, and the rail is held, for no send would do better.
func TestForbiddenAddresses(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]",
		"[::ffff:169.254.169.254]", "224.0.0.1", "255.255.255.255", "100.100.100.200", "[fd00:ec2::254]",
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
	settings := config(t, "http://169.254.169.254")
	rail := open(t, settings, profile())
	defer rail.(io.Closer).Close()
	if got := rail.Send(t.Context(), instruction(t)); got.Result != payment.ResultRefusedRail {
		t.Errorf("allowing loopback allows metadata: %+v", got)
	}
}

// TestNoProxyFromTheEnvironment: whoever sets a variable must not see payments.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	seen := make(chan struct{}, 1)
	proxy := rawBank(t, func(net.Conn) { seen <- struct{}{} })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	rail := open(t, config(t, "http://192.0.2.1:9"), func() rails.Profile {
		p := profile()
		p.Timeouts.Connect = payment.Duration(100 * time.Millisecond)
		return p
	}())
	defer rail.(io.Closer).Close()
	if got := rail.Send(t.Context(), instruction(t)); got.Result != payment.ResultNotSent {
		t.Errorf("%+v", got)
	}
	select {
	case <-seen:
		t.Error("the proxy was called")
	default:
	}
}

// TestCheckRefusesWhatCanNotBeRendered, so that it is known before a claim is
// spent on it.
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
