package httpjson_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// page is an answer with a body, which may be empty.
func page(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// lateBank answers the first request of a connection by first, and each other one by late, which may be several
// answers. It counts its connections.
func lateBank(
	t *testing.T, first, late func(*http.Request) string,
) (url string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	return rawBank(t, func(conn net.Conn) {
		conns.Add(1)
		in := bufio.NewReader(conn)
		for n := 0; ; n++ {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			answer := first
			if n > 0 {
				answer = late
			}
			if _, err := io.WriteString(conn, answer(request)); err != nil {
				return
			}
		}
	}), conns
}

// accepted is the answer to a send that was executed.
func accepted(r *http.Request) string {
	return page(201, `{"status":"EXECUTED","id":"b-1","reference":"`+r.Header.Get("Idempotency-Key")+`"}`)
}

func inquiryOf(rail rails.Rail, s rails.Send) rails.Inquiry {
	return rails.Inquiry{OutboxID: s.OutboxID, RailKey: s.RailKey, InstructionID: s.InstructionID,
		ParticipantID: s.ParticipantID, SendNo: 1, RenderVersion: rail.RenderVersion()}
}

// TestSecondAnswer tests a bank, or a gateway in front of it, that answers a request once more after an answer that
// does not say what became of the payment, when the same connection has the next request.
func TestSecondAnswer(t *testing.T) {
	t.Parallel()
	const ours = "rhffffffffffffffffffffffffffffffff" // in the place of the first payment's key
	const otherEcho = `{"status":"EXECUTED","id":"b-9","reference":"rh00000000000000000000000000000000"}`
	for name, first := range map[string]string{
		"504":                        page(504, `{"error":"it takes too long"}`),
		"504 without a body":         page(504, ""),
		"503":                        page(503, `{"status":"REFUSED","code":"AC04"}`),
		"500":                        page(500, `<html>`),
		"408":                        page(408, ""),
		"409":                        page(409, `{"status":"REFUSED","code":"AC04"}`),
		"429":                        page(429, `slow down`),
		"401":                        page(401, ""),
		"404 of a gateway":           page(404, `<html>`),
		"400 without the bank's own": page(400, `{"title":"bad"}`),
		"a code in no table":         page(422, `{"status":"REFUSED","code":"AC99"}`),
		"early hints, then 504":      "HTTP/1.1 103 x\r\n\r\n" + page(504, ""),
		"200 that can't be read":     page(200, `<html>`),
		"200 without a body":         page(200, ""),
		"204":                        "HTTP/1.1 204 x\r\n\r\n",
		"about another payment":      page(200, otherEcho),
		"the bank's word for 504":    page(200, `{"status":"REFUSED","code":"AB05"}`),
		"its word, with a 422":       page(422, `{"status":"REFUSED","code":"AB06"}`),
		"in progress":                page(202, `{"status":"PENDING","id":"b-0","reference":"`+ours+`"}`),
		"in progress, with a 200":    page(200, `{"status":"PENDING","id":"b-0","reference":"`+ours+`"}`),
		"longer than permitted":      page(200, strings.Repeat("x", 70<<10)),
	} {
		for _, asks := range []bool{false, true} {
			url, _ := lateBank(t, func(r *http.Request) string {
				return strings.Replace(first, ours, r.Header.Get("Idempotency-Key"), 1)
			}, func(r *http.Request) string {
				if r.Method == http.MethodGet {
					return page(200, `{"status":"EXECUTED","id":"b-of-the-first"}`) + page(404, `{"status":"NOT_FOUND"}`)
				}
				return page(422, `{"status":"REFUSED","code":"AC06"}`) + accepted(r)
			})
			facts, c := profile(), config(t, url)
			if strings.HasPrefix(name, "in progress") {
				facts.Acceptance = payment.AcceptanceProvisional
				c.Send.Response.Statuses["PENDING"] = "P"
			}
			rail := open(t, c, facts)
			one := rail.Send(t.Context(), instruction(t))
			if !one.FirstByte || (one.Result == payment.ResultAccepted) != strings.HasPrefix(name, "in progress") {
				t.Errorf("%s: the first send: %+v", name, one)
			}
			next := rail.Send
			if asks {
				next = func(ctx context.Context, s rails.Send) rails.Result {
					return rail.(rails.Inquirer).Inquire(ctx, inquiryOf(rail, s))
				}
			}
			two := next(t.Context(), instruction(t))
			if two.Code == "AC06" || two.Reference == "b-of-the-first" {
				t.Errorf("%s, then asked: %t: what follows is taken for the next answer: %+v", name, asks, two)
			}
			if !two.FirstByte {
				t.Errorf("%s, then asked: %t: the next request did not leave: %+v", name, asks, two)
			}
			rail.(io.Closer).Close()
		}
	}
}

// TestSecondAnswerToAnInquiry: the first request may be an inquiry.
func TestSecondAnswerToAnInquiry(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"504":               page(504, ""),
		"404 of a gateway":  page(404, `<html>`),
		"unavailable":       page(200, `{"status":"UNAVAILABLE"}`),
		"a word in no list": page(200, `{"status":"SOMETHING"}`),
	} {
		url, _ := lateBank(t, func(*http.Request) string { return first },
			func(*http.Request) string { return page(200, `{"status":"EXECUTED","id":"b-of-the-first"}`) })
		c := config(t, url)
		c.Send.Response.Echo = ""
		rail := open(t, c, profile())
		ask := func() rails.Result {
			return rail.(rails.Inquirer).Inquire(t.Context(), inquiryOf(rail, instruction(t)))
		}
		if one := ask(); one.Result != payment.ResultUnavailable {
			t.Errorf("%s: the first inquiry: %+v", name, one)
		}
		for _, two := range []rails.Result{ask(), rail.Send(t.Context(), instruction(t))} {
			if two.Reference != "" || !two.FirstByte {
				t.Errorf("%s: the next request: %+v", name, two)
			}
		}
		rail.(io.Closer).Close()
	}
}

// TestConnectionIsKept: an answer by which the bank says what became of the payment leaves its connection for others.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) string{
		"accepted":            accepted,
		"refused, by a code":  func(*http.Request) string { return page(422, `{"status":"REFUSED","code":"AC04"}`) },
		"refused, with a 200": func(*http.Request) string { return page(200, `{"status":"REFUSED","code":"AC04"}`) },
		"lack of funds":       func(*http.Request) string { return page(422, `{"status":"REFUSED","code":"AM04"}`) },
	} {
		url, conns := lateBank(t, func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return page(404, `{"status":"NOT_FOUND"}`)
			}
			return answer(r)
		}, func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return page(404, `{"status":"NOT_FOUND"}`)
			}
			return answer(r)
		})
		rail := open(t, config(t, url), profile())
		for range 5 {
			s := instruction(t)
			if got := rail.Send(t.Context(), s); got.Result == payment.ResultUnknown {
				t.Errorf("%s: %+v", name, got)
			}
			if got := rail.(rails.Inquirer).Inquire(t.Context(), inquiryOf(rail, s)); got.Result != payment.ResultNotFound {
				t.Errorf("%s: the inquiry: %+v", name, got)
			}
		}
		rail.(io.Closer).Close()
		// On a machine that is slow the transport gives up a connection by itself.
		if n := conns.Load(); n > 4 {
			t.Errorf("%s: %d connections for ten calls, want 1", name, n)
		}
	}
}

// TestSecondAnswerAmongMany: the transport lends a connection to another call as soon as it has read the answer, before
// it is known what that says. That call waits for this, and then has a connection that it may use.
func TestSecondAnswerAmongMany(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"with a body": page(503, "busy"), "without a body": page(503, "")} {
		url, _ := lateBank(t, func(*http.Request) string { return first },
			func(*http.Request) string { return page(200, `{"status":"EXECUTED","id":"b-of-the-first"}`) })
		c := config(t, url)
		c.Send.Response.Echo = ""
		rail := open(t, c, profile())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 25 {
					if got := rail.Send(t.Context(), instruction(t)); got.Result != payment.ResultUnknown || !got.FirstByte {
						t.Errorf("%s: %+v, want UNKNOWN", name, got)
						return
					}
				}
			})
		}
		all.Wait()
		rail.(io.Closer).Close()
	}
}

// TestLentBeforeItIsRead: a call that gets a connection whose last answer is not evaluated yet waits for that, and then
// uses it, or another one.
func TestLentBeforeItIsRead(t *testing.T) {
	t.Parallel()
	const rounds = 10
	for name, c := range map[string]struct {
		first string
		most  int64 // connections in all rounds; on a machine that is slow the transport gives up some by itself
	}{
		"kept": {page(422, `{"status":"REFUSED","code":"AC04"}`), rounds + 3}, "not kept": {page(503, ""), 2*rounds + 3},
	} {
		var all int64
		for range rounds {
			url, conns := lateBank(t, func(*http.Request) string { return c.first },
				func(*http.Request) string { return page(422, `{"status":"REFUSED","code":"AC04"}`) })
			rail := open(t, config(t, url), profile())
			var once sync.Once
			wants := make(chan struct{})
			second := make(chan rails.Result, 1)
			s := instruction(t)
			s.OnPhase = func(phase rails.Phase) {
				if phase != rails.PhaseAnswered {
					return
				}
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GetConn: func(string) { once.Do(func() { close(wants) }) },
				})
				go func() { second <- rail.Send(ctx, instruction(t)) }()
				<-wants
			}
			rail.Send(t.Context(), s)
			if got := <-second; !got.FirstByte {
				t.Errorf("%s: %+v", name, got)
			}
			rail.(io.Closer).Close()
			all += conns.Load()
		}
		if all > c.most {
			t.Errorf("%s: %d connections in %d rounds, want at most %d", name, all, rounds, c.most)
		}
	}
}
