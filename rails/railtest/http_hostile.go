package railtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// garbage tests that what is not an answer proves nothing.
func (w httpWitness) garbage(t *testing.T, s Subject) {
	accepted := s.Sends[payment.ResultAccepted]
	for name, raw := range map[string]string{
		"not HTTP":            "hello\r\n\r\n",
		"HTTP/0.9":            accepted.Body,
		"no status":           "HTTP/1.1\r\n\r\n",
		"status of no number": "HTTP/1.1 OK 200\r\nContent-Length: 2\r\n\r\n{}",
		"HTML":                page(200, "<html>It works!</html>"),
		"empty":               page(200, ""),
		"null":                page(200, "null"),
		"a list":              page(200, "["+accepted.Body+"]"),
		"a string":            page(200, `"`+"EXECUTED"+`"`),
		"half":                page(200, accepted.Body[:len(accepted.Body)/2]),
		"twice":               page(200, accepted.Body+accepted.Body),
		"more after it":       page(200, accepted.Body+"<script>"),
		"not UTF-8":           page(200, accepted.Body+"\xff"),
		"an empty object":     page(200, "{}"),
		"no content":          "HTTP/1.1 204 No Content\r\n\r\n",
		"a refusal in HTML":   page(422, "<html>no</html>"),
		"an odd status":       page(299, accepted.Body),
		"a status of 999":     page(999, accepted.Body),
		"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
		"a field twice":       page(200, strings.Replace(accepted.Body, "{", `{"status":"REFUSED",`, 1)),
		"a server's error":    page(500, accepted.Body),
	} {
		send := s.Next()
		b := w.bank(t, func(c *client) {
			io.WriteString(c, strings.ReplaceAll(raw, "{rail_key}", send.RailKey))
			c.Close()
		})
		if got := s.Call(t, s.Begin(t, b.Address()), send); got.Result != payment.ResultUnknown || !got.FirstByte {
			t.Errorf("%s: %s (%s), want UNKNOWN", name, got.Result, got.Message)
		}
		if n := b.Times(send.RailKey); n != 1 {
			t.Errorf("%s: the bank saw the payment %d times", name, n)
		}
	}
}

// undecoded tests that a content coding that was not requested is not decoded, even around a valid
// answer. Decoding would let decompression bombs in.
func (w httpWitness) undecoded(t *testing.T, s Subject) {
	send := s.Next()
	b := w.bank(t, func(c *client) {
		if asked := c.request.header.Get("Accept-Encoding"); strings.Contains(asked, "gzip") {
			t.Errorf("the rail asks for %q", asked)
		}
		packed := gzipped([]byte(strings.ReplaceAll(s.Sends[payment.ResultAccepted].Body, "{rail_key}", send.RailKey)))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(packed), packed)
	})
	Want(t, s.Call(t, s.Begin(t, b.Address()), send), payment.ResultUnknown, true)
}

// page returns an answer with the right length; the rail key has 34 characters.
func page(status int, body string) string {
	length := len(strings.ReplaceAll(body, "{rail_key}", strings.Repeat("k", 34)))
	return fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status,
		length, body)
}

// cutOff tests a connection that ends at each point of an acceptance.
func (w httpWitness) cutOff(t *testing.T, s Subject) {
	send := s.Next()
	whole := page(200, strings.ReplaceAll(s.Sends[payment.ResultAccepted].Body, "{rail_key}", send.RailKey))
	var length atomic.Int64
	var hard atomic.Bool
	b := w.bank(t, func(c *client) {
		io.WriteString(c, whole[:length.Load()])
		if hard.Load() {
			c.reset()
		}
		c.Close()
	})
	rail := s.Begin(t, b.Address())
	for cut := 0; cut < len(whole); cut += 7 {
		length.Store(int64(cut))
		hard.Store(cut%2 == 0)
		Want(t, s.Call(t, rail, send), payment.ResultUnknown, true)
	}
	length.Store(int64(len(whole)))
	hard.Store(false)
	Want(t, s.Call(t, rail, send), payment.ResultAccepted, true)
}

// boundedAnswers tests that no answer costs more memory or time than a valid one.
func (w httpWitness) boundedAnswers(t *testing.T, s Subject) {
	s = s.Hurried()
	accepted := strings.TrimSuffix(s.Sends[payment.ResultAccepted].Body, "}")
	zeros := gzipped(make([]byte, 64<<20))
	for name, behave := range map[string]func(c *client){
		"a body without end": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+accepted+`,"x":"`)
			c.stream(strings.Repeat("a", 32<<10), 0)
		},
		"chunks without end": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			c.stream("1000\r\n"+strings.Repeat("a", 0x1000)+"\r\n", 0)
		},
		"a gigabyte announced": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
			c.stream(strings.Repeat("a", 32<<10), 0)
		},
		"a gzip bomb": func(c *client) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(zeros), zeros)
		},
		"headers without end": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			c.stream("X-More: "+strings.Repeat("a", 1000)+"\r\n", 0)
		},
		"informational answers without end": func(c *client) {
			c.stream("HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n", 0)
		},
		"a body in drips": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
			c.stream(" ", 5*time.Millisecond)
		},
		"a header in drips": func(c *client) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Slow: ")
			c.stream("a", 5*time.Millisecond)
		},
	} {
		b := w.bank(t, func(c *client) {
			behave(c)
			c.Close()
		})
		rail := s.Begin(t, b.Address())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := s.Call(t, rail, s.Next())
		runtime.ReadMemStats(&after)
		if got.Result != payment.ResultUnknown || !got.FirstByte {
			t.Errorf("%s: %s (%s), want UNKNOWN", name, got.Result, got.Message)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: the call allocated %d bytes", name, used)
		}
		b.Close()
	}
}

func gzipped(text []byte) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // a bytes.Buffer takes everything
	_ = w.Close()
	return out.String()
}

// hangs tests that a bank that stops at any point costs no more than the budget, and does not
// affect other calls of the rail.
func (w httpWitness) hangs(t *testing.T, s Subject) {
	s = s.Hurried()
	for name, said := range map[string]string{
		"before the answer":     "",
		"in the status line":    "HTTP/1.1 2",
		"in the header":         "HTTP/1.1 200 OK\r\nContent-",
		"before the body":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
		"in the body":           "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"sta",
		"in a chunk":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"sta",
		"after an early answer": "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		b := w.bank(t, func(c *client) {
			io.WriteString(c, said)
			c.Hang()
		})
		send := s.Next()
		got := s.Call(t, s.Begin(t, b.Address()), send)
		if got.Result != payment.ResultUnknown || !got.FirstByte || got.OwnStop {
			t.Errorf("%s: %+v, want UNKNOWN by the bank's fault", name, got)
		}
		if n := b.Times(send.RailKey); n != 1 {
			t.Errorf("%s: the bank saw the payment %d times", name, n)
		}
	}
}

// noRedirect tests that no redirect takes the money elsewhere.
func (w httpWitness) noRedirect(t *testing.T, s Subject) {
	elsewhere := w.bank(t, func(c *client) { c.Say(s.Sends[payment.ResultAccepted]) })
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		b := w.bank(t, func(c *client) {
			fmt.Fprintf(c, "HTTP/1.1 %d Elsewhere\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n", status, elsewhere.Address())
		})
		rail := s.Begin(t, b.Address())
		if got := s.Call(t, rail, s.Next()); got.Result != payment.ResultUnknown {
			t.Errorf("HTTP %d: %s (%s)", status, got.Result, got.Message)
		}
		if len(s.Inquiries) > 0 {
			Want(t, s.Inquire(t, rail, s.Question()), payment.ResultUnavailable, true)
		}
	}
	if n := elsewhere.Arrived(); n != 0 {
		t.Errorf("%d bytes went elsewhere", n)
	}
}

// pagesProveNothing tests that what is not an answer to an inquiry is UNAVAILABLE, and that a page
// which the bank did not write is not "not found".
func (w httpWitness) pagesProveNothing(t *testing.T, s Subject) {
	if len(s.Inquiries) == 0 {
		return
	}
	for name, raw := range map[string]string{
		"HTML":            page(200, "<html>It works!</html>"),
		"a proxy's 404":   page(404, "<html>Not Found</html>"),
		"a bare 404":      page(404, ""),
		"an empty object": page(404, "{}"),
		"unauthorized":    page(401, "{}"),
		"unavailable":     page(503, "{}"),
		"half an answer":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"nothing":         "",
		"not HTTP":        "hello",
	} {
		b := w.bank(t, func(c *client) {
			io.WriteString(c, raw)
			c.Cut()
		})
		if got := s.Inquire(t, s.Begin(t, b.Address()), s.Question()); got.Result != payment.ResultUnavailable {
			t.Errorf("%s: %s (%s), want UNAVAILABLE", name, got.Result, got.Message)
		}
		if n := b.Asked(); n != 1 {
			t.Errorf("%s: the bank was asked %d times", name, n)
		}
	}
}
