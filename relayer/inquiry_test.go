package relayer_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

// askable is a rail that can be asked, and that de-duplicates by key.
func askable(more string) string {
	return profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h",
		"timeouts": {"connect": "200ms", "tls": "50ms", "write": "50ms", "response_header": "250ms", "body": "50ms"},
		"inquiry": {"intervals": ["50ms"], "max": 20, "not_found": "NOT_EXECUTED", "not_found_age": "700ms", "not_found_until": "1h"}` + more)
}

// TestUnknownIsAskedAbout tests that an unknown outcome is asked about before anything else.
func TestUnknownIsAskedAbout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault      railsim.Fault
		want       string
		sends      int
		executions int
	}{
		"it was executed": {railsim.Fault{Kind: railsim.DropAfter}, "DISPATCHING UNKNOWN INQUIRING DISPATCHED", 1, 1},
		"it was refused":  {railsim.Fault{Kind: railsim.RefuseDrop, Code: "AC04"}, "DISPATCHING UNKNOWN INQUIRING FAILED", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, askable(""))
			c.fault.Match.Nth = 1
			w.faults(c.fault)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, c.want)
			same(t, "sends", w.sends(id), c.sends)
			same(t, "executions", w.executions(id), c.executions)
			w.nothingLeft()
		})
	}
}

// TestNotFoundCountsFromAnAge tests that a payment which the rail has not indexed yet is
// indistinguishable from one that it never got. Only an inquiry made late enough causes a re-send.
func TestNotFoundCountsFromAnAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askable(""))
	w.faults(railsim.Fault{Kind: railsim.DropBefore, Match: railsim.Match{Nth: 1}})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	if rows := w.states(id); !foundNothing.MatchString(rows) {
		t.Errorf("rows %s", rows)
	}
	same(t, "the inquiry that counted was made late enough", w.text(`
		SELECT (i.claimed_at - s.claimed_at >= interval '700 ms')::text
		FROM railhead.payment_outbox_attempts s, railhead.payment_outbox_attempts i
		WHERE s.attempt_no = 1 AND i.state = 'RETRYABLE'`), "true")
	same(t, "sends", w.sends(id), 2)
	same(t, "executions", w.executions(id), 1)
	for _, request := range w.bank.Requests() {
		same(t, "key of a request", request.Key, w.cell.RailKey(id))
	}
	w.nothingLeft()
}

var foundNothing = regexp.MustCompile(`^DISPATCHING UNKNOWN (INQUIRING UNKNOWN )*INQUIRING RETRYABLE/NOT_FOUND DISPATCHING DISPATCHED$`)

// TestResendHasTheSameBytes compares the bytes of the sends by the bank's log.
func TestResendHasTheSameBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.faults(railsim.Fault{Kind: railsim.DropBefore, Limit: 3})
	w.run(config())
	id := w.enqueue("the one")
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	all := w.bank.Requests()
	same(t, "requests", len(all), 4)
	for _, request := range all {
		if request.Key != all[0].Key || request.BodySHA256 != all[0].BodySHA256 {
			t.Errorf("request %d differs from the first: %+v", request.N, request)
		}
	}
}

// TestUselessInquiries tests that inquiries that prove nothing change nothing, up to the maximum;
// then the payment is parked.
func TestUselessInquiries(t *testing.T) {
	t.Parallel()
	for _, kind := range []railsim.FaultKind{
		railsim.InquiryHang, railsim.InquiryDrop, railsim.InquiryStatus, railsim.InquiryUnknown, railsim.InquiryGarbage,
		railsim.InquiryWrongID,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, askable(`, "inquiry": {"intervals": ["10ms"], "max": 2, "not_found": "INCONCLUSIVE"}`))
			w.faults(railsim.Fault{Kind: railsim.DropAfter}, railsim.Fault{Kind: kind})
			w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, "DISPATCHING UNKNOWN INQUIRING UNKNOWN INQUIRING UNKNOWN/INQUIRIES_EXHAUSTED "+
				"PARKED/INQUIRIES_EXHAUSTED")
			same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
			same(t, "sends", w.sends(id), 1)
		})
	}
}

// TestInquiryThatNeverLeft tests that an inquiry that was released stays an inquiry, and does not
// become a send.
func TestInquiryThatNeverLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askable(`, "inquiry": {"intervals": ["1h"], "max": 20, "not_found": "INCONCLUSIVE"}`))
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	w.do(`UPDATE railhead.payment_rails SET paused = true, paused_by = 'x', paused_at = now(), pause_reason = 'x'
		WHERE rail_type = '*'`)
	w.run(config())
	id := w.enqueue("the one")
	w.railKey(id)
	w.do(`UPDATE railhead.payment_rails SET paused = false`)
	// After its first record the bank is unavailable.
	w.seen.await(t, func() error { return wantOne(w.executions(id)) })
	if err := w.bank.Close(); err != nil {
		t.Fatal(err)
	}
	w.awaitText("2", `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE error_code = 'NOT_SENT'`)
	rows := w.states(id)
	if strings.Count(rows, "DISPATCHING") != 1 || !strings.HasPrefix(rows,
		"DISPATCHING UNKNOWN INQUIRING RETRYABLE/NOT_SENT INQUIRING RETRYABLE/NOT_SENT") {
		t.Errorf("rows %s", rows)
	}
	w.awaitText("INQUIRE 1 0 true",
		`SELECT concat_ws(' ', next_action, send_count, inquiry_count, outcome_unknown::text) FROM railhead.payment_outbox_pending`)
}

// TestTakenForNow tests that a provisional acceptance is asked about and never sent again.
func TestTakenForNow(t *testing.T) {
	t.Parallel()
	settles := func(c *railsim.Config) { c.Mode, c.SettleDelay = railsim.Provisional, 150*time.Millisecond }
	for name, c := range map[string]struct {
		faults []railsim.Fault
		end    string
		letter string
		n      int
	}{
		"and executed":                 {nil, "DISPATCHED", "", 1},
		"and refused":                  {[]railsim.Fault{{Kind: railsim.RefuseSettle, Code: "AM04"}}, "FAILED", "FAILED pending", 0},
		"and forgotten for a while":    {[]railsim.Fault{{Kind: railsim.InquiryLag, DelayMS: 300}}, "DISPATCHED", "", 1},
		"and the answer to it is lost": {[]railsim.Fault{{Kind: railsim.DropAfter}}, "DISPATCHED", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, askable(`, "acceptance": "PROVISIONAL"`), settles)
			w.faults(c.faults...)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitText(c.end, `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
			same(t, "dead letter", w.letter(id), c.letter)
			same(t, "executions", w.executions(id), c.n)
			if rows := w.states(id); strings.Count(rows, "DISPATCHING") != 1 {
				t.Errorf("rows %s", rows)
			}
		})
	}
}

// TestTakenOrExecutedByAnswer tests one profile for a bank that executes at once and one that
// accepts provisionally.
func TestTakenOrExecutedByAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode railsim.Mode
		want string
	}{
		"executed at once": {railsim.Sync, "DISPATCHING DISPATCHED"},
		"taken for now":    {railsim.Provisional, "DISPATCHING ACCEPTED INQUIRING DISPATCHED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, askable(`, "acceptance": "BY_ANSWER"`), func(c2 *railsim.Config) { c2.Mode = c.mode })
			w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, c.want)
			same(t, "executions", w.executions(id), 1)
			w.nothingLeft()
		})
	}
}

// TestAskedByTheBanksOwnReference tests that an inquiry names the reference of the provisional
// acceptance, also after a restart of the relayer.
func TestAskedByTheBanksOwnReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askable(`, "acceptance": "PROVISIONAL"`),
		func(c *railsim.Config) { c.Mode, c.SettleDelay = railsim.Provisional, 150*time.Millisecond })
	w.asks = "/payments/by-id/{reference}"
	w.run(config())
	id := w.enqueue("the one")
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	same(t, "executions", w.executions(id), 1)
	reference := w.text(`SELECT rail_reference FROM railhead.payment_outbox_attempts WHERE state = 'ACCEPTED'`)
	asked := 0
	for _, request := range w.bank.Requests() {
		if request.Op == "inquiry" {
			asked++
			same(t, "asked by", request.ID, reference)
		}
	}
	if asked == 0 {
		t.Error("the bank was never asked")
	}
	w.nothingLeft()
}

// TestSeenBeforeAndNotFound tests a bank that answers "duplicate" to the re-send of an executed
// payment while its index does not have the payment yet. Its "no such payment" proves nothing.
func TestSeenBeforeAndNotFound(t *testing.T) {
	t.Parallel()
	for _, replay := range railsim.Replays() {
		if replay == railsim.ReplayStored {
			continue
		}
		t.Run(string(replay), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, askable(`, "inquiry": {"intervals": ["50ms"], "max": 5, "not_found": "NOT_EXECUTED", "not_found_age": "700ms", "not_found_until": "1h"}`))
			if err := w.bank.SetOnReplay(replay); err != nil {
				t.Fatal(err)
			}
			w.faults(railsim.Fault{Kind: railsim.DropAfter, Match: railsim.Match{Nth: 1}},
				railsim.Fault{Kind: railsim.InquiryNotFound})
			w.run(config())
			id := w.enqueue("the one")
			w.awaitText("PARKED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
			if rows := w.states(id); !knewTheKey.MatchString(rows) {
				t.Errorf("rows %s", rows)
			}
			same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
			same(t, "executions", w.executions(id), 1)
			same(t, "unknown", w.text(`SELECT bool_and(outcome_unknown)::text FROM railhead.payment_outbox_attempts
				WHERE state = 'PARKED'`), "true")
		})
	}
}

var knewTheKey = regexp.MustCompile(`^DISPATCHING UNKNOWN (INQUIRING UNKNOWN )*INQUIRING RETRYABLE/NOT_FOUND ` +
	`DISPATCHING UNKNOWN/SEEN_BEFORE (INQUIRING UNKNOWN )+INQUIRING UNKNOWN/INQUIRIES_EXHAUSTED PARKED/INQUIRIES_EXHAUSTED$`)

// told is a rail that records the render version in inquiries.
type told struct {
	rails.Rail
	by chan string
}

func (r told) Inquire(ctx context.Context, q rails.Inquiry) rails.Result {
	r.by <- q.RenderVersion
	return r.Rail.(rails.Inquirer).Inquire(ctx, q)
}

// TestInquiryNamesTheRendering tests that an inquiry contains the render version of the sends. If
// the rail's address has changed since, "no such payment" from the new one proves nothing.
func TestInquiryNamesTheRendering(t *testing.T) {
	t.Parallel()
	w := newWorld(t, askable(`, "inquiry": {"intervals": ["10ms"], "max": 2, "not_found": "INCONCLUSIVE"}`))
	asked := make(chan string, 10)
	w.wrap = func(rail rails.Rail) rails.Rail { return told{rail, asked} }
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	w.run(config())
	id := w.enqueue("the one")
	by := <-asked
	var sent string
	w.cell.QueryRow(`SELECT render_version FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND state = 'DISPATCHING'`, []any{[16]byte(id)}, &sent)
	same(t, "render version of the inquiry", by, sent)
}
