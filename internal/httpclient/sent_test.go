package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestNothingWasSent: where no attempt had a connection, or the caller had ended the call before the first one, the
// error says that nothing was sent. It does not after an attempt that had a connection.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	failed := func(op string) transport {
		return func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("calling: %w", &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET})
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for what, c := range map[string]struct {
		ctx   context.Context
		calls []http.RoundTripper // the last one again and again
		want  error
	}{
		"ended before":         {ended, []http.RoundTripper{failed("read")}, context.Canceled},
		"no connection":        {t.Context(), []http.RoundTripper{failed("dial")}, syscall.ECONNRESET},
		"no server":            {t.Context(), []http.RoundTripper{&http.Transport{}}, syscall.ECONNREFUSED},
		"lost":                 {t.Context(), []http.RoundTripper{failed("read")}, outbox.ErrCommitUnknown},
		"no connection, lost":  {t.Context(), []http.RoundTripper{failed("dial"), failed("write")}, outbox.ErrCommitUnknown},
		"lost, no connections": {t.Context(), []http.RoundTripper{failed("read"), failed("dial")}, outbox.ErrCommitUnknown},
	} {
		for _, way := range []string{"one", "batch"} {
			calls := 0
			client, err := httpclient.NewHTTP(httpclient.Config{
				BaseURL: "http://127.0.0.1:1", Attempts: 3, Backoff: time.Millisecond,
				Token: func(context.Context) (string, error) { return "token", nil },
				Transport: transport(func(request *http.Request) (*http.Response, error) {
					calls++
					return c.calls[min(calls, len(c.calls))-1].RoundTrip(request)
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			if way == "one" {
				_, err = client.Enqueue(c.ctx, instruction("i", "k", `{}`))
			} else {
				_, err = client.EnqueueBatch(c.ctx, []payment.Instruction{instruction("i", "k", `{}`)})
			}
			unknown := c.want == outbox.ErrCommitUnknown
			if !errors.Is(err, c.want) || errors.Is(err, outbox.ErrCommitUnknown) != unknown ||
				!unknown && !strings.Contains(err.Error(), "nothing was sent") || (calls == 0) != (c.ctx == ended) {
				t.Errorf("%s, %s: %d calls: %v", what, way, calls, err)
			}
		}
	}
}

// TestSentBeforeTheConnectionFailed: package net/http sends an enqueue again by itself where an idle connection breaks
// under it. That it has no second connection does not mean that nothing was sent.
func TestSentBeforeTheConnectionFailed(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"outbox_id": %q, "instruction_id": "i-1", "participant_id": "p1", "idempotency_key": "k-1"}`,
				payment.NewID())
			return
		}
		server.Listener.Close()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	client, err := httpclient.NewHTTP(httpclient.Config{BaseURL: server.URL, Attempts: 1, Transport: own,
		Token: func(context.Context) (string, error) { return "token", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(t.Context(), instruction("i-1", "k-1", `{}`)); err != nil {
		t.Fatal(err)
	}
	_, err = client.Enqueue(t.Context(), instruction("i-2", "k-2", `{}`))
	if !errors.Is(err, outbox.ErrCommitUnknown) || !errors.Is(err, syscall.ECONNREFUSED) || calls.Load() != 2 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
}

// TestSentOverTwoConnections: what is refused by the connection over which package net/http, or the transport, sends a
// call again may have been done over the one before. That is so of no reading.
func TestSentOverTwoConnections(t *testing.T) {
	t.Parallel()
	for what, refusal := range map[string]string{
		"401": ofAPI("unauthorized", `"title": "no"`), "403": ofAPI("forbidden", `"title": "no"`),
		"422": ofAPI("invalid-instruction", `"title": "no", "code": "RH002"`),
		"429": ofAPI("over-quota", `"title": "no"`), "503": ofAPI("unavailable", `"title": "no", "commit": "none"`),
	} {
		status, err := strconv.Atoi(what)
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch calls.Add(1) {
			case 1:
				fmt.Fprintf(w, `{"outbox_id": %q, "instruction_id": "i-1", "participant_id": "p1", "idempotency_key": "k-1"}`,
					payment.NewID())
			case 2: // it is stored, and the API dies
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(status)
				io.WriteString(w, refusal) //nolint:errcheck // a test
			}
		}))
		own := &http.Transport{}
		client, err := httpclient.NewHTTP(httpclient.Config{BaseURL: server.URL, Attempts: 1, Transport: own,
			Token: func(context.Context) (string, error) { return "token", nil }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Enqueue(t.Context(), instruction("i-1", "k-1", `{}`)); err != nil {
			t.Fatal(err)
		}
		_, err = client.Enqueue(t.Context(), instruction("i-2", "k-2", `{}`))
		if calls.Load() != 3 || !errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("%s: %d calls: %v", what, calls.Load(), err)
		}
		own.CloseIdleConnections()
		server.Close()
	}
	for _, text := range []string{lineOne + "\n" + ended, unread, `{"line": 1, "status": 429, "problem": {` + typed + `"title": "full"}}`,
		ofAPI("unauthorized", `"title": "no"`), ofAPI("unavailable", `"title": "no", "commit": "none", "retry_after": 30`)} {
		synctest.Test(t, func(t *testing.T) {
			client := over(t, func(request *http.Request) (*http.Response, error) {
				for range 2 {
					httptrace.ContextClientTrace(request.Context()).GotConn(httptrace.GotConnInfo{})
				}
				return answer(map[bool]int{true: 401, false: 200}[strings.HasPrefix(text, `{"type"`)], text)
			})
			results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{instruction("i-1", "k-1", `{}`)})
			if !errors.Is(err, outbox.ErrCommitUnknown) {
				t.Errorf("%s: %+v, %v", text, results, err)
			}
		})
	}
}

// TestMomentsThatJSONLacks: an instruction with a moment that JSON can't express is refused by the name of that field.
func TestMomentsThatJSONLacks(t *testing.T) {
	t.Parallel()
	client := over(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("it is sent") })
	late := time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	for field, makes := range map[string]func(*payment.Instruction){
		"not_before": func(in *payment.Instruction) { in.NotBefore = late },
		"expires_at": func(in *payment.Instruction) { in.ExpiresAt = late },
		"payload":    func(in *payment.Instruction) { in.Payload = []byte("{") },
	} {
		in := instruction("i", "k", `{}`)
		makes(&in)
		_, err := client.Enqueue(t.Context(), in)
		fault, ok := errors.AsType[*outbox.Fault](err)
		if !ok || fault.Field != field || !errors.Is(err, outbox.ErrInvalid) || !strings.HasPrefix(fault.Message, field) {
			t.Errorf("%s: %v", field, err)
		}
		results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{in})
		if err != nil || results[0].Fault == nil || *results[0].Fault != *fault {
			t.Errorf("%s: %+v, %v", field, results, err)
		}
	}
}

// TestLineRefusedForNow: a line that is refused with a code until the attempts have run out has that refusal, and the
// others have their results. One that is or was in doubt, or has no such answer, has none.
func TestLineRefusedForNow(t *testing.T) {
	t.Parallel()
	const (
		closed  = `{"line": %d, "status": 503, "problem": {` + typed + `"title": "closed", "code": "RH014", "commit": "none"}}`
		busy    = `{"line": %d, "status": 503, "problem": {` + typed + `"title": "busy", "commit": "none"}}`
		unclear = `{"line": %d, "status": 500, "problem": {` + typed + `"title": "failed", "code": "RH014", "commit": "unknown"}}`
		doubt   = `{"line": %d, "status": 503, "problem": {` + typed + `"title": "unknown", "commit": "unknown"}}`
		ended1  = `{"end": true, "status": 200, "lines": 1}`
		none    = `{"end": true, "status": 503, "problem": {` + typed + `"title": "later", "commit": "none"}}`
	)
	of := func(line string, n int) string { return fmt.Sprintf(line, n) }
	for what, c := range map[string]struct {
		says [][]string // the last one again and again
		want error      // of the call
		line []error    // of each
	}{
		"one is closed":         {[][]string{{first, of(closed, 2), ended}, {of(closed, 1), ended1}}, nil, []error{nil, outbox.ErrEnqueueClosed}},
		"both are":              {[][]string{{of(closed, 1), of(closed, 2), ended}}, nil, []error{outbox.ErrEnqueueClosed, outbox.ErrEnqueueClosed}},
		"closed, then unread":   {[][]string{{first, of(closed, 2), ended}, {none}}, nil, []error{nil, outbox.ErrEnqueueClosed}},
		"closed, then busy":     {[][]string{{first, of(closed, 2), ended}, {of(busy, 1), ended1}}, outbox.ErrCommitUnknown, nil},
		"in doubt, then closed": {[][]string{{first, of(doubt, 2), ended}, {of(closed, 1), ended1}}, outbox.ErrCommitUnknown, nil},
		"closed, then in doubt": {[][]string{{first, of(closed, 2), ended}, {of(doubt, 1), ended1}}, outbox.ErrCommitUnknown, nil},
		"one of two in doubt":   {[][]string{{of(closed, 1), of(doubt, 2), ended}}, outbox.ErrCommitUnknown, nil},
		"with a code, unknown":  {[][]string{{first, of(unclear, 2), ended}, {of(unclear, 1), ended1}}, outbox.ErrCommitUnknown, nil},
		"all with a code":       {[][]string{{of(unclear, 1), of(unclear, 2), ended}}, outbox.ErrCommitUnknown, nil},
		"opened":                {[][]string{{first, of(closed, 2), ended}, {first, ended1}}, nil, []error{nil, nil}},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client := over(t, func(*http.Request) (*http.Response, error) {
				calls++
				return ofBatch(c.says[min(calls, len(c.says))-1]...)
			})
			results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{
				instruction("i-1", "k-1", `{}`), instruction("i-2", "k-2", `{}`)})
			if !errors.Is(err, c.want) || len(results) != len(c.line) || errors.Is(err, outbox.ErrEnqueueClosed) {
				t.Errorf("%s: after %d calls %+v, %v", what, calls, results, err)
				return
			}
			for n, want := range c.line {
				fault := results[n].Fault
				if want == nil && (fault != nil || results[n].Receipt.OutboxID == (payment.ID{})) ||
					want != nil && (fault == nil || !errors.Is(fault, want)) {
					t.Errorf("%s: line %d: %+v", what, n+1, results[n])
				}
			}
		})
	}
}
