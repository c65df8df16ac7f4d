package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// hint is what a refusal advises.
func hint(t *testing.T, what string, err error) string {
	t.Helper()
	fault, ok := errors.AsType[*outbox.Fault](err)
	if !ok {
		t.Fatalf("%s: %v", what, err)
	}
	return fault.Hint
}

const (
	anew  = "The participant enqueues"
	first = "Close its dead letter first; then the participant enqueues"
)

// TestReplayTwice: a replay that is repeated, because the answer of the first one was lost, advises to pay anew only
// where the payment was certainly not made.
func TestReplayTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	o := d.operator()
	again := func(what string, id payment.ID, state, says string) {
		t.Helper()
		_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
		refusedWith(t, what, err, "RH020", "the instruction is "+state+" and its dead letter is already closed")
		if advice := hint(t, what, err); !strings.HasPrefix(advice, says) || says != anew && strings.Contains(advice, anew) {
			t.Errorf("%s: the advice is %q, want %q", what, advice, says)
		}
	}
	const replayed = "It was replayed already"
	id := plights["EXPIRED"](d)
	_, err := o.ReplayPayment(t.Context(), id, operator.NeverExpires, why)
	d.must(err)
	again("pending", id, "PENDING", replayed)
	claim := d.claimOne(id)
	again("claimed", id, "DISPATCHING", replayed)
	d.record(told(sameKey, claim, payment.ResultUnknown, ""))
	again("sent", id, "UNKNOWN", replayed)

	// Closed by an operator's word.
	failed := plights["FAILED"](d)
	d.must(hands[3].do(o, t, failed))
	again("closed, refused by the rail", failed, "FAILED", anew)
	executed := plights["FAILED"](d)
	d.must(hands[5].do(o, t, executed))
	again("closed, executed", executed, "DISPATCHED", "See what became of it")
	cancelled := plights["CONFLICT after CANCELLED"](d)
	d.must(hands[5].do(o, t, cancelled))
	again("closed, executed after all", cancelled, "DISPATCHED", "See what became of it")
}

// TestNewIDAfterNoSuchPayment: the rail's "no such payment" allows a re-send of the same key. Where a replay needs a
// new id, the payment is resolved before it is made anew.
func TestNewIDAfterNoSuchPayment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, strings.Replace(inVain, `"SAME"`, `"NEW"`, 1))
	o := d.operator()
	replay := func(id payment.ID, what, advises string) {
		t.Helper()
		_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
		refusedWith(t, what, err, "RH020", "requires a new id for another try")
		if advice := hint(t, what, err); !strings.HasPrefix(advice, advises) {
			t.Errorf("%s: the advice is %q, want %q", what, advice, advises)
		}
	}
	id := justNotFound(d)
	replay(id, "just not found", "The payment may have been made. Find out from the rail")
	_, err := o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	replay(id, "resolved as not executed", first)
	replay(plights["FAILED"](d), "refused", first)

	// Nor is one with another payload, or with none.
	id = justNotFound(d)
	d.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_keys SET fingerprint = sha256('another') WHERE outbox_id = $1`, [16]byte(id))
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "another payload", err, "RH020", "the payload is not the one that was enqueued")
	if advice := hint(t, "another payload", err); !strings.Contains(advice, "may have been made") {
		t.Errorf("another payload: the advice is %q", advice)
	}
}
