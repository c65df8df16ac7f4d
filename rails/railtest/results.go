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
		if !ok && s.without(t, string(result)) {
			continue
		}
		if !ok {
			t.Errorf("the subject has no answer for %s", result)
			continue
		}
		send := s.Next()
		b := s.Witness.Open(t, func(c Request) { c.Say(answer) })
		got := s.Call(t, s.Begin(t, b.Address()), send)
		Want(t, got, result, true)
		if result == payment.ResultAccepted && got.Reference == "" {
			t.Error("an acceptance without the bank's reference")
		}
		if n := b.Times(send.RailKey); n != 1 {
			t.Errorf("%s: the bank saw the payment %d times", result, n)
		}
	}
}

func everyInquiryResult(t *testing.T, s Subject) {
	if len(s.Inquiries) == 0 {
		rail := s.Begin(t, s.Witness.Nowhere(t))
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
		if !ok && s.without(t, string(result)) {
			continue
		}
		if !ok {
			t.Errorf("the subject has no answer for %s", result)
			continue
		}
		q := s.Question()
		b := s.Witness.Open(t, func(c Request) { c.Say(answer) })
		Want(t, s.Inquire(t, s.Begin(t, b.Address()), q), result, true)
		if n := b.Asked(); n != 1 {
			t.Errorf("%s: the bank was asked %d times", result, n)
		}
	}
}

// nothingListens tests that a call that can't be made is NOT_SENT, and counts against the rail.
func nothingListens(t *testing.T, s Subject) {
	rail := s.Begin(t, s.Witness.Nowhere(t))
	got := s.Call(t, rail, s.Next())
	Want(t, got, payment.ResultNotSent, false)
	if got.OwnStop {
		t.Error("a refused connection counts as our own stop")
	}
	if len(s.Inquiries) > 0 {
		Want(t, s.Inquire(t, rail, s.Question()), payment.ResultNotSent, false)
	}
}

func stoppedBeforeTheCall(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Cut() })
	rail := s.Begin(t, b.Address())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := rail.Send(ctx, s.Next())
	Want(t, got, payment.ResultNotSent, false)
	if !got.OwnStop {
		t.Error("our own cancellation counts against the rail")
	}
	if n := b.Arrived(); n != 0 {
		t.Errorf("%d bytes arrived", n)
	}
}

// vetoBeforeFirstByte tests that BeforeFirstByte is called once a connection is ready, and that its
// error keeps every byte back, on a new connection and on a reused one.
func vetoBeforeFirstByte(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultAccepted]) })
	rail := s.Begin(t, b.Address())
	stale := errors.New("the claim is too old")
	refuse := func() error { return stale }

	vetoed := s.Next()
	vetoed.BeforeFirstByte = refuse
	got := s.Call(t, rail, vetoed)
	Want(t, got, payment.ResultNotSent, false)
	if !got.OwnStop {
		t.Error("our own veto counts against the rail")
	}
	if n := b.Arrived(); n != 0 {
		t.Errorf("%d bytes arrived in spite of the veto", n)
	}

	paid := s.Next()
	Want(t, s.Call(t, rail, paid), payment.ResultAccepted, true)
	again := s.Next()
	again.BeforeFirstByte = refuse
	Want(t, s.Call(t, rail, again), payment.ResultNotSent, false)
	if n := b.Times(again.RailKey); n != 0 {
		t.Errorf("a used connection carried the payment %d times in spite of the veto", n)
	}
}

// heldUpBeforeFirstByte tests a process that stalls between BeforeFirstByte and the first byte for
// longer than the write may take. The answer of BeforeFirstByte is then out of date, and nothing
// may be sent.
func heldUpBeforeFirstByte(t *testing.T, s Subject) {
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultAccepted]) })
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
			rail := s.Hurried().Begin(t, b.Address())
			if connection == "used" {
				Want(t, s.Call(t, rail, s.Next()), payment.ResultAccepted, true)
			}
			held := s.Next()
			hold(&held, func() { <-time.After(2 * hasty) })
			got := s.Hurried().Call(t, rail, held)
			Want(t, got, payment.ResultNotSent, false)
			if !got.OwnStop {
				t.Errorf("%s, %s connection: our own delay counts against the rail", name, connection)
			}
			if n := b.Times(held.RailKey); n != 0 {
				t.Errorf("%s, %s connection: the bank saw the payment %d times", name, connection, n)
			}
		}
	}
}

func phasesInOrder(t *testing.T, s Subject) {
	var mu sync.Mutex
	var heard []rails.Phase
	send := s.Next()
	b := s.Witness.Open(t, func(c Request) { c.Say(s.Sends[payment.ResultAccepted]) })
	send.BeforeFirstByte = func() error {
		if n := b.Arrived(); n != 0 {
			t.Errorf("%d bytes were there before the first byte", n)
		}
		return nil
	}
	send.OnPhase = func(phase rails.Phase) {
		if phase == rails.PhaseFirstByte && b.Arrived() != 0 {
			t.Error("the first byte was announced after it had left")
		}
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, phase)
	}
	Want(t, s.Call(t, s.Begin(t, b.Address()), send), payment.ResultAccepted, true)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(heard, []rails.Phase{rails.PhaseDialled, rails.PhaseFirstByte, rails.PhaseAnswered}) {
		t.Errorf("phases %v", heard)
	}
}

// anotherPayment tests that an acceptance of another payment is not an acceptance of ours.
func anotherPayment(t *testing.T, s Subject) {
	send := s.Next()
	b := s.Witness.Open(t, func(c Request) { c.Say(s.OtherPayment) })
	Want(t, s.Call(t, s.Begin(t, b.Address()), send), payment.ResultUnknown, true)
}

func unmappedCode(t *testing.T, s Subject) {
	send := s.Next()
	b := s.Witness.Open(t, func(c Request) { c.Say(s.UnmappedCode) })
	got := s.Call(t, s.Begin(t, b.Address()), send)
	Want(t, got, payment.ResultUnknown, true)
	if !got.Unmapped || got.Code == "" || got.CodeTable == "" {
		t.Errorf("an unmapped code must be named and counted: %+v", got)
	}
}

// silence tests that a bank that says nothing costs no more than the budget, and proves nothing.
func silence(t *testing.T, s Subject) {
	s = s.Hurried()
	b := s.Witness.Open(t, func(c Request) { c.Hang() })
	send := s.Next()
	got := s.Call(t, s.Begin(t, b.Address()), send)
	Want(t, got, payment.ResultUnknown, true)
	if got.OwnStop {
		t.Error("the bank's silence counts as our own stop")
	}
	if n := b.Times(send.RailKey); n != 1 {
		t.Errorf("the bank saw the payment %d times", n)
	}
}
