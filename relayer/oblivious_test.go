package relayer_test

import (
	"context"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// oblivious is a rail whose memory ends after each send.
type oblivious struct {
	rails.Rail
	never bool // its memory does not come back
}

func (f oblivious) Send(ctx context.Context, s rails.Send) rails.Result {
	if s.SendNo > 1 {
		return rails.Result{Result: payment.ResultNotSent, Message: "in a test", OwnStop: true, Forgets: f.never}
	}
	return f.Rail.Send(ctx, s)
}

// TestRailForgets: after a suspension the first send of an instruction may be a second one. If the rail does not
// remember that time, nothing is sent, and an operator is asked: the instruction does not wait in silence for a memory
// that never comes.
func TestRailForgets(t *testing.T) {
	t.Parallel()
	for never, want := range map[bool]string{
		true: "DISPATCHING PARKED/KEY_WINDOW_CLOSED", false: "DISPATCHING RETRYABLE/NOT_SENT",
	} {
		w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`))
		w.wrap = func(rail rails.Rail) rails.Rail { return oblivious{rail, never} }
		w.do(`SELECT railhead.suspend_outbox('another', 'ROWS_MISSING', 'in a test', now() + interval '1 hour')`)
		w.do(`SELECT railhead.accept_timeline('compared, in a test', (SELECT s.opened_at
			FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
		w.run(config())
		id := w.enqueue("the one")
		w.awaitText(want, `SELECT coalesce((SELECT string_agg(state || coalesce('/' || error_code, ''), ' ' ORDER BY attempt_no)
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1 AND attempt_no <= 2), '')`, [16]byte(id))
		same(t, "sends", w.sends(id), 0)
		letter := ""
		if never {
			letter = "OUTCOME_UNKNOWN pending"
		}
		same(t, "dead letter", w.letter(id), letter)
		same(t, "certainty", w.text(`SELECT railhead.payment_certainty($1, true)`, [16]byte(id)), "OUTCOME_UNKNOWN")
	}
}
