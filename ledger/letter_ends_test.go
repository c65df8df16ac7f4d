package ledger_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// ends are the acts that may end a dead letter.
var ends = []struct{ name, sql string }{
	{"cancel", `SELECT railhead.cancel_payment($1, 'asked by the participant')`},
	{"close", `SELECT railhead.triage_dead_letter($1, 'resolved', 'asked by the participant')`},
	{"replay", `SELECT railhead.replay_payment($1, 'asked by the participant')`},
	{"resolve executed", `SELECT railhead.resolve_payment($1, true, 'found', current_date, 'statement 146', 'asked by the participant')`},
	{"resolve not executed", `SELECT railhead.resolve_payment($1, false, NULL, current_date, 'ticket 4711', 'asked by the participant', true)`},
}

// comesLate are the kinds of evidence that reach an instruction wherever it is: what
// the rail reports by itself, and what the worker of a claim that a failover forgot says.
var comesLate = []struct {
	name string
	of   func(id payment.ID) payment.Outcome
}{
	{"executed", func(id payment.ID) payment.Outcome { return callback(id, payment.ResultExecuted, "ref") }},
	{"executed under another reference", func(id payment.ID) payment.Outcome { return callback(id, payment.ResultExecuted, "another") }},
	{"refused", func(id payment.ID) payment.Outcome { return callback(id, payment.ResultRefused, "") }},
	{"forgotten and unknown", func(id payment.ID) payment.Outcome { return evidence(sameKey, forgotten(id), "unknown", "") }},
	{"forgotten and taken", func(id payment.ID) payment.Outcome {
		return evidence(sameKey, forgotten(id), "accepted for now", "ref")
	}},
	{"forgotten and refused", func(id payment.ID) payment.Outcome { return evidence(sameKey, forgotten(id), "refused", "") }},
}

// reported is how many of them a rail reports by itself: those come first.
const reported = 3

// TestEveryLetterCanBeEnded brings instructions to every state by the product's own
// ways, lets evidence come late, twice over, and tries every act on every letter that
// is open then: some of them end it, none fails otherwise than by a refusal, and what
// they leave is a legal life of which some row has the payload.
func TestEveryLetterCanBeEnded(t *testing.T) {
	t.Parallel()
	sources := make(map[string]func(*desk) payment.ID)
	maps.Copy(sources, plights)
	for name, bring := range places {
		sources["evidence finds it "+name] = func(d *desk) payment.ID { return bring(d).OutboxID }
	}
	for name, bring := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
			tried := make(map[string]bool)
			d.endsOf(name, bring(d), tried)
			for _, first := range comesLate {
				id := bring(d)
				d.late(first.of(id))
				d.endsOf(name+", then "+first.name, id, tried)
				for _, second := range comesLate[:reported] {
					id := bring(d)
					d.late(first.of(id))
					d.late(second.of(id))
					d.endsOf(name+", then "+first.name+", then "+second.name, id, tried)
				}
			}
		})
	}
}

// endsOf tries the acts in a transaction that is rolled back, once for instructions
// that look alike.
func (d *desk) endsOf(what string, id payment.ID, tried map[string]bool) {
	d.t.Helper()
	d.alive(what, d.super, id)
	letter := d.letter(id)
	looks := d.rows(id) + d.waiting(id) + letter
	if letter == "" || isEnded(letter) || tried[looks] {
		return
	}
	tried[looks] = true
	tx, err := d.super.Begin(d.t.Context())
	d.must(err)
	ended := d.actsEnd(what+" ("+letter+")", tx, id, 2)
	d.must(tx.Rollback(d.t.Context()))
	if !ended {
		d.t.Errorf("%s: no act ends the letter %s of %s", what, letter, d.rows(id))
	}
}

// actsEnd reports whether the letter can be ended by so many acts, one after the other.
func (d *desk) actsEnd(what string, tx pgx.Tx, id payment.ID, acts int) (ended bool) {
	d.t.Helper()
	for _, act := range ends {
		inner, err := tx.Begin(d.t.Context())
		d.must(err)
		_, err = inner.Exec(d.t.Context(), act.sql, [16]byte(id))
		if err == nil {
			name := what + ", " + act.name
			d.alive(name, inner.Conn(), id)
			switch after := d.letter(id); {
			case isEnded(after):
				ended = true
			case acts > 1 && d.actsEnd(name, inner, id, acts-1):
				ended = true
			}
		} else if state := ledger.SQLState(err); !strings.HasPrefix(state, "RH") {
			d.t.Errorf("%s, %s: %v", what, act.name, err)
		}
		d.must(inner.Rollback(d.t.Context()))
	}
	return ended
}

func isEnded(letter string) bool {
	return strings.HasSuffix(letter, " resolved") || strings.HasSuffix(letter, " manual_replay")
}

// alive insists that an instruction's rows are a legal life: what the proofs of
// transitions and of nothing lost say.
func (d *desk) alive(what string, conn *pgx.Conn, id payment.ID) {
	d.t.Helper()
	var states []string
	var payloads, pending int
	var executed int
	err := conn.QueryRow(d.t.Context(), `
		SELECT coalesce(array_agg(a.state::text ORDER BY a.attempt_no), '{}'), count(a.payload),
			count(*) FILTER (WHERE a.state = 'DISPATCHED'),
			(SELECT count(*) FROM railhead.payment_outbox_pending p WHERE p.outbox_id = $1)
		FROM railhead.v_outbox_attempts a WHERE a.outbox_id = $1`, [16]byte(id)).Scan(&states, &payloads, &executed, &pending)
	d.must(err)
	var last payment.State
	for n, word := range states {
		next := payment.State(word)
		if !payment.MayFollow(last, next) && !payment.MayResolve(last, next) {
			d.t.Errorf("%s: row %d is %s after %s", what, n+1, next, last)
		}
		if next != payment.LateOutcome {
			last = next
		}
	}
	switch letter := d.letter(id); {
	case payloads+pending == 0:
		d.t.Errorf("%s: no row has the payload: %s", what, states)
	case executed > 1:
		d.t.Errorf("%s: %d rows say DISPATCHED", what, executed)
	case pending == 0 && last == payment.Parked && (letter == "" || isEnded(letter)), pending == 0 &&
		last == payment.Failed && letter == "":
		d.t.Errorf("%s: %s, and the letter is %q", what, last, letter)
	}
}

// TestCancelledIsDoneWith: that a cancelled payment was not executed, against the rail's
// report, is no news, and it is not sent after all.
func TestCancelledIsDoneWith(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	id := plights["CONFLICT after CANCELLED"](d)
	before := d.rows(id)
	verdict, err := o.ResolvePayment(t.Context(), id,
		operator.Evidence{Date: time.Now(), Document: "ticket 4711", Reason: why})
	d.must(err)
	same(t, "verdict", string(verdict), "CANCELLED")
	same(t, "rows", d.rows(id), before)
	same(t, "letter", d.letter(id), "CONFLICT resolved")
	refusedWith(t, "replay", hands[4].do(o, t, id), "RH020",
		"the instruction is CANCELLED and its dead letter is already closed")
	line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
	d.must(err)
	word, reason := line.Certainty()
	same(t, "money", string(word)+": "+reason,
		"NOT_EXECUTED_BY_EVIDENCE: by evidence of "+celltest.Operator+", ticket 4711 (row 1)")
}
