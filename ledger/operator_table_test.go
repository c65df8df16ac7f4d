package ledger_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// hands are what an operator can do to an instruction, in the order of the columns
// of operatorTable.
var hands = []struct {
	name string
	do   func(o *operator.Operator, t *testing.T, id payment.ID) error
}{
	{"cancel", func(o *operator.Operator, t *testing.T, id payment.ID) error {
		_, err := o.CancelPayment(t.Context(), id, why)
		return err
	}},
	{"acknowledge", triage(operator.Acknowledge)},
	{"escalate", triage(operator.Escalate)},
	{"close", triage(operator.Close)},
	{"replay", func(o *operator.Operator, t *testing.T, id payment.ID) error {
		_, err := o.ReplayPayment(t.Context(), id, operator.NeverExpires, why)
		return err
	}},
	{"resolve executed", resolve(operator.Evidence{Executed: true, RailReference: "found", Date: time.Now(), Document: "statement 146", Reason: why})},
	{"resolve not executed", resolve(operator.Evidence{Date: time.Now(), Document: "ticket 4711", Reason: why})},
	{"resolve not executed, the rail silent", resolve(operator.Evidence{Date: time.Now(), Document: "ticket 4711", Reason: why, RailSilent: true})},
}

const why = "asked by the participant"

func triage(to operator.Triage) func(*operator.Operator, *testing.T, payment.ID) error {
	return func(o *operator.Operator, t *testing.T, id payment.ID) error {
		_, err := o.TriageDeadLetter(t.Context(), id, to, why)
		return err
	}
}

func resolve(evidence operator.Evidence) func(*operator.Operator, *testing.T, payment.ID) error {
	return func(o *operator.Operator, t *testing.T, id payment.ID) error {
		own := evidence
		if own.Executed {
			own.RailReference += id.String()
		}
		_, err := o.ResolvePayment(t.Context(), id, own)
		return err
	}
}

// plights bring an instruction to where an operator finds it.
var plights = map[string]func(d *desk) payment.ID{
	"pending, never sent": func(d *desk) payment.ID { return d.enqueue() },
	"pending, refused for now": func(d *desk) payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultRefusedTransient, ""))
		return claim.OutboxID
	},
	"pending, outcome unknown": func(d *desk) payment.ID { return sentOnce(d).OutboxID },
	"pending, to be asked about": func(d *desk) payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(asks, claim, payment.ResultUnknown, ""))
		return claim.OutboxID
	},
	"claimed":    func(d *desk) payment.ID { return d.claimOne(d.enqueue()).OutboxID },
	"DISPATCHED": func(d *desk) payment.ID { return answered(d, payment.ResultAccepted).OutboxID },
	"FAILED":     func(d *desk) payment.ID { return answered(d, payment.ResultRefusedFinal).OutboxID },
	"EXPIRED": func(d *desk) payment.ID {
		id := d.enqueue()
		d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
		if ended, err := d.exec.Expire(d.t.Context(), "reaper", 10); err != nil || len(ended) != 1 {
			d.t.Fatalf("expired %v, %v", ended, err)
		}
		return id
	},
	"PARKED, outcome unknown": func(d *desk) payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(never, claim, payment.ResultUnknown, ""))
		return claim.OutboxID
	},
	// A rail that can be asked, and does not de-duplicate: even "no such payment"
	// is an operator's to act on.
	"PARKED, just not found": func(d *desk) payment.ID { return justNotFound(d) },
	"CONFLICT after FAILED": func(d *desk) payment.ID {
		claim := answered(d, payment.ResultRefusedFinal)
		same(d.t, "late", d.late(evidence(sameKey, claim, "executed", "ref")), payment.VerdictConflict)
		return claim.OutboxID
	},
	"CONFLICT after DISPATCHED": func(d *desk) payment.ID {
		claim := answered(d, payment.ResultAccepted)
		same(d.t, "late", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictConflict)
		return claim.OutboxID
	},
	"CONFLICT after CANCELLED": func(d *desk) payment.ID {
		id := d.enqueue()
		d.must(hands[0].do(d.operator(), d.t, id))
		same(d.t, "late", d.late(callback(id, payment.ResultExecuted, "ref")), payment.VerdictConflict)
		return id
	},
	"TAMPERED, proven executed": func(d *desk) payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultTampered, ""))
		same(d.t, "late", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref")), payment.VerdictSettled)
		return claim.OutboxID
	},
	"TAMPERED": func(d *desk) payment.ID {
		id := d.enqueue()
		d.do(`UPDATE railhead.payment_outbox_pending p SET payload = i.payload || '{"amount": "9999.00"}'
			FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id AND p.outbox_id = $1`, [16]byte(id))
		d.record(told(sameKey, d.claimOne(id), payment.ResultTampered, ""))
		return id
	},
	"UNCLAIMABLE": func(d *desk) payment.ID {
		id := d.enqueue()
		if err := d.quarantine(id, "23514"); err != nil {
			d.t.Fatal(err)
		}
		return id
	},
	"UNCLAIMABLE, outcome unknown": func(d *desk) payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(asks, claim, payment.ResultUnknown, ""))
		d.must(d.quarantine(claim.OutboxID, "23514"))
		return claim.OutboxID
	},
	"CANCELLED": func(d *desk) payment.ID {
		id := d.enqueue()
		d.must(hands[0].do(d.operator(), d.t, id))
		return id
	},
	"REPLAYED": func(d *desk) payment.ID {
		id := answered(d, payment.ResultRefusedFinal).OutboxID
		_, err := d.operator().ReplayPayment(d.t.Context(), id, time.Time{}, why)
		d.must(err)
		return id
	},
}

func answered(d *desk, result payment.Result) payment.Claim {
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, result, "ref"))
	return claim
}

func justNotFound(d *desk) payment.ID {
	first := d.claimOne(d.enqueue())
	d.record(told(asksInVain, first, payment.ResultUnknown, ""))
	d.record(told(asksInVain, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
	return first.OutboxID
}

// asksInVain can be asked, but not sent to again: the policy of inVain.
var asksInVain = func() payment.Policy {
	policy := asks
	policy.ResendOnUnknown, policy.KeyWindow = payment.ResendNever, 0
	return policy
}()

// inVain is the profile in force in these tests, with an age that no file may
// have: nothing is sent here, and the functions look at these fields alone.
const inVain = `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME",
	"inquiry": {"max": 2, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1us", "not_found_until": "24h"}}`

// operator is the ledger as an operator opens it, with one connection for all that a test has them do.
func (d *desk) operator() *operator.Operator {
	d.t.Helper()
	if d.person == nil {
		var err error
		d.person, err = operator.Open(d.t.Context(),
			ledger.Config{URL: d.URL(celltest.Operator), Cell: d.Schema, MaxConns: 1})
		d.must(err)
		d.t.Cleanup(d.person.Close)
	}
	return d.person
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// logged counts the acts of the operator's login on an instruction, with the
// reason that these tests give.
func (d *desk) logged(id payment.ID) int {
	return d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id = $1 AND actor = $2 AND reason = $3`,
		[16]byte(id), celltest.Operator, why)
}

// TestOperatorActs meets every state with every act.
func TestOperatorActs(t *testing.T) {
	t.Parallel()
	if len(operatorTable) != len(plights) {
		t.Errorf("the table has %d states, there are %d", len(operatorTable), len(plights))
	}
	for name, bring := range plights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
			o := d.operator()
			wants := operatorTable[name]
			if len(wants) == len(hands)-1 { // a silent rail makes no difference
				wants = append(slices.Clone(wants), wants[6])
			}
			if len(wants) != len(hands) {
				t.Fatalf("the table has %d columns, want %d", len(wants), len(hands))
			}
			for n, hand := range hands {
				if got := d.acts(o, hand.do, bring(d)); got != wants[n] {
					t.Errorf("%s:\n got %s\nwant %s", hand.name, got, wants[n])
				}
			}
			d.gapless()
		})
	}
}

// acts does one act and tells what came of it: the rows that it appended, what
// waits then, and the dead letter; or the refusal, which must have changed nothing.
func (d *desk) acts(
	o *operator.Operator, do func(*operator.Operator, *testing.T, payment.ID) error, id payment.ID,
) string {
	d.t.Helper()
	look := func() [3]string { return [3]string{d.rows(id), d.waiting(id), d.letter(id)} }
	before, logged := look(), d.logged(id)
	err := do(o, d.t, id)
	after := look()
	if err != nil {
		fault, ok := errors.AsType[*outbox.Fault](err)
		switch {
		case !ok:
			return "no refusal: " + err.Error()
		case fault.SQLState == outbox.StateNotAllowed && fault.Hint == "" && !plainEnough.MatchString(fault.Message):
			d.t.Errorf("a refusal without a hint: %s", fault.Message)
		}
		if after != before || d.logged(id) != logged {
			d.t.Errorf("a refused act has changed %v to %v", before, after)
		}
		return fault.SQLState + " " + fault.Message
	}
	if d.logged(id) != logged+1 {
		d.t.Errorf("an act left %d rows of the operator log, want 1", d.logged(id)-logged)
	}
	got := "+ " + strings.TrimSpace(strings.TrimPrefix(after[0], before[0]))
	if after[1] != "" {
		got += ", " + after[1]
	}
	if after[2] != "" {
		got += ", letter " + after[2]
	}
	return got
}

// plainEnough are refusals that say all there is to say.
var plainEnough = regexp.MustCompile(`has no dead letter|already closed`)
