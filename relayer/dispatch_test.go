package relayer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/relayer"
)

func TestDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	var ids []payment.ID
	for n := range 100 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
		same(t, "executions", w.executions(id), 1)
	}
	w.nothingLeft()
}

// TestAnswers takes one payment through each kind of answer, over real HTTP from a bank that
// misbehaves once. An unknown send is repeated with the same key, and the bank's ledger is the
// witness that the payment was made once.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault      railsim.Fault
		want       string
		executions int
		letter     string
	}{
		"503, which this rail calls transient": {railsim.Fault{Kind: railsim.StatusBefore, Status: 503}, "DISPATCHING FAILED/NEW_ID_NEEDED", 0, "FAILED pending"},
		"429":                                  {railsim.Fault{Kind: railsim.StatusBefore, Status: 429}, "DISPATCHING RETRYABLE/RAIL_BUSY DISPATCHING DISPATCHED", 1, ""},
		"404 of its route":                     {railsim.Fault{Kind: railsim.StatusBefore, Status: 404, Plain: true}, "DISPATCHING UNKNOWN/RAIL_REFUSED DISPATCHING DISPATCHED", 1, ""},
		"404 in the bank's own words":          {railsim.Fault{Kind: railsim.StatusBefore, Status: 404}, "DISPATCHING UNKNOWN/RAIL_REFUSED DISPATCHING DISPATCHED", 1, ""},
		"500 and nothing done":                 {railsim.Fault{Kind: railsim.StatusBefore, Status: 500}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"500 after it was done":                {railsim.Fault{Kind: railsim.StatusAfter, Status: 500}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"422, a business refusal":              {railsim.Fault{Kind: railsim.Refuse, Code: "AC04"}, "DISPATCHING FAILED", 0, "FAILED pending"},
		"refused without a word":               {railsim.Fault{Kind: railsim.RefuseDrop, Code: "AC04"}, "DISPATCHING UNKNOWN DISPATCHING FAILED", 0, "FAILED pending"},
		"dropped before":                       {railsim.Fault{Kind: railsim.DropBefore}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"dropped after":                        {railsim.Fault{Kind: railsim.DropAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"hung before":                          {railsim.Fault{Kind: railsim.HangBefore}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"hung after":                           {railsim.Fault{Kind: railsim.HangAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"a page":                               {railsim.Fault{Kind: railsim.HTMLAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"broken JSON":                          {railsim.Fault{Kind: railsim.BadJSONAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"nothing":                              {railsim.Fault{Kind: railsim.EmptyAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"half of it":                           {railsim.Fault{Kind: railsim.TruncatedAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"another's reference":                  {railsim.Fault{Kind: railsim.WrongReferenceAfter}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"a megabyte":                           {railsim.Fault{Kind: railsim.HugeAfter, Bytes: 1 << 20}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
		"a redirect":                           {railsim.Fault{Kind: railsim.RedirectBefore, URL: "http://127.0.0.1:1/payments"}, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(covering+`,
				"codes": {"table": "iso20022", "http": {"503": "R"}}`))
			c.fault.Match.Nth = 1
			w.faults(c.fault)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, c.want)
			same(t, "executions", w.executions(id), c.executions)
			same(t, "dead letter", w.letter(id), c.letter)
			w.nothingLeft()
		})
	}
}

// TestRefusedForNow tests a re-send to a rail that accepts a key which it has refused before.
func TestRefusedForNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(again+`, "codes": {"table": "iso20022", "http": {"503": "R"}}`))
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 503, Match: railsim.Match{Nth: 1}})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING RETRYABLE DISPATCHING DISPATCHED")
	same(t, "executions", w.executions(id), 1)
	w.nothingLeft()
}

func TestRetryAfterIsHeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 429, RetryAfterS: 1, Match: railsim.Match{Nth: 1}})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING RETRYABLE/RAIL_BUSY DISPATCHING DISPATCHED")
	between := w.text(`
		SELECT (max(claimed_at) - min(completed_at) >= interval '0.95 s')::text FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1`, [16]byte(id))
	same(t, "a second between the answer and the next claim", between, "true")
}

// TestRetryAfterOfAnHour: an answer that proves nothing and asks for an hour parks nothing, gets five minutes, and the
// row says that the wait is the rail's wish.
func TestRetryAfterOfAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "1h"`))
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 503, RetryAfterS: 3600, Match: railsim.Match{Nth: 1}})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING UNKNOWN")
	same(t, "it waits", w.waiting(id), "SEND sends=1 asked=0 unknown")
	said := w.text(`
		SELECT (p.next_attempt_at - a.completed_at BETWEEN interval '299 s' AND interval '301 s')::text || ' ' || a.error_message
		FROM railhead.payment_outbox_attempts a JOIN railhead.payment_outbox_pending p USING (outbox_id)
		WHERE outbox_id = $1 AND a.state = 'UNKNOWN'`, [16]byte(id))
	const want = "true the next step waits as the rail asked, 5m0s of the 1h0m0s that it asked for; HTTP 503"
	if !strings.HasPrefix(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// TestHangIsUnknownWithinTheBudget tests that a rail that never answers costs one send budget.
func TestHangIsUnknownWithinTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	w.faults(railsim.Fault{Kind: railsim.HangAfter})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY")
	same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
	same(t, "recorded within the budget of 1.7 s and a little", w.text(`
		SELECT (completed_at - claimed_at < interval '4 s' AND latency_ms < 2500)::text
		FROM railhead.payment_outbox_attempts WHERE state = 'UNKNOWN'`), "true")
	same(t, "sends", w.sends(id), 1)
}

// TestNeverIsSentOnce tests that a rail that does not de-duplicate gets one send, whatever its
// result, and then the payment is parked.
func TestNeverIsSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), func(c *railsim.Config) { c.Behaviour.NoDedupe = true })
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	w.run(config())
	var ids []payment.ID
	for n := range 10 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY")
		same(t, "sends", w.sends(id), 1)
		same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
	}
}

// TestWrongCredentials tests that wrong credentials pause the rail and no other, use up no send if
// the rail refuses before it processes, and that an operator resumes it. One instruction alone does
// not pause it.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(covering+`, "refuses_before_processing": true`))
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitText("true", `SELECT (count(*) >= 8)::text FROM railhead.payment_outbox_attempts
		WHERE error_code = 'RAIL_REFUSED'`)
	same(t, "paused by one alone", w.text(`SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`),
		"false")
	w.enqueue("another")
	w.awaitText("true the rail refuses our credentials, route or form: 401 HTTP 401", `
		SELECT concat(paused::text, ' ', pause_reason) FROM railhead.payment_rails WHERE rail_type = 'bank'`)
	w.awaitText("2", `SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE next_action = 'SEND'
		AND send_count = 0 AND first_sent_at IS NULL`)
	before := w.states(id)
	w.faults()
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	w.awaitTurns(5)
	same(t, "rows while it is paused", w.states(id), before)
	w.do(`UPDATE railhead.payment_rails SET paused = false`)
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	same(t, "executions", w.executions(id), 1)
	same(t, "acts that were logged",
		w.text(`SELECT string_agg(act, ' ') FROM railhead.payment_operator_log WHERE act <> 'APPLY_PROFILE'`), "PAUSE_RAIL")
}

// pausing is a store with an operator who pauses the rail for a minute just before a relayer does.
type pausing struct {
	relayer.Store
	pause func()
}

func (p pausing) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	p.pause()
	return p.Store.PauseRail(ctx, railType, reason)
}

// TestRefusedWhileAnOperatorPauses tests that the answers to calls in flight keep a rail paused that refuses us, when
// the operator's pause that began meanwhile ends.
func TestRefusedWhileAnOperatorPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "rail_refused": {"after": 1}`), noDedupe)
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
	w.runWith(config(), pausing{Store: w.store, pause: func() {
		_, err := w.cell.Conn(t, celltest.Operator).Exec(context.WithoutCancel(t.Context()),
			`SELECT railhead.pause_rail('bank', 'maintenance', now() + interval '1 minute')`)
		if err != nil {
			t.Error(err)
		}
	}}, w.notifier())
	w.enqueue("the one")
	w.awaitText("maintenance; and "+celltest.Relayer+": the rail refuses our credentials, route or form: 401 HTTP 401 without an end", `
		SELECT concat(pause_reason, ' ', coalesce(paused_until::text, 'without an end')) FROM railhead.payment_rails
		WHERE rail_type = 'bank'`)
}

// TestWrongCredentialsForSends tests that the rail is paused although it answers inquiries.
func TestWrongCredentialsForSends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(again+`, "inquiry": {"max": 1, "intervals": ["10ms"], "not_found": "INCONCLUSIVE"}`))
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
	w.run(config())
	for n := range 2 {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
		w.awaitText(fmt.Sprint(n+1), `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE result = 'NOT_FOUND'`)
	}
	same(t, "paused", w.text(`SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`), "false")
	w.enqueue("the third")
	w.awaitText("true the rail refuses our credentials, route or form: 401 HTTP 401", `
		SELECT concat(paused::text, ' ', pause_reason) FROM railhead.payment_rails WHERE rail_type = 'bank'`)
}

// TestRefusedRoute tests that an instruction that is refused repeatedly while others pass ends, and
// that the rail continues. Its refusals count as no answer, unless the profile guarantees them.
func TestRefusedRoute(t *testing.T) {
	t.Parallel()
	const refused = "DISPATCHING RETRYABLE/RAIL_REFUSED "
	const before = `, "refuses_before_processing": true`
	for name, c := range map[string]struct {
		facts        string
		want, letter string
	}{
		"keyed":   {covering, strings.Repeat("DISPATCHING UNKNOWN/RAIL_REFUSED ", 4) + "DISPATCHING UNKNOWN/RETRIES_EXHAUSTED PARKED/RETRIES_EXHAUSTED", "OUTCOME_UNKNOWN pending"},
		"before":  {covering + before, strings.Repeat(refused, 4) + "DISPATCHING FAILED/RAIL_REFUSED_ONE", "FAILED pending"},
		"sooner":  {covering + before + `, "rail_refused": {"per_instruction": 2}`, refused + "DISPATCHING FAILED/RAIL_REFUSED_ONE", "FAILED pending"},
		"never":   {`"resend_on_unknown": "NEVER"`, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY", "OUTCOME_UNKNOWN pending"},
		"vouched": {`"resend_on_unknown": "NEVER"` + before, strings.Repeat(refused, 4) + "DISPATCHING FAILED/RAIL_REFUSED_ONE", "FAILED pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(c.facts))
			id := w.enqueue("poison")
			w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 404, Plain: true,
				Match: railsim.Match{KeyPrefix: w.railKey(id)}})
			w.run(config())
			for n := 0; w.letter(id) == ""; n++ {
				if strings.Count(w.states(id), refused) > 12 {
					t.Fatalf("it is sent without end: %s", w.states(id))
				}
				other := w.enqueue(fmt.Sprintf("instruction-%d", n))
				w.awaitStates(other, "DISPATCHING DISPATCHED")
			}
			// A call that a starved worker holds back is not a refusal, and those from before another payment's
			// call has begun and passed count as one.
			states := strings.ReplaceAll(w.states(id), "DISPATCHING RETRYABLE/NOT_SENT ", "")
			if surplus := strings.Count(states, refused) - strings.Count(c.want, refused); surplus > 0 {
				states = strings.Replace(states, refused, "", surplus)
			}
			same(t, "rows", states, c.want)
			same(t, "dead letter", w.letter(id), c.letter)
			same(t, "executions", w.executions(id), 0)
			same(t, "paused", w.text(`SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`), "false")
		})
	}
}

// TestNoListener tests that an instruction whose rail can't be dialled was never sent. The breaker
// opens, and while it is open no attempt is used up.
func TestNoListener(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "breaker": {"minimum_requests": 2, "open_for": "1h"}`))
	listening := w.url
	w.url = "http://127.0.0.1:1"
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING RETRYABLE/NOT_SENT DISPATCHING RETRYABLE/NOT_SENT")
	w.seen.await(t, func() error {
		if w.seen.count("breaker OPEN") == 0 {
			return fmt.Errorf("the breaker is still closed")
		}
		return nil
	})
	same(t, "pending", w.waiting(id), "SEND sends=0 asked=0")
	before := w.states(id)
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	w.enqueue("another")
	w.awaitTurns(10)
	same(t, "rows while the breaker is open", w.states(id), before)
	same(t, "claims while the breaker is open", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`), 4)

	// The bank is back under a new profile, whose guard has no memory of before.
	w.url = listening
	w.cell.ApplyProfile("bank", fastProfile)
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	same(t, "executions", w.executions(id), 1)
}

// TestHalfOpen tests that the breaker allows one call after its time, whose success closes it.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "breaker": {"minimum_requests": 2, "failure_ratio": 0.1, "open_for": "300ms"}`))
	w.faults(railsim.Fault{Kind: railsim.DropBefore, Limit: 2})
	w.run(config())
	var ids []payment.ID
	for n := range 6 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for _, id := range ids {
		w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
		same(t, "executions", w.executions(id), 1)
	}
	w.seen.await(t, func() error {
		open, half, closed := w.seen.count("breaker OPEN"), w.seen.count("breaker HALF_OPEN"), w.seen.count("breaker CLOSED")
		if open == 0 || open != half || closed < 2 { // closed from the start, and again
			return fmt.Errorf("open %d times, half open %d, closed %d", open, half, closed)
		}
		return nil
	})
}

// awaitTurns waits until the relayer has scanned n more times.
func (w *world) awaitTurns(n int) {
	w.t.Helper()
	w.seen.awaitMore(w.t, "poll", n)
}
