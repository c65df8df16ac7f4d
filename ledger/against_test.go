package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// stated is evidence of an execution.
func stated(reference string) operator.Evidence {
	return operator.Evidence{Executed: true, RailReference: reference, Date: time.Now(), Document: "statement 1",
		Reason: why}
}

// TestTwoReferences: two executions with two references are two payments, wherever they
// are told.
func TestTwoReferences(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultAccepted, ""))
	same(t, "the first reference", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref-2")), payment.VerdictLate)
	same(t, "the second", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref-3")), payment.VerdictConflict)

	for name, answer := range map[string]payment.Result{"unknown": payment.ResultUnknown,
		"executed": payment.ResultAccepted} {
		first, second := thenClaimed(d)
		d.record(lost(stubborn, second))
		third := d.claimOne(first.OutboxID)
		d.late(told(sameKey, first, payment.ResultAccepted, "ref-a"))
		d.late(told(sameKey, second, payment.ResultAccepted, "ref-b"))
		d.late(told(sameKey, third, answer, "ref-a"))
		same(t, "two references in front of "+name, d.letter(first.OutboxID), "CONFLICT pending")
	}
}

// TestRefusalAndExecution: that the payment was refused contradicts that it was
// executed, before or after it, and told once or twice.
func TestRefusalAndExecution(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, second := thenClaimed(d)
	d.late(told(sameKey, first, payment.ResultAccepted, "ref-a"))
	d.late(callback(first.OutboxID, payment.ResultRefused, ""))
	d.late(told(sameKey, second, payment.ResultUnknown, ""))
	same(t, "while a claim is open", d.letter(first.OutboxID), "CONFLICT pending")

	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	same(t, "it may be either send", d.late(callback(first.OutboxID, payment.ResultRefused, "")), payment.VerdictLate)
	same(t, "executed", d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-x")), payment.VerdictSettled)
	same(t, "refused again", d.late(callback(first.OutboxID, payment.ResultRefused, "")), payment.VerdictConflict)
}

// TestRefusedUnderTheSameReference: what the rail refused under a reference, and executed
// under the same one afterwards, contradicts itself, unless it was sent again meanwhile.
func TestRefusedUnderTheSameReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	word := func(id payment.ID, result payment.Result, reference string, want payment.Verdict) {
		t.Helper()
		same(t, string(result)+" "+reference, d.late(callback(id, result, reference)), want)
	}
	conflict := func(what string, id payment.ID) {
		t.Helper()
		same(t, what, d.letter(id), "CONFLICT pending")
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		same(t, what, line.Contradiction(), "the rail said that it executed the payment, and that it refused it")
	}
	settled := func(what string, id payment.ID) {
		t.Helper()
		same(t, what, strings.HasPrefix(d.letter(id), "CONFLICT"), false)
		same(t, what, d.certainty(id), reader.RailAccepted)
	}

	// While it waits for the next send, as two reports.
	first, second := thenClaimed(d)
	d.record(lost(sameKey, second))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("reported while it waits", first.OutboxID)
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictRepeated)

	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	word(first.OutboxID, payment.ResultExecuted, "ref-2", payment.VerdictSettled)
	settled("another reference", first.OutboxID)

	// It was sent again meanwhile: the refusal was of a send before.
	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	d.record(told(sameKey, d.claimOne(first.OutboxID), payment.ResultUnknown, ""))
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictSettled)
	settled("sent again", first.OutboxID)

	// By that send nothing left: it is none.
	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	d.record(told(sameKey, d.claimOne(first.OutboxID), payment.ResultNotSent, ""))
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("never sent again", first.OutboxID)

	// While a send is out, and in its answer.
	first, _ = thenClaimed(d)
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("reported while a send is out", first.OutboxID)
	first, second = thenClaimed(d)
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	same(t, "answered", d.late(told(sameKey, second, payment.ResultAccepted, "ref-1")), payment.VerdictConflict)
	conflict("in the answer", first.OutboxID)

	// By one inquiry and by the next, by a report while one is out, and by a report
	// before an answer that says nothing.
	asked := func() payment.Claim {
		t.Helper()
		first, second := thenClaimed(d)
		d.record(told(asksInVain, second, payment.ResultUnknown, ""))
		inquiry := d.claimOne(first.OutboxID)
		same(t, "asked", inquiry.Action, payment.ActionInquire)
		refusal := told(asksInVain, inquiry, payment.ResultRefused, "ref-1")
		same(t, "it may be either send", refusal.Decision.OutcomeUnknown, true)
		d.record(refusal)
		again := d.claimOne(first.OutboxID)
		same(t, "asked again", again.Action, payment.ActionInquire)
		return again
	}
	again := asked()
	executed := told(asksInVain, again, payment.ResultExecuted, "ref-1")
	result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{executed},
		Finished: []payment.ID{again.ClaimID}})
	d.must(err)
	same(t, "the next inquiry is weighed", len(result.Late), 1)
	same(t, "the next inquiry", d.late(executed), payment.VerdictConflict)
	conflict("by the next inquiry", again.OutboxID)
	again = asked()
	same(t, "as another", d.late(told(asksInVain, again, payment.ResultExecuted, "ref-2")), payment.VerdictIn)
	settled("by the next inquiry, as another", again.OutboxID)
	again = asked()
	word(again.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("reported during an inquiry", again.OutboxID)

	// Told in the other order: the only send was refused, after all.
	for _, reference := range []string{"ref-1", ""} {
		only := d.claimOne(d.enqueue())
		d.record(lost(asks, only))
		inquiry := d.claimOne(only.OutboxID)
		d.record(told(asks, inquiry, payment.ResultExecuted, "ref-1"))
		same(t, "the only send", d.late(told(asks, only, payment.ResultRefusedFinal, reference)), payment.VerdictConflict)
		conflict("the only send was refused", only.OutboxID)
	}
	one := d.claimOne(d.enqueue())
	d.record(lost(asks, one))
	inquiry := d.claimOne(one.OutboxID)
	both := outbox.Turn{Outcomes: []payment.Outcome{
		told(asks, one, payment.ResultRefusedFinal, "ref-1"), told(asks, inquiry, payment.ResultExecuted, "ref-1"),
	}}
	result, err = d.exec.Turn(t.Context(), both)
	d.must(err)
	for _, late := range result.Late {
		d.late(late)
	}
	conflict("in one turn", one.OutboxID)

	// The reference of the execution is told after it, or by the second proof.
	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	word(first.OutboxID, payment.ResultExecuted, "", payment.VerdictSettled)
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("the reference came later", first.OutboxID)
	first, second = thenClaimed(d)
	d.record(told(asksInVain, second, payment.ResultUnknown, ""))
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	inquiry = d.claimOne(first.OutboxID)
	d.late(told(sameKey, first, payment.ResultAccepted, ""))
	d.late(told(sameKey, second, payment.ResultAccepted, "ref-1"))
	same(t, "the second proof", d.late(told(asksInVain, inquiry, payment.ResultUnknown, "")), payment.VerdictConflict)
	conflict("the second proof has it", first.OutboxID)

	// Of an earlier send, which was refused under the same reference for now: an inquiry
	// and a report may repeat that.
	repeats := asksInVain
	repeats.IDAfterRefusal = payment.IDSame
	notNow := func() (first, second payment.Claim) {
		t.Helper()
		first = d.claimOne(d.enqueue())
		d.record(told(repeats, first, payment.ResultRefusedTransient, "ref-1"))
		return first, d.claimOne(first.OutboxID)
	}
	first, second = notNow()
	d.record(told(repeats, second, payment.ResultUnknown, ""))
	d.record(told(repeats, d.claimOne(first.OutboxID), payment.ResultRefused, "ref-1"))
	executed = told(repeats, d.claimOne(first.OutboxID), payment.ResultExecuted, "ref-1")
	same(t, "the next inquiry", d.late(executed), payment.VerdictIn)
	settled("what was refused for now, by an inquiry", first.OutboxID)
	first, second = notNow()
	word(first.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	same(t, "the send", d.late(told(repeats, second, payment.ResultAccepted, "ref-1")), payment.VerdictIn)
	settled("what was refused for now, by a report", first.OutboxID)

	// A send after it, which a restore forgot.
	only := d.claimOne(d.enqueue())
	d.record(told(sameKey, only, payment.ResultRefusedFinal, "ref-1"))
	_, err = d.operator().ReplayPayment(t.Context(), only.OutboxID, time.Time{}, why)
	d.must(err)
	gone := only
	gone.ClaimID, gone.AttemptNo, gone.ClaimedAt = payment.NewID(), 4, time.Now().Truncate(time.Microsecond)
	same(t, "forgotten", d.late(told(sameKey, gone, payment.ResultAccepted, "ref-1")), payment.VerdictSettled)
	settled("a send that a restore forgot", only.OutboxID)

	// The reference of what was refused is told after it.
	only = d.claimOne(d.enqueue())
	d.record(told(sameKey, only, payment.ResultRefusedFinal, ""))
	word(only.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictLate)
	word(only.OutboxID, payment.ResultRefused, "ref-1", payment.VerdictRepeated)
	_, err = d.operator().ReplayPayment(t.Context(), only.OutboxID, time.Time{}, why)
	d.must(err)
	word(only.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("the reference of the refusal came later", only.OutboxID)

	// Parked, and after a replay that was not sent yet.
	first, second = thenClaimed(d)
	parked := told(never, second, payment.ResultRefusedFinal, "ref-1")
	same(t, "parked", parked.Decision.State, payment.Parked)
	d.record(parked)
	word(first.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("after the refusal of the last send", first.OutboxID)
	only = d.claimOne(d.enqueue())
	d.record(told(sameKey, only, payment.ResultRefusedFinal, "ref-1"))
	_, err = d.operator().ReplayPayment(t.Context(), only.OutboxID, time.Time{}, why)
	d.must(err)
	word(only.OutboxID, payment.ResultExecuted, "ref-1", payment.VerdictConflict)
	conflict("after a replay", only.OutboxID)
}

// TestRefusedBeforeTheExecution: in whichever order it is told, an execution contradicts
// that every send was refused, or never left.
func TestRefusedBeforeTheExecution(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	replay := func(id payment.ID) {
		t.Helper()
		_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
	}
	for _, reference := range []string{"", "ref-0"} {
		one := d.claimOne(d.enqueue())
		d.record(lost(asks, one))
		inquiry := d.claimOne(one.OutboxID)
		same(t, "during an inquiry", d.late(told(asks, one, payment.ResultRefusedFinal, reference)), payment.VerdictLate)
		executed := told(asks, inquiry, payment.ResultExecuted, "ref-1")
		same(t, "the inquiry, "+reference, d.late(executed), payment.VerdictConflict)
		same(t, "its letter", d.letter(one.OutboxID), "CONFLICT pending")
	}
	for _, kind := range []string{"by its own answer", "by a report"} {
		only := d.claimOne(d.enqueue())
		if kind == "by a report" {
			d.record(lost(sameKey, only))
			same(t, "the payment", d.late(callback(only.OutboxID, payment.ResultRefused, "")), payment.VerdictSettled)
		} else {
			d.record(told(sameKey, only, payment.ResultRefusedFinal, ""))
		}
		replay(only.OutboxID)
		same(t, "after a replay, refused "+kind, d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")),
			payment.VerdictConflict)
	}

	only := d.claimOne(d.enqueue())
	d.record(told(sameKey, only, payment.ResultRefusedFinal, "ref-1"))
	replay(only.OutboxID)
	again := sameKey
	again.IDAfterRefusal = payment.IDSame
	d.record(told(again, d.claimOne(only.OutboxID), payment.ResultRefusedTransient, ""))
	same(t, "both refused", d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictConflict)

	first, second := thenClaimed(d)
	d.record(lost(sameKey, second))
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	d.record(told(sameKey, d.claimOne(first.OutboxID), payment.ResultRefusedFinal, ""))
	same(t, "and the later one", d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1")),
		payment.VerdictConflict)

	// The answer of the send that may have been executed is told after the end.
	for _, answer := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater,
		payment.ResultRefusedTransient} {
		first, second = thenClaimed(d)
		d.record(lost(sameKey, second))
		d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
		third := d.claimOne(first.OutboxID)
		same(t, "it may be the third", d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictIn)
		same(t, "the third: "+string(answer), d.late(told(sameKey, third, answer, "")), payment.VerdictConflict)
	}

	// A send that a restore forgot was executed, and the one that is known refused: no rail
	// contradicts itself by that.
	known := d.claimOne(d.enqueue())
	d.record(lost(never, known))
	gone := known
	gone.ClaimID, gone.AttemptNo, gone.ClaimedAt = payment.NewID(), 4, time.Now().Truncate(time.Microsecond)
	same(t, "the forgotten one", d.late(told(never, gone, payment.ResultAccepted, "ref-1")), payment.VerdictSettled)
	same(t, "the known one", d.late(told(never, known, payment.ResultRefusedFinal, "")), payment.VerdictLate)
}

// TestEverySendRefused: the refusal of the last send that may have been executed
// contradicts that the payment was.
func TestEverySendRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	resolve := func(id payment.ID) {
		t.Helper()
		_, err := o.ResolvePayment(t.Context(), id, stated(id.String()))
		d.must(err)
	}
	first, second := thenClaimed(d)
	d.record(lost(sameKey, second))
	resolve(first.OutboxID)
	same(t, "one of two", d.late(evidence(sameKey, first, "refused", "")), payment.VerdictLate)
	same(t, "both", d.late(evidence(sameKey, second, "refused", "")), payment.VerdictConflict)

	again := sameKey
	again.IDAfterRefusal = payment.IDSame
	first = d.claimOne(d.enqueue())
	d.record(told(again, first, payment.ResultRefusedTransient, ""))
	second = d.claimOne(first.OutboxID)
	d.record(lost(sameKey, second))
	resolve(first.OutboxID)
	same(t, "the first for now, the second for good", d.late(evidence(sameKey, second, "refused", "")),
		payment.VerdictConflict)

	for _, kind := range []string{"not sent", "refused for now"} {
		only := d.claimOne(d.enqueue())
		d.record(lost(never, only))
		resolve(only.OutboxID)
		same(t, "the only one "+kind, d.late(evidence(never, only, kind, "")), payment.VerdictConflict)
		line, err := openReader(t, d.Cell).Timeline(t.Context(), only.OutboxID)
		d.must(err)
		same(t, kind, line.Contradiction(), "no send of the payment was executed, by the answers to them, and an operator "+
			"recorded it as DISPATCHED")

		first, second := thenClaimed(d)
		d.record(lost(sameKey, second))
		resolve(first.OutboxID)
		same(t, "one of two "+kind, d.late(evidence(sameKey, second, kind, "")), payment.VerdictLate)

		executed := answered(d, payment.ResultAccepted)
		same(t, "after the rail's own word "+kind, d.late(evidence(sameKey, executed, kind, "")), payment.VerdictLate)
	}
}

// TestRefusedBeforeAReplay: what a worker tells late of a send before a replay does not end
// what an operator had sent again.
func TestRefusedBeforeAReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}', 'a test')`)
	o := d.operator()
	for _, kind := range []string{"refused", "refused payment"} {
		claim := d.claimOne(d.enqueue())
		d.record(lost(never, claim))
		_, err := o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
		d.must(err)
		_, err = o.ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why)
		d.must(err)
		same(t, kind, d.late(evidence(sameKey, claim, kind, "")), payment.VerdictLate)
		same(t, kind+": what is claimed next", d.claimOne(claim.OutboxID).Action, payment.ActionSend)
	}
}

// TestResolvedByTheOtherReference: evidence is shown with the reference that it names.
func TestResolvedByTheOtherReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, second := thenClaimed(d)
	d.record(told(sameKey, second, payment.ResultAccepted, "ref-1"))
	same(t, "late", d.late(told(sameKey, first, payment.ResultAccepted, "ref-2")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), first.OutboxID, stated("ref-2"))
	d.must(err)
	line, err := openReader(t, d.Cell).Timeline(t.Context(), first.OutboxID)
	d.must(err)
	if _, said := line.Certainty(); !strings.Contains(said, "reference ref-2)") {
		t.Errorf("by evidence of ref-2 it says: %s", said)
	}
}

// TestReferenceOfAnother: a rail's reference of one payment is no evidence of another,
// whatever the rows of either are, and whichever of two operators comes first.
func TestReferenceOfAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	answered(d, payment.ResultAccepted) // its reference is ref
	conflict := answered(d, payment.ResultRefusedFinal)
	same(t, "late", d.late(callback(conflict.OutboxID, payment.ResultExecuted, "ref-7")), payment.VerdictConflict)
	for what, resolve := range map[string]func() error{
		"never claimed here": func() error { _, err := o.ResolvePayment(t.Context(), d.enqueue(), stated("ref")); return err },
		"with blanks":        func() error { _, err := o.ResolvePayment(t.Context(), parked(d), stated(" ref ")); return err },
		"in conflict":        func() error { _, err := o.ResolvePayment(t.Context(), parked(d), stated("ref-7")); return err },
	} {
		refusedWith(t, what, resolve(), "RH020", "the rail's reference is that of")
	}
	_, err := o.ResolvePayment(t.Context(), conflict.OutboxID, stated("ref-7"))
	d.must(err)

	one, two := parked(d), parked(d)
	tx, err := d.Conn(t, celltest.Operator).Begin(t.Context())
	d.must(err)
	const resolve = `SELECT railhead.resolve_payment($1, true, 'ref-z', current_date, 'statement 1', 'a test')`
	_, err = tx.Exec(t.Context(), resolve, [16]byte(one))
	d.must(err)
	done := make(chan error, 1)
	other := d.Conn(t, celltest.Operator)
	go func() { _, err := other.Exec(t.Context(), resolve, [16]byte(two)); done <- err }()
	waits := `SELECT count(*)::text FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'advisory'`
	for end := time.Now().Add(5 * time.Second); d.text(waits, other.PgConn().PID()) == "0" && time.Now().Before(end) &&
		len(done) == 0; {
		time.Sleep(time.Millisecond) // until it waits
	}
	d.must(tx.Commit(t.Context()))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the rail's reference is that of "+one.String()) {
		t.Errorf("two operators by one reference: %v", err)
	}
}

// TestAgainstTheRail: what an operator records against the rail's word says so, and is not
// replayed.
func TestAgainstTheRail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	against := func(what string, id payment.ID) {
		t.Helper()
		said := d.text(`SELECT error_message FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
			AND error_code = 'RESOLVED'`, [16]byte(id))
		row := d.text(`SELECT detail ->> 'against_row' FROM railhead.payment_operator_log WHERE outbox_id = $1
			AND act = 'RESOLVE'`, [16]byte(id))
		if !strings.HasPrefix(said, "against the rail's word (row "+row+"): ") {
			t.Errorf("%s: the row says %q, the log row %q", what, said, row)
		}
	}
	id := plights["CONFLICT after DISPATCHED"](d)
	_, err := o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	against("the acceptance of a send", id)

	id = answered(d, payment.ResultRefusedFinal).OutboxID
	same(t, "late", d.late(callback(id, payment.ResultExecuted, "ref-7")), payment.VerdictConflict)
	_, err = o.ResolvePayment(t.Context(), id, stated("ref-8"))
	d.must(err)
	against("the rail's own reference", id)

	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	id = answered(d, payment.ResultRefusedFinal).OutboxID
	same(t, "late", d.late(callback(id, payment.ResultExecuted, "ref-9")), payment.VerdictConflict)
	_, err = o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "contradicts that: the payment may have been made")
	line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
	d.must(err)
	same(t, "known to be refused", line.ContradictedSince(), true)
}

// TestClosedLetterIsKept: a letter that an operator closed keeps who closed it, and why.
func TestClosedLetterIsKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	id := answered(d, payment.ResultRefusedFinal).OutboxID
	_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	d.record(lost(sameKey, d.claimOne(id)))
	same(t, "executed", d.late(callback(id, payment.ResultExecuted, "ref-1")), payment.VerdictSettled)
	same(t, d.rows(id), d.text(`SELECT concat_ws(' | ', status, note, actor) FROM railhead.payment_dead_letters
		WHERE outbox_id = $1`, [16]byte(id)),
		"manual_replay | "+why+" | railhead_operator_login")
	same(t, "executed again, otherwise", d.late(callback(id, payment.ResultExecuted, "ref-2")), payment.VerdictConflict)
	line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
	d.must(err)
	same(t, "contradiction", line.Contradiction(), "the rail gave two references to the payment: ref-1 and ref-2")
}
