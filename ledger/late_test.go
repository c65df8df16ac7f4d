package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// The kinds of late evidence, all of claim 1 unless a place says otherwise.
var kinds = []string{
	"executed", "refused", "refused payment", "refused for now", "unknown", "not sent", "accepted for now",
}

// evidence is a late outcome of a kind: what a worker that lost the fence has in
// its hands. "Refused payment" is an inquiry's word and covers every send,
// "refused" is the answer to one send.
func evidence(policy payment.Policy, claim payment.Claim, kind, reference string) payment.Outcome {
	switch kind {
	case "executed":
		return told(policy, claim, payment.ResultAccepted, reference)
	case "refused":
		return told(policy, claim, payment.ResultRefusedFinal, "")
	case "refused payment":
		return outcome(claim, payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}, payment.ResultRefused, "")
	case "refused for now":
		return told(policy, claim, payment.ResultRefusedTransient, "")
	case "unknown":
		return told(policy, claim, payment.ResultUnknown, "")
	case "not sent":
		return told(policy, claim, payment.ResultNotSent, "")
	case "accepted for now":
		policy.Acceptance = payment.AcceptanceProvisional
		policy.Inquiry = provisional.Inquiry
		return told(policy, claim, payment.ResultAccepted, reference)
	default:
		panic("no such kind: " + kind)
	}
}

// place brings an instruction to where late evidence meets it. It returns the
// claim that the evidence is about.
type place func(d *desk) payment.Claim

// sentOnce: claim 1 was lost; the instruction waits to be sent again.
func sentOnce(d *desk) payment.Claim {
	claim := d.claimOne(d.enqueue())
	d.record(lost(sameKey, claim))
	return claim
}

// foundNothing: claim 1 was lost, and an inquiry old enough to count said that
// there is no such payment, so that it is sent again, and as unknown as before.
func foundNothing(d *desk) payment.Claim {
	claim := d.claimOne(d.enqueue())
	d.record(lost(asks, claim))
	d.record(told(asks, d.claimOne(claim.OutboxID), payment.ResultNotFound, ""))
	return claim
}

// sentNothing: claim 1 ended before the first byte.
func sentNothing(d *desk) payment.Claim {
	claim := d.claimOne(d.enqueue())
	d.record(told(asks, claim, payment.ResultNotSent, ""))
	return claim
}

// thenClaimed goes on from sentOnce: claim 3 is open.
func thenClaimed(d *desk) (first, second payment.Claim) {
	first = sentOnce(d)
	return first, d.claimOne(first.OutboxID)
}

// expire has the reaper end what waits.
func expire(d *desk, id payment.ID) {
	d.t.Helper()
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
	if ended, err := d.exec.Expire(d.t.Context(), "reaper", 10); err != nil || len(ended) != 1 {
		d.t.Fatalf("expired %v, %v", ended, err)
	}
}

var places = map[string]place{
	// A failover has lost the claim that the worker still remembers.
	"pending, never sent": func(d *desk) payment.Claim {
		id := d.enqueue()
		return payment.Claim{ClaimID: payment.NewID(), OutboxID: id, AttemptNo: 1, Action: payment.ActionSend,
			RailType: "bank"}
	},
	"pending after a lost worker":            sentOnce,
	"pending after an inquiry found nothing": foundNothing,
	"claimed by another claim": func(d *desk) payment.Claim {
		first, _ := thenClaimed(d)
		return first
	},
	"parked": func(d *desk) payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(lost(never, claim))
		return claim
	},
	"parked with two sends unknown": func(d *desk) payment.Claim {
		first, second := thenClaimed(d)
		d.record(lost(never, second))
		return first
	},
	"DISPATCHED by another claim": func(d *desk) payment.Claim {
		first, second := thenClaimed(d)
		d.record(told(sameKey, second, payment.ResultAccepted, "ref"))
		return first
	},
	"DISPATCHED by a callback, answered otherwise": func(d *desk) payment.Claim {
		claim := d.claimOne(d.enqueue())
		same(d.t, "callback", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref")), payment.VerdictIn)
		return claim
	},
	"FAILED by another claim": func(d *desk) payment.Claim {
		first, second := thenClaimed(d)
		d.record(told(coversKey, second, payment.ResultRefusedFinal, ""))
		return first
	},
	"FAILED by the rail's word for the whole payment": func(d *desk) payment.Claim {
		d.do(`SELECT railhead.apply_rail_profile('bank', '{"answer_covers_key": true}', 'set by a test')`)
		first, second := thenClaimed(d)
		d.late(callback(second.OutboxID, payment.ResultRefused, ""))
		return first
	},
	"parked after an inquiry found nothing": func(d *desk) payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(lost(asks, claim))
		once := asks
		once.Retry.MaxSends = 1
		d.record(told(once, d.claimOne(claim.OutboxID), payment.ResultNotFound, ""))
		return claim
	},
	"FAILED by a refusal, and another claim forgotten": func(d *desk) payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultRefusedFinal, ""))
		claim.ClaimID, claim.ClaimedAt = payment.NewID(), claim.ClaimedAt.Add(-time.Second)
		return claim
	},
	// The rail's word is of one send, and there were two.
	"FAILED by the word for its only known send, and another claim forgotten": func(d *desk) payment.Claim {
		claim := d.claimOne(d.enqueue())
		same(d.t, "callback", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictIn)
		claim.ClaimID, claim.ClaimedAt = payment.NewID(), claim.ClaimedAt.Add(-time.Second)
		return claim
	},
	"parked by a refusal of the send that an index allowed": func(d *desk) payment.Claim {
		first := foundNothing(d)
		d.record(told(sameKey, d.claimOne(first.OutboxID), payment.ResultRefusedFinal, ""))
		return first
	},
	"EXPIRED": func(d *desk) payment.Claim {
		first := d.claimOne(d.enqueue())
		d.record(told(sameKey, first, payment.ResultRefusedTransient, ""))
		expire(d, first.OutboxID)
		return first
	},
	"CANCELLED": func(d *desk) payment.Claim {
		first := sentNothing(d)
		mustExec(d.t, d.Conn(d.t, celltest.Operator), `SELECT railhead.cancel_payment($1, 'asked by the participant')`, [16]byte(first.OutboxID))
		return first
	},
}

// callback is what a rail says by itself: it answers no claim by number.
func callback(id payment.ID, result payment.Result, reference string) payment.Outcome {
	decision := payment.Decision{State: payment.Dispatched}
	if result == payment.ResultRefused {
		decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	}
	return outcome(payment.Claim{OutboxID: id, RailType: "bank"}, decision, result, reference)
}

const (
	settledAsDispatched = "SETTLED + LATE_OUTCOME(1) DISPATCHED(1)"
	settledAsFailed     = "SETTLED + LATE_OUTCOME(1) FAILED(1), letter FAILED pending"
	stored              = "LATE + LATE_OUTCOME(1)"
	conflict            = "CONFLICT + LATE_OUTCOME(1), letter CONFLICT pending"
	forgottenConflict   = "CONFLICT + LATE_OUTCOME, letter CONFLICT pending"
)

// lateTable is the contract, written from the design and not from the code:
// verdict, rows appended, what waits in pending then, the dead letter. The order
// of the columns is that of kinds.
var lateTable = map[string][]string{
	"pending, never sent": {
		"SETTLED + LATE_OUTCOME DISPATCHED", "SETTLED + LATE_OUTCOME FAILED, letter FAILED pending",
		"SETTLED + LATE_OUTCOME FAILED, letter FAILED pending",
		"LATE + LATE_OUTCOME, SEND sends=1 asked=0 count=1",
		"LATE + LATE_OUTCOME, SEND sends=1 asked=0 count=1 unknown",
		"LATE + LATE_OUTCOME, SEND sends=0 asked=0 count=1",
		"LATE + LATE_OUTCOME, INQUIRE sends=1 asked=0 count=1 unknown provisional",
	},
	"pending after a lost worker": {
		settledAsDispatched, settledAsFailed, settledAsFailed,
		stored + ", SEND sends=1 asked=0 count=3 unknown",
		stored + ", SEND sends=1 asked=0 count=3 unknown",
		stored + ", SEND sends=1 asked=0 count=3 unknown",
		stored + ", INQUIRE sends=1 asked=0 count=3 unknown provisional",
	},
	// A sender that was late itself may have sent after the inquiry.
	"pending after an inquiry found nothing": {
		settledAsDispatched, settledAsFailed, settledAsFailed,
		stored + ", SEND sends=1 asked=1 count=5 unknown",
		stored + ", SEND sends=1 asked=1 count=5 unknown",
		stored + ", SEND sends=1 asked=1 count=5 unknown",
		stored + ", INQUIRE sends=1 asked=1 count=5 unknown provisional",
	},
	"claimed by another claim": {stored, stored, stored, stored, stored, stored, stored},
	"parked": {
		settledAsDispatched + ", letter OUTCOME_UNKNOWN resolved", settledAsFailed, settledAsFailed,
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
	},
	// A paused sender may have been in flight while the rail was asked.
	"parked after an inquiry found nothing": {
		settledAsDispatched + ", letter OUTCOME_UNKNOWN resolved", settledAsFailed, settledAsFailed,
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
	},
	"parked with two sends unknown": {
		// "Refused", said of the payment, may mean either send.
		settledAsDispatched + ", letter OUTCOME_UNKNOWN resolved", stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
	},
	// A refusal of another send settles that send and contradicts nothing.
	"DISPATCHED by another claim": {"REPEATED +", stored, conflict, stored, stored, stored, stored},
	// Here the very send that was executed is refused.
	"DISPATCHED by a callback, answered otherwise": {"REPEATED +", conflict, conflict, stored, stored, stored, stored},
	"FAILED by another claim": {
		conflict, "REPEATED +, letter FAILED pending", "REPEATED +, letter FAILED pending",
		stored + ", letter FAILED pending", stored + ", letter FAILED pending", stored + ", letter FAILED pending", conflict,
	},
	// Taken first and refused at settlement is no contradiction.
	"FAILED by the rail's word for the whole payment": {
		conflict, "REPEATED +, letter FAILED pending", "REPEATED +, letter FAILED pending",
		stored + ", letter FAILED pending", stored + ", letter FAILED pending", stored + ", letter FAILED pending",
		stored + ", letter FAILED pending",
	},
	"EXPIRED": {
		conflict, stored + ", letter EXPIRED pending", stored + ", letter EXPIRED pending",
		stored + ", letter EXPIRED pending", conflict, stored + ", letter EXPIRED pending", conflict,
	},
	// A send that was made after all may have been executed, though it was proven or
	// believed that none was: the participant must not pay again.
	"CANCELLED": {conflict, stored, stored, stored, conflict, stored, conflict},
	// A failover forgot the claim that the evidence is about.
	"FAILED by a refusal, and another claim forgotten": {
		forgottenConflict, "LATE + LATE_OUTCOME, letter FAILED pending", "LATE + LATE_OUTCOME, letter FAILED pending",
		"LATE + LATE_OUTCOME, letter FAILED pending", forgottenConflict, "LATE + LATE_OUTCOME, letter FAILED pending",
		forgottenConflict,
	},
	"FAILED by the word for its only known send, and another claim forgotten": {
		forgottenConflict, "LATE + LATE_OUTCOME, letter FAILED pending", "LATE + LATE_OUTCOME, letter FAILED pending",
		"LATE + LATE_OUTCOME, letter FAILED pending", forgottenConflict, "LATE + LATE_OUTCOME, letter FAILED pending",
		forgottenConflict,
	},
	"parked by a refusal of the send that an index allowed": {
		settledAsDispatched + ", letter OUTCOME_UNKNOWN resolved", settledAsFailed, settledAsFailed,
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
		stored + ", letter OUTCOME_UNKNOWN pending", stored + ", letter OUTCOME_UNKNOWN pending",
	},
}

func TestLateOutcomes(t *testing.T) {
	t.Parallel()
	for name, bring := range places {
		wants, ok := lateTable[name]
		if !ok || len(wants) != len(kinds) {
			t.Fatalf("the table has %d columns for %s", len(wants), name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for n, kind := range kinds {
				d.meets(kind, bring, wants[n])
			}
			d.gapless()
		})
	}
}

// meets lets one kind of evidence meet one place, twice over: the same call again
// is MINE, equal evidence from another call is REPEATED and appends nothing.
func (d *desk) meets(kind string, bring place, want string) {
	d.t.Helper()
	claim := bring(d)
	id := claim.OutboxID
	before := d.rows(id)
	late := evidence(sameKey, claim, kind, "ref")
	verdict := d.late(late)
	appended := strings.TrimSpace(strings.TrimPrefix(d.rows(id), before))
	got := strings.TrimSpace(string(verdict) + " + " + appended)
	if waiting := d.waiting(id); waiting != "" {
		got += ", " + waiting
	}
	if letter := d.letter(id); letter != "" {
		got += ", letter " + letter
	}
	if got != want {
		d.t.Errorf("%s:\n got %s\nwant %s", kind, got, want)
		return
	}
	after := d.rows(id)
	if verdict != payment.VerdictRepeated {
		same(d.t, kind+", the same call again", d.late(late), payment.VerdictMine)
	}
	equal := late
	equal.AttemptID = payment.NewID()
	same(d.t, kind+", equal evidence again", d.late(equal), payment.VerdictRepeated)
	same(d.t, kind+", rows after both", d.rows(id), after)
	d.record() // nothing is left half done: an empty turn works
}

// TestLateReferences: the same payment has one reference. Two executions under
// two references are two payments, until an operator says otherwise.
func TestLateReferences(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct{ recorded, late, want string }{
		{"ref", "ref", "REPEATED"}, {"ref", "other", "CONFLICT"}, {"ref", "", "REPEATED"}, {"", "", "REPEATED"}, {"", "ref", "LATE"},
	} {
		first, second := thenClaimed(d)
		d.record(told(sameKey, second, payment.ResultAccepted, c.recorded))
		got := d.late(told(sameKey, first, payment.ResultAccepted, c.late))
		same(t, "recorded "+c.recorded+", late "+c.late, string(got), c.want)
	}
}
