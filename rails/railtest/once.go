package railtest

import (
	"context"
	"math/rand/v2"
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
	b := s.Witness.Open(t, func(c Request) {
		if mute.Load() {
			c.Cut()
			return
		}
		c.Say(s.Sends[payment.ResultAccepted])
	})
	rail := s.Begin(t, b.Address())
	for n := range 6 {
		first := s.Next()
		mute.Store(false)
		Want(t, s.Call(t, rail, first), payment.ResultAccepted, true)
		second := s.Next()
		mute.Store(true)
		Want(t, s.Call(t, rail, second), payment.ResultUnknown, true)
		if times := b.Times(second.RailKey); times != 1 {
			t.Errorf("round %d: the bank saw the payment %d times", n, times)
		}
	}
	if one, ok := b.(interface{ reused() bool }); ok && !one.reused() {
		t.Log("the rail never used a connection twice; the trap could not close")
	}
}

// manyAtOnce tests that concurrent sends are one request each, and get their own answers.
func manyAtOnce(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultAccepted]) })
	rail := s.Begin(t, b.Address())
	sends := make([]rails.Send, 64)
	var calls sync.WaitGroup
	for n := range sends {
		sends[n] = s.Next()
		calls.Go(func() { Want(t, s.Call(t, rail, sends[n]), payment.ResultAccepted, true) })
	}
	calls.Wait()
	for _, send := range sends {
		if times := b.Times(send.RailKey); times != 1 {
			t.Errorf("the bank saw a payment %d times", times)
		}
	}
}

// notSentIsFinal tests that calls cancelled at any moment return NOT_SENT only if the bank receives
// nothing, then or later.
func notSentIsFinal(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultAccepted]) })
	rail := s.Begin(t, b.Address())
	var unsent []string
	for range 300 {
		send := s.Next()
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
	last := s.Next()
	Want(t, s.Call(t, rail, last), payment.ResultAccepted, true)
	b.Close()
	for _, key := range unsent {
		if n := b.Times(key); n != 0 {
			t.Errorf("NOT_SENT was said of a payment that the bank has %d times", n)
		}
	}
}

// cancelAfterFirstByte tests that a call cancelled after the first byte is UNKNOWN, at once.
func cancelAfterFirstByte(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := s.Witness.Open(t, func(c Request) {
		cancel()
		c.Hang()
	})
	send := s.Next()
	got := s.Begin(t, b.Address()).Send(ctx, send)
	Want(t, got, payment.ResultUnknown, true)
	if !got.OwnStop {
		t.Error("our own cancellation counts against the rail")
	}
	if n := b.Times(send.RailKey); n != 1 {
		t.Errorf("the bank saw the payment %d times", n)
	}
}

// sameBytes tests that each send of an instruction is the same request, whichever process makes it.
func sameBytes(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultUnknown]) })
	send, began := s.Next(), time.Now()
	var version string
	for n := range 4 {
		rail := s.Begin(t, b.Address())
		if n > 0 && rail.RenderVersion() != version {
			t.Errorf("render version %q, before %q", rail.RenderVersion(), version)
		}
		version = rail.RenderVersion()
		send.SendNo, send.FirstSentAt = n+1, began
		s.Call(t, rail, send)
	}
	if version == "" {
		t.Error("the rail has no render version")
	}
	all := b.Sends()
	if len(all) != 4 {
		t.Fatalf("the bank saw %d requests, want 4", len(all))
	}
	for _, request := range all[1:] {
		if request != all[0] {
			t.Errorf("a later send differs:\n%s\n%s", all[0], request)
		}
	}
	if n := b.Times(send.RailKey); n != 4 {
		t.Errorf("the rail key arrived %d times, want 4", n)
	}
}

// anotherSystem tests two banks at two addresses: the second does not have what was sent to the
// first. The render version distinguishes them, so that no payment is sent again to the other, and
// an inquiry there proves nothing.
func anotherSystem(t *testing.T, s Subject) {
	first := s.Witness.Open(t, func(c Request) { c.Cut() })
	second := s.Witness.Open(t, func(c Request) { c.Say(s.Inquiries[payment.ResultNotFound]) })
	before, after := s.Begin(t, first.Address()).RenderVersion(), s.Begin(t, second.Address())
	if before == after.RenderVersion() {
		t.Errorf("render version %q for two systems: a re-send would go to one that does not know the key", before)
	}
	if len(s.Inquiries) == 0 {
		return
	}
	q := s.Question()
	q.RenderVersion = before
	got := s.Inquire(t, after, q)
	Want(t, got, payment.ResultUnavailable, false)
	if n := second.Arrived(); n != 0 || !got.OwnStop {
		t.Errorf("the other system was asked with %d bytes, or it counts against the rail: %+v", n, got)
	}
	q.RenderVersion = after.RenderVersion()
	Want(t, s.Inquire(t, after, q), payment.ResultNotFound, true)
}
