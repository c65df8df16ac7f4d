package railtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// oneRequestASend tests that a bank that takes the payment and closes the connection without an
// answer receives it once. On a reused connection HTTP libraries send again by themselves, in
// particular with an Idempotency-Key header.
func oneRequestASend(t *testing.T, s Subject) {
	var mute atomic.Bool
	b := openBank(t, func(c *client) {
		if mute.Load() {
			c.Close()
			return
		}
		c.say(s.Sends[payment.ResultAccepted], c.railKey(s))
	})
	rail := s.open(t, b.url)
	for n := range 6 {
		first := s.next()
		mute.Store(false)
		want(t, s.send(t, rail, first), payment.ResultAccepted, true)
		second := s.next()
		mute.Store(true)
		want(t, s.send(t, rail, second), payment.ResultUnknown, true)
		if times := b.times(second.RailKey); times != 1 {
			t.Errorf("round %d: the bank saw the payment %d times", n, times)
		}
	}
	reused := 0
	for _, request := range b.requests() {
		if request.reused {
			reused++
		}
	}
	if reused == 0 {
		t.Log("the rail never used a connection twice; the trap could not close")
	}
}

// manyAtOnce tests that concurrent sends are one request each, and get their own answers.
func manyAtOnce(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], c.railKey(s)) })
	rail := s.open(t, b.url)
	sends := make([]rails.Send, 64)
	var calls sync.WaitGroup
	for n := range sends {
		sends[n] = s.next()
		calls.Go(func() { want(t, s.send(t, rail, sends[n]), payment.ResultAccepted, true) })
	}
	calls.Wait()
	for _, send := range sends {
		if times := b.times(send.RailKey); times != 1 {
			t.Errorf("the bank saw a payment %d times", times)
		}
	}
}

// railKey returns the rail key of a request: every adapter has to put it somewhere.
func (c *client) railKey(s Subject) string {
	if s.KeyHeader != "" {
		return c.request.header.Get(s.KeyHeader)
	}
	at := bytes.Index(c.request.body, []byte("rh0"))
	if at < 0 || len(c.request.body) < at+34 {
		return ""
	}
	return string(c.request.body[at : at+34])
}

// notSentIsFinal tests that calls cancelled at any moment return NOT_SENT only if the bank receives
// nothing, then or later.
func notSentIsFinal(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], c.railKey(s)) })
	rail := s.open(t, b.url)
	var unsent []string
	for range 300 {
		send := s.next()
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rand.IntN(600))*time.Microsecond, cancel)
		got := rail.Send(ctx, send)
		timer.Stop()
		cancel()
		switch got.Result {
		case payment.ResultNotSent:
			unsent = append(unsent, send.RailKey)
		case payment.ResultAccepted:
		case payment.ResultUnknown:
			if !got.FirstByte || !got.OwnStop {
				t.Errorf("a cancelled call: %+v", got)
			}
		default:
			t.Errorf("a cancelled call: %+v", got)
		}
	}
	// A last payment uses the same connections, so that whatever was under way has arrived.
	last := s.next()
	want(t, s.send(t, rail, last), payment.ResultAccepted, true)
	b.close()
	for _, key := range unsent {
		if n := b.times(key); n != 0 {
			t.Errorf("NOT_SENT was said of a payment that the bank has %d times", n)
		}
	}
}

// cancelAfterFirstByte tests that a call cancelled after the first byte is UNKNOWN, at once.
func cancelAfterFirstByte(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := openBank(t, func(c *client) {
		cancel()
		c.hang()
	})
	send := s.next()
	got := s.open(t, b.url).Send(ctx, send)
	want(t, got, payment.ResultUnknown, true)
	if !got.OwnStop {
		t.Error("our own cancellation counts against the rail")
	}
	if n := b.times(send.RailKey); n != 1 {
		t.Errorf("the bank saw the payment %d times", n)
	}
}

// noRedirect tests that no redirect takes the money elsewhere.
func noRedirect(t *testing.T, s Subject) {
	elsewhere := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], c.railKey(s)) })
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		b := openBank(t, func(c *client) {
			fmt.Fprintf(c, "HTTP/1.1 %d Elsewhere\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n", status, elsewhere.url)
		})
		rail := s.open(t, b.url)
		if got := s.send(t, rail, s.next()); got.Result != payment.ResultUnknown {
			t.Errorf("HTTP %d: %s (%s)", status, got.Result, got.Message)
		}
		if len(s.Inquiries) > 0 {
			want(t, s.inquire(t, rail, s.question()), payment.ResultUnavailable, true)
		}
	}
	if n := elsewhere.arrived(); n != 0 {
		t.Errorf("%d bytes went elsewhere", n)
	}
}

// sameBytes tests that each send of an instruction is the same request, whichever process makes it.
func sameBytes(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultUnknown], c.railKey(s)) })
	send := s.next()
	var version string
	for n := range 4 {
		rail := s.open(t, b.url)
		if n > 0 && rail.RenderVersion() != version {
			t.Errorf("render version %q, before %q", rail.RenderVersion(), version)
		}
		version = rail.RenderVersion()
		send.SendNo = n + 1
		s.send(t, rail, send)
	}
	if version == "" {
		t.Error("the rail has no render version")
	}
	all := b.requests()
	if len(all) != 4 {
		t.Fatalf("the bank saw %d requests, want 4", len(all))
	}
	for _, request := range all[1:] {
		if !bytes.Equal(request.body, all[0].body) || request.method != all[0].method || request.target != all[0].target {
			t.Errorf("a later send differs:\n%s %s %s\n%s %s %s", all[0].method, all[0].target, all[0].body,
				request.method, request.target, request.body)
		}
		if s.KeyHeader != "" && request.header.Get(s.KeyHeader) != send.RailKey {
			t.Errorf("%s is %q, want the rail key %q", s.KeyHeader, request.header.Get(s.KeyHeader), send.RailKey)
		}
	}
}

// anotherSystem tests two banks at two addresses: the second does not have what was sent to the
// first. The render version distinguishes them, so that no payment is sent again to the other, and
// an inquiry there proves nothing.
func anotherSystem(t *testing.T, s Subject) {
	first, second := openBank(t, func(c *client) { c.Close() }), openBank(t, func(c *client) {
		c.say(s.Inquiries[payment.ResultNotFound], c.railKey(s))
	})
	before, after := s.open(t, first.url).RenderVersion(), s.open(t, second.url)
	if before == after.RenderVersion() {
		t.Errorf("render version %q for two systems: a re-send would go to one that does not know the key", before)
	}
	if len(s.Inquiries) == 0 {
		return
	}
	q := s.question()
	q.RenderVersion = before
	got := s.inquire(t, after, q)
	want(t, got, payment.ResultUnavailable, false)
	if n := second.arrived(); n != 0 || !got.OwnStop {
		t.Errorf("the other system was asked with %d bytes, or it counts against the rail: %+v", n, got)
	}
	q.RenderVersion = after.RenderVersion()
	want(t, s.inquire(t, after, q), payment.ResultNotFound, true)
}

// reset ends a connection so that the client gets an error and no end of file.
func (c *client) reset() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		if err := conn.SetLinger(0); err != nil && !errors.Is(err, net.ErrClosed) {
			return
		}
	}
	c.Close()
}
