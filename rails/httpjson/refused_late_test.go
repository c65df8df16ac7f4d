package httpjson

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestAlertAfterTheFirstByte: an alert that refuses our certificate refuses us after the first byte too, and proves
// nothing about the payment.
func TestAlertAfterTheFirstByte(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	alert := func(number uint8) error {
		return fmt.Errorf("reading: %w", &net.OpError{Op: "remote error", Err: tls.AlertError(number)})
	}
	for name, c := range map[string]struct {
		parent  context.Context
		err     error
		refused bool
	}{
		"bad certificate":      {t.Context(), alert(42), true},
		"expired":              {t.Context(), alert(45), true},
		"unknown authority":    {t.Context(), alert(48), true},
		"none was shown":       {t.Context(), alert(116), true},
		"a balancer's trouble": {t.Context(), alert(40), false},
		"its own error":        {t.Context(), alert(80), false},
		"our own alert":        {t.Context(), &net.OpError{Op: "local error", Err: tls.AlertError(42)}, false},
		"a reset":              {t.Context(), &net.OpError{Op: "read", Err: net.ErrClosed}, false},
		"we stopped it":        {stopped, alert(42), false},
	} {
		sent := &ticket{state: ticketLeft}
		got := new(Rail).failed(c.parent, c.parent, sent, c.err)
		if got.Result != payment.ResultUnknown || !got.FirstByte || got.RailRefused != c.refused {
			t.Errorf("%s: %+v, want UNKNOWN, refused %t", name, got, c.refused)
		}
		unsent := new(Rail).failed(c.parent, c.parent, &ticket{}, c.err)
		if (unsent.Result == payment.ResultRefusedRail) != c.refused || unsent.FirstByte || unsent.RailRefused {
			t.Errorf("%s, before the first byte: %+v", name, unsent)
		}
	}
}
