package rails

import (
	"context"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// oddRail does what a test sets; it stands for an adapter with a bug.
type oddRail struct {
	send func(Send) Result
	ask  func(Inquiry) Result
}

func (oddRail) RenderVersion() string                         { return "odd" }
func (o oddRail) Send(_ context.Context, s Send) Result       { return o.send(s) }
func (o oddRail) Inquire(_ context.Context, q Inquiry) Result { return o.ask(q) }
func phaseThenPanic(hear func(Phase), upTo Phase, value any) Result {
	for phase := PhaseDialled; phase <= upTo; phase++ {
		hear(phase)
	}
	panic(value)
}

func TestPanicIsUnknownAfterTheFirstByte(t *testing.T) {
	for phase, want := range map[Phase]payment.Result{
		0: payment.ResultNotSent, PhaseDialled: payment.ResultNotSent,
		PhaseFirstByte: payment.ResultUnknown, PhaseAnswered: payment.ResultUnknown,
	} {
		rail := oddRail{
			send: func(s Send) Result { return phaseThenPanic(s.OnPhase, phase, "the payload: DE89370400440532013000") },
			ask:  func(q Inquiry) Result { return phaseThenPanic(q.OnPhase, phase, "boom") },
		}
		var heard []Phase
		got := SendSafely(t.Context(), rail, Send{OnPhase: func(p Phase) { heard = append(heard, p) }})
		if got.Result != want || got.FirstByte != (want == payment.ResultUnknown) {
			t.Errorf("after %s: %+v, want %s", phase, got, want)
		}
		if strings.Contains(got.Message, "DE89") {
			t.Errorf("the panic's value shows in %q", got.Message)
		}
		if len(heard) != int(phase) {
			t.Errorf("after %s the caller heard %v", phase, heard)
		}
		if want == payment.ResultUnknown {
			want = payment.ResultUnavailable
		}
		if got := InquireSafely(t.Context(), rail, Inquiry{}); got.Result != want {
			t.Errorf("inquiry after %s: %+v, want %s", phase, got, want)
		}
	}
}

// TestNoOtherWord tests each word that a result could have, for each kind of call.
func TestNoOtherWord(t *testing.T) {
	words := append(payment.SendResults(), payment.InquiryResults()...)
	words = append(words, "", "accepted", payment.ResultCheckFailed, payment.ResultTampered, payment.ResultWindowClosed,
		payment.ResultRenderChanged)
	for _, word := range words {
		rail := oddRail{
			send: func(Send) Result { return Result{Result: word} },
			ask:  func(Inquiry) Result { return Result{Result: word} },
		}
		wantSend, wantAsk := payment.ResultUnknown, payment.ResultUnavailable
		for _, legal := range payment.SendResults() {
			if legal == word {
				wantSend = word
			}
		}
		for _, legal := range payment.InquiryResults() {
			if legal == word {
				wantAsk = word
			}
		}
		if got := SendSafely(t.Context(), rail, Send{}); got.Result != wantSend {
			t.Errorf("send %q: %s, want %s", word, got.Result, wantSend)
		}
		if got := InquireSafely(t.Context(), rail, Inquiry{}); got.Result != wantAsk {
			t.Errorf("inquiry %q: %s, want %s", word, got.Result, wantAsk)
		}
	}
}

func TestResultsAreHeldToTheContract(t *testing.T) {
	long := strings.Repeat("x", 5000)
	rail := oddRail{send: func(Send) Result {
		return Result{Result: payment.ResultNotSent, FirstByte: true, Reference: long, Code: "a\x00b",
			Message: "4111111111111111 " + long}
	}}
	got := SendSafely(t.Context(), rail, Send{})
	if got.Result != payment.ResultUnknown {
		t.Errorf("NOT_SENT with a byte on the wire is %s, want UNKNOWN", got.Result)
	}
	if got.Reference != "" || got.Code != "" || len(got.Message) > payment.MaxErrorMessage ||
		strings.Contains(got.Message, "4111") {
		t.Errorf("unbounded: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rail.send = func(Send) Result { t.Error("a stopped call was made"); return Result{} }
	if got := SendSafely(ctx, rail, Send{}); got.Result != payment.ResultNotSent || !got.OwnStop {
		t.Errorf("stopped: %+v", got)
	}
}
