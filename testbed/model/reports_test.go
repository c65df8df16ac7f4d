package model

import (
	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/testbed/calls"
)

// report is what a rail reports in an event, without having been asked.
type report struct {
	event     string
	result    payment.Result
	reference string
}

// Received and Recorded make the world the receiver's observer.
func (w *world) Received(_, what string) { w.heard = what }

// Recorded does nothing.
func (w *world) Recorded(payment.Outcome, payment.Verdict) {}

// railKey returns the key by which the rail knows an instruction.
func (w *world) railKey(t *rapid.T, id payment.ID) (key string) {
	must(t, w.looker.QueryRow(w.ctx(), "SELECT 'rh' || replace(rail_key::text, '-', '') FROM "+
		"railhead.payment_outbox_keys WHERE outbox_id = $1", id.String()).Scan(&key))
	return key
}

// callBack delivers the rail's final word, unasked, about one send where there are several. A rail
// repeats what it has said, in the same event or in another, and some rails number their events so
// that two reports bear one id.
func (w *world) callBack(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool {
		return i.rail.executed > 0 || i.rail.refused || i.rail.notNow || len(i.rail.reports) > 0
	})
	said := report{
		event:  rapid.SampledFrom([]string{"e1", "e2"}).Draw(t, "event"),
		result: payment.ResultRefused, reference: one.rail.reference(payment.ResultRefused),
	}
	switch again := len(one.rail.reports) > 0 && rapid.Bool().Draw(t, "said before"); {
	case again:
		old := one.rail.reports[rapid.IntRange(0, len(one.rail.reports)-1).Draw(t, "report")]
		said.result, said.reference = old.result, old.reference
	case one.rail.executed > 0:
		said.result, said.reference = payment.ResultExecuted, one.rail.reference(payment.ResultExecuted)
	case !one.rail.refused && !one.rail.notNow:
		t.Skip("the rail has decided nothing")
	}
	one.rail.reports = append(one.rail.reports, said)

	d := payment.Decision{State: payment.Dispatched}
	if said.result == payment.ResultRefused {
		d = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	}
	o := payment.Outcome{
		Claim:  payment.Claim{OutboxID: one.id, RailType: w.name},
		Result: said.result, Decision: d, RailReference: said.reference,
	}
	want := one.answered(o, "event "+said.event+" "+string(said.result)+" "+said.reference)
	if got := w.deliver(t, one, said); got != string(want) {
		t.Fatalf("callback %+v about %s: %s, want %s\nmodel %+v", said, one.id, got, want, one.model)
	}
}

// deliver delivers a callback, and returns what the receiver made of it.
func (w *world) deliver(t *rapid.T, one *instruction, said report) string {
	must(t, w.callbacks.Deliver(w.ctx(), calls.Report{
		Rail: w.name, Event: said.event, Key: one.rail.key, Status: string(said.result), Reference: said.reference,
	}))
	return w.heard
}
