package relayer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

// slowRefusals keeps the first sends of a rail until the test lets each go, and then answers that it does not know our
// credentials.
type slowRefusals struct {
	rails.Rail
	left    *atomic.Int64 // sends to keep
	arrived chan struct{}
	goOn    chan struct{}
}

func (s slowRefusals) Send(ctx context.Context, send rails.Send) rails.Result {
	if s.left.Add(-1) < 0 {
		return s.Rail.Send(ctx, send)
	}
	s.arrived <- struct{}{}
	<-s.goOn
	return rails.Result{Result: payment.ResultRefusedRail, FirstByte: true, Code: "401", Message: "HTTP 401"}
}

func (w *world) refuseSlowly(first int64) slowRefusals {
	slow := slowRefusals{left: new(atomic.Int64), arrived: make(chan struct{}), goOn: make(chan struct{})}
	slow.left.Store(first)
	w.wrap = func(rail rails.Rail) rails.Rail {
		one := slow
		one.Rail = rail
		return one
	}
	return slow
}

// patient is a profile with time for slow refusals, which are no sends, and half a minute before the next call.
const patient = covering + `, "refuses_before_processing": true, "timeouts": {"connect": "14s", "tls": "100ms",
	"write": "300ms", "response_header": "500ms", "body": "300ms"}, "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`

const pausedRail = `SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`

// refusals waits until so many are recorded.
func (w *world) refusals(n int) {
	w.t.Helper()
	w.awaitText(fmt.Sprint(n), `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE error_code = 'RAIL_REFUSED'`)
}

// TestRefusedUnderTheProfileBefore tests that calls of a profile that is not in force any more and are refused late do
// not pause the rail and open no breaker that is told of, and that the present profile's pause it.
func TestRefusedUnderTheProfileBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(patient+`, "breaker": {"minimum_requests": 3}`))
	slow := w.refuseSlowly(3)
	w.run(config())
	for n := range 3 {
		w.enqueue(fmt.Sprintf("before-%d", n))
		<-slow.arrived
	}
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
	w.cell.ApplyProfile("bank", profile(patient+`, "rail_refused": {"after": 4, "instructions": 4}`))
	w.awaitText("3", `SELECT coalesce(lanes->0->>'profile_version', '') FROM railhead.outbox_heartbeats`)
	w.do(`UPDATE railhead.payment_rails SET paused = false`)
	for n := range 3 {
		slow.goOn <- struct{}{}
		w.refusals(n + 1)
	}
	w.awaitTurns(3)
	same(t, "paused", w.text(pausedRail), "false")
	same(t, "breakers that are told to be open", w.seen.count("breaker OPEN"), 0)
	for n := range 3 {
		w.enqueue(fmt.Sprintf("now-%d", n))
	}
	w.awaitTurns(3)
	same(t, "paused by three of four", w.text(pausedRail), "false")
	w.enqueue("now-4")
	w.awaitText("true", pausedRail)
}

// TestRefusedBeforeTheResume tests that calls of before an operator's pause that are refused after its end do not pause
// the rail again, and that later ones do.
func TestRefusedBeforeTheResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(patient))
	slow := w.refuseSlowly(3)
	w.run(config())
	for n := range 3 {
		w.enqueue(fmt.Sprintf("before-%d", n))
		<-slow.arrived
	}
	operator := w.cell.Conn(t, celltest.Operator)
	for _, act := range []string{`SELECT railhead.pause_rail('bank', 'the credentials are renewed')`,
		`SELECT railhead.resume_rail('bank', 'they are')`} {
		if _, err := operator.Exec(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		w.awaitTurns(8) // several times RefreshEvery
	}
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
	for n := range 3 {
		slow.goOn <- struct{}{}
		w.refusals(n + 1)
	}
	w.awaitTurns(3)
	same(t, "paused", w.text(pausedRail), "false")
	for n := range 3 {
		w.enqueue(fmt.Sprintf("now-%d", n))
	}
	w.awaitText("true", pausedRail)
}

// TestRefusedWithAllOthersBefore tests that refusals of a time in which nothing passed end no payment later, when the
// rail refuses all again after others have passed.
func TestRefusedWithAllOthersBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(covering+`, "refuses_before_processing": true, "rail_refused": {"per_instruction": 30},
		"breaker": {"minimum_requests": 10000}`))
	refuse := railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true}
	w.faults(refuse)
	w.run(config())
	id := w.enqueue("the one")
	w.awaitText("true", `SELECT (count(*) >= 30)::text FROM railhead.payment_outbox_attempts WHERE error_code = 'RAIL_REFUSED'`)
	w.do(`UPDATE railhead.payment_rails SET paused = true, paused_by = 'x', paused_at = now(), pause_reason = 'x'
		WHERE rail_type = 'bank'`)
	w.awaitText("0", `SELECT count(*)::text FROM railhead.payment_outbox_claims`)
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour'`)
	before := w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE error_code = 'RAIL_REFUSED'`)
	w.faults()
	w.do(`UPDATE railhead.payment_rails SET paused = false`)
	w.awaitStates(w.enqueue("another"), "DISPATCHING DISPATCHED")
	w.faults(refuse)
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now()`)
	w.awaitText("true", `SELECT (count(*) > $1)::text FROM railhead.payment_outbox_attempts
		WHERE error_code LIKE 'RAIL_REFUSED%'`, before)
	same(t, "dead letter", w.letter(id), "")
	same(t, "paused by one alone", w.text(pausedRail), "false")
	w.enqueue("a third")
	w.enqueue("a fourth")
	w.awaitText("true", pausedRail)
	same(t, "dead letter when it is paused", w.letter(id), "")
}
