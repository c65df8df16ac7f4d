package railtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// everyResult tests that each result of a send has an answer that leads to it.
func everyResult(t *testing.T, s Subject) {
	for _, result := range payment.SendResults() {
		if result == payment.ResultNotSent {
			continue // tested by nothingListens
		}
		if result == payment.ResultExecuted && s.Profile.Acceptance != payment.AcceptanceByAnswer {
			continue // not a result of a send there
		}
		answer, ok := s.Sends[result]
		if !ok {
			t.Errorf("the subject has no answer for %s", result)
			continue
		}
		send := s.next()
		b := openBank(t, func(c *client) { c.say(answer, send.RailKey) })
		got := s.send(t, s.open(t, b.url), send)
		want(t, got, result, true)
		if result == payment.ResultAccepted && got.Reference == "" {
			t.Error("an acceptance without the bank's reference")
		}
		if n := b.times(send.RailKey); n != 1 {
			t.Errorf("%s: the bank saw the payment %d times", result, n)
		}
	}
}

func everyInquiryResult(t *testing.T, s Subject) {
	if len(s.Inquiries) == 0 {
		rail := s.open(t, closedPort(t))
		if _, can := rail.(rails.Inquirer); can {
			t.Error("the rail can be asked and the subject has no answers for it")
		}
		return
	}
	for _, result := range payment.InquiryResults() {
		if result == payment.ResultNotSent {
			continue
		}
		answer, ok := s.Inquiries[result]
		if !ok {
			t.Errorf("the subject has no answer for %s", result)
			continue
		}
		q := s.question()
		b := openBank(t, func(c *client) { c.say(answer, q.RailKey) })
		want(t, s.inquire(t, s.open(t, b.url), q), result, true)
		if n := len(b.requests()); n != 1 {
			t.Errorf("%s: the bank was asked %d times", result, n)
		}
	}
}

func (s Subject) question() rails.Inquiry {
	send := s.next()
	return rails.Inquiry{
		OutboxID: send.OutboxID, RailKey: send.RailKey, InstructionID: send.InstructionID,
		ParticipantID: send.ParticipantID, Reference: "suite-1", SendNo: 1,
	}
}

// nothingListens tests that a call that can't be made is NOT_SENT, and counts against the rail.
func nothingListens(t *testing.T, s Subject) {
	rail := s.open(t, closedPort(t))
	got := s.send(t, rail, s.next())
	want(t, got, payment.ResultNotSent, false)
	if got.OwnStop {
		t.Error("a refused connection counts as our own stop")
	}
	if len(s.Inquiries) > 0 {
		want(t, s.inquire(t, rail, s.question()), payment.ResultNotSent, false)
	}
}

func stoppedBeforeTheCall(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.Close() })
	rail := s.open(t, b.url)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := rail.Send(ctx, s.next())
	want(t, got, payment.ResultNotSent, false)
	if !got.OwnStop {
		t.Error("our own cancellation counts against the rail")
	}
	if n := b.arrived(); n != 0 {
		t.Errorf("%d bytes arrived", n)
	}
}

// vetoBeforeFirstByte tests that BeforeFirstByte is called once a connection is ready, and that its
// error keeps every byte back, on a new connection and on a reused one.
func vetoBeforeFirstByte(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], c.railKey(s)) })
	rail := s.open(t, b.url)
	stale := errors.New("the claim is too old")
	refuse := func() error { return stale }

	vetoed := s.next()
	vetoed.BeforeFirstByte = refuse
	got := s.send(t, rail, vetoed)
	want(t, got, payment.ResultNotSent, false)
	if !got.OwnStop {
		t.Error("our own veto counts against the rail")
	}
	if n := b.arrived(); n != 0 {
		t.Errorf("%d bytes arrived in spite of the veto", n)
	}

	paid := s.next()
	want(t, s.send(t, rail, paid), payment.ResultAccepted, true)
	again := s.next()
	again.BeforeFirstByte = refuse
	want(t, s.send(t, rail, again), payment.ResultNotSent, false)
	if n := b.times(again.RailKey); n != 0 {
		t.Errorf("a used connection carried the payment %d times in spite of the veto", n)
	}
}

// heldUpBeforeFirstByte tests a process that stalls between BeforeFirstByte and the first byte for
// longer than the write may take. The answer of BeforeFirstByte is then out of date, and nothing
// may be sent.
func heldUpBeforeFirstByte(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], c.railKey(s)) })
	for name, hold := range map[string]func(*rails.Send, func()){
		"in BeforeFirstByte": func(send *rails.Send, freeze func()) {
			send.BeforeFirstByte = func() error { freeze(); return nil }
		},
		"in OnPhase": func(send *rails.Send, freeze func()) {
			send.OnPhase = func(phase rails.Phase) {
				if phase == rails.PhaseFirstByte {
					freeze()
				}
			}
		},
	} {
		for _, connection := range []string{"new", "used"} {
			rail := s.hurried().open(t, b.url)
			if connection == "used" {
				want(t, s.send(t, rail, s.next()), payment.ResultAccepted, true)
			}
			held := s.next()
			hold(&held, func() { <-time.After(2 * hasty) })
			got := s.hurried().send(t, rail, held)
			want(t, got, payment.ResultNotSent, false)
			if !got.OwnStop {
				t.Errorf("%s, %s connection: our own delay counts against the rail", name, connection)
			}
			if n := b.times(held.RailKey); n != 0 {
				t.Errorf("%s, %s connection: the bank saw the payment %d times", name, connection, n)
			}
		}
	}
}

func phasesInOrder(t *testing.T, s Subject) {
	var mu sync.Mutex
	var heard []rails.Phase
	send := s.next()
	b := openBank(t, func(c *client) { c.say(s.Sends[payment.ResultAccepted], send.RailKey) })
	send.BeforeFirstByte = func() error {
		if n := b.arrived(); n != 0 {
			t.Errorf("%d bytes were there before the first byte", n)
		}
		return nil
	}
	send.OnPhase = func(phase rails.Phase) {
		if phase == rails.PhaseFirstByte && b.arrived() != 0 {
			t.Error("the first byte was announced after it had left")
		}
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, phase)
	}
	want(t, s.send(t, s.open(t, b.url), send), payment.ResultAccepted, true)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(heard, []rails.Phase{rails.PhaseDialled, rails.PhaseFirstByte, rails.PhaseAnswered}) {
		t.Errorf("phases %v", heard)
	}
}

// anotherPayment tests that an acceptance of another payment is not an acceptance of ours.
func anotherPayment(t *testing.T, s Subject) {
	send := s.next()
	b := openBank(t, func(c *client) { c.say(s.OtherPayment, send.RailKey) })
	want(t, s.send(t, s.open(t, b.url), send), payment.ResultUnknown, true)
}

func unmappedCode(t *testing.T, s Subject) {
	send := s.next()
	b := openBank(t, func(c *client) { c.say(s.UnmappedCode, send.RailKey) })
	got := s.send(t, s.open(t, b.url), send)
	want(t, got, payment.ResultUnknown, true)
	if !got.Unmapped || got.Code == "" || got.CodeTable == "" {
		t.Errorf("an unmapped code must be named and counted: %+v", got)
	}
}
