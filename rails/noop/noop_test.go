package noop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/noop"
)

func TestNoop(t *testing.T) {
	rail, err := noop.Open(rails.Profile{RailType: "noop",
		Checks: rails.Checks{Currencies: []string{"EUR"}}}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	id := payment.NewID()
	send := rails.Send{OutboxID: id, RailKey: payment.RailKey(id), SendNo: 1}
	phases := 0
	send.OnPhase = func(rails.Phase) { phases++ }
	if got := rails.SendSafely(t.Context(), rail, send); got.Result != payment.ResultAccepted ||
		got.Reference != "noop-"+send.RailKey || phases != 3 {
		t.Errorf("%+v after %d phases", got, phases)
	}
	if got := rails.InquireSafely(t.Context(), rail,
		rails.Inquiry{RailKey: send.RailKey}); got.Result != payment.ResultExecuted {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := rail.Send(ctx, send); got.Result != payment.ResultNotSent || !got.OwnStop {
		t.Errorf("stopped: %+v", got)
	}
	if got := rail.Inquire(ctx, rails.Inquiry{}); got.Result != payment.ResultNotSent {
		t.Errorf("stopped: %+v", got)
	}
	send.BeforeFirstByte = func() error { return errors.New("too old") }
	if got := rail.Send(t.Context(), send); got.Result != payment.ResultNotSent || !got.OwnStop {
		t.Errorf("vetoed: %+v", got)
	}
	if rail.Sends() != 1 {
		t.Errorf("%d sends, want 1", rail.Sends())
	}
	if err := rail.Check(send); err == nil {
		t.Error("no currency is taken")
	}
	if _, err := noop.Open(rails.Profile{}); err == nil {
		t.Error("a rail without a profile")
	}
}
