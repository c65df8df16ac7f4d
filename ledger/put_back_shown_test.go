package ledger_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestPutBackIsShown: a timeline says of a row that was put back what the database says
// when a claim asks, in every plight of a payment.
func TestPutBackIsShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reader := openReader(t, d.Cell)
	seen := map[payment.State]int{}
	agree := func(what string, id payment.ID) {
		t.Helper()
		line, err := reader.Timeline(t.Context(), id)
		d.must(err)
		after := line.PutBackAfter()
		same(t, what, string(after), d.text(`SELECT coalesce(railhead.put_back_after($1), '')`, [16]byte(id)))
		seen[after]++
	}
	for name, bring := range plights {
		id := bring(d)
		agree(name, id)
		if d.waiting(id) == "" {
			d.putBack(id)
			agree(name+", put back", id)
		}
		d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 0, send_count = 0
			WHERE outbox_id = $1`, [16]byte(id))
		agree(name+", an older copy", id)
		d.do(`DELETE FROM railhead.payment_outbox_pending`)
	}
	// Nothing but evidence is left of it.
	id := d.enqueue()
	d.late(told(sameKey, forgotten(id), payment.ResultUnknown, ""))
	agree("evidence alone", id)
	for _, state := range []payment.State{"", payment.Dispatched, payment.Failed, payment.Cancelled, payment.Parked,
		payment.Dispatching, payment.Unknown} {
		if seen[state] == 0 {
			t.Errorf("no plight was put back over %q: %v", state, slices.Collect(maps.Keys(seen)))
		}
	}
}

// TestExpiredIsNotToBeClaimed: of what the reaper will end no relayer is said to be missing.
func TestExpiredIsNotToBeClaimed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	looker := openReader(t, d.Cell)
	id := d.enqueue()
	look := func() reader.Timeline {
		t.Helper()
		line, err := looker.Timeline(t.Context(), id)
		d.must(err)
		return line
	}
	same(t, "without a relayer", len(look().NotClaimed), 1)
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() + interval '1 hour'`)
	same(t, "not over", look().IsOver(), false)
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'`)
	line := look()
	same(t, "over", line.IsOver(), true)
	same(t, "why it is not claimed", len(line.NotClaimed), 0)
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity'`)
	same(t, "quarantined", look().IsOver(), false)
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now(), outcome_unknown = true`)
	same(t, "with an unknown outcome", look().IsOver(), false)
}
