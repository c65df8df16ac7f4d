package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// sameSend takes a key again after a refusal, and never after silence.
const sameSend = `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`

// replayed is the claim of a send whose answer was lost; an operator recorded that it was not
// executed, and replayed it.
func (d *desk) replayed() payment.Claim {
	d.t.Helper()
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	claim := d.claimOne(d.enqueue())
	d.record(lost(never, claim))
	o := d.operator()
	_, err := o.ResolvePayment(d.t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
	d.replay(claim.OutboxID)
	return claim
}

// TestSpentBeforeAReplay: a refusal for now that ends the key, told late of a send before a replay, does not end
// what an operator had sent again.
func TestSpentBeforeAReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.replayed()
	// lack of funds, told late; the operator had it mended before the replay
	same(t, "verdict", d.late(told(sameKey, claim, payment.ResultRefusedBusiness, "")), payment.VerdictLate)
	same(t, "waits", strings.HasPrefix(d.waiting(claim.OutboxID), "SEND"), true)
}

// TestSpentDuringAReplayedSend: nor does it while the replayed send is out, and that does not leave.
func TestSpentDuringAReplayedSend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.replayed()
	second := d.claimOne(claim.OutboxID)
	same(t, "late", d.late(told(sameKey, claim, payment.ResultRefusedBusiness, "")), payment.VerdictLate)
	same(t, "not sent", d.late(told(sameKey, second, payment.ResultNotSent, "")), payment.VerdictIn)
	same(t, "waits", strings.HasPrefix(d.waiting(claim.OutboxID), "SEND"), true)
}

// TestExecutedAgainAfterEvidence: "executed", said again after an operator recorded that it was not, is news.
func TestExecutedAgainAfterEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	for _, plight := range []string{"CONFLICT after DISPATCHED", "CONFLICT after FAILED", "CONFLICT after CANCELLED"} {
		id := plights[plight](d)
		_, err := d.operator().ResolvePayment(t.Context(), id, notExecuted())
		d.must(err)
		if got := d.late(callback(id, payment.ResultExecuted, "ref")); got != payment.VerdictConflict {
			t.Errorf("%s: said again after the evidence: %s, letter %s, %s, %s", plight, got, d.letter(id), d.certainty(id),
				d.rows(id))
		}
	}
}

// TestExecutedByAnotherWitness: what a worker told, and an operator judged to be wrong, is news
// when the rail reports it.
func TestExecutedByAnotherWitness(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	claim := answered(d, payment.ResultRefusedFinal)
	same(t, "a worker", d.late(evidence(sameKey, claim, "executed", "ref")), payment.VerdictConflict)
	o := d.operator()
	_, err := o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
	_, err = o.TriageDeadLetter(t.Context(), claim.OutboxID, operator.Close, why)
	d.must(err)
	if got := d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref")); got != payment.VerdictConflict {
		t.Errorf("the rail's own report: %s, letter %q, certainty %s", got, d.letter(claim.OutboxID),
			d.certainty(claim.OutboxID))
	}
}

// TestForgottenRefusalAfterFailed: the refusal of a send that a restore forgot is kept where the
// payment is FAILED already, and under its key it is not sent again.
func TestForgottenRefusalAfterFailed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "NEW"}', 'a test')`)
	failed := answered(d, payment.ResultRefusedFinal)
	id := plights["EXPIRED"](d)
	d.suspend() // the same with and without
	got := d.late(told(never, forgotten(id), payment.ResultRefusedFinal, ""))
	d.accept()
	word := d.certainty(id)
	if word != reader.RailRefused {
		t.Errorf("%s, certainty %s: %s", got, word, d.rows(id))
	}
	if _, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why); err == nil {
		t.Errorf("replayed under a key that the rail refused, and that wants a new id: %s", d.rows(id))
	}
	same(t, "after the refusal of a known send",
		d.late(told(never, forgotten(failed.OutboxID), payment.ResultRefusedFinal, "")), payment.VerdictLate)
}

// TestForgottenRefusalIsOfASend: a refusal of a forgotten send, which an inquiry repeats, does not
// end the replayed one.
func TestForgottenRefusalIsOfASend(t *testing.T) {
	t.Parallel()
	for _, result := range []payment.Result{payment.ResultRefusedTransient, payment.ResultRefusedFinal} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		id := plights["EXPIRED"](d)
		got := d.late(told(sameKey, forgotten(id), result, ""))
		_, err := d.operator().ReplayPayment(t.Context(), id, operator.NeverExpires, why)
		d.must(err)
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // which the rail executes
		asked := d.claimOne(id)
		d.record(told(asksInVain, asked, payment.ResultRefused, "")) // of the forgotten one
		if word := d.certainty(id); word != reader.OutcomeUnknown {
			t.Errorf("%s: %s; one send: %v, certainty %s, letter %s: %s", result, got, asked.OneSend(), word, d.letter(id),
				d.rows(id))
		}
	}
}

// TestReportedRefusalIsOfASend: nor does one that the rail reports of a payment that was never sent here.
func TestReportedRefusalIsOfASend(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(d *desk, id payment.ID) payment.Outcome{
		"callback": func(_ *desk, id payment.ID) payment.Outcome { return callback(id, payment.ResultRefused, "") },
		"forgotten inquiry": func(_ *desk, id payment.ID) payment.Outcome {
			return told(asksInVain, forgottenInquiry(id), payment.ResultRefused, "")
		},
	} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		id := d.enqueue()
		got := d.late(refuse(d, id))
		before := d.certainty(id)
		_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // which the rail executes
		asked := d.claimOne(id)
		d.record(told(asksInVain, asked, payment.ResultRefused, "")) // of the first one
		if word := d.certainty(id); word != reader.OutcomeUnknown {
			t.Errorf("%s: %s (%s before the replay); one send: %v, certainty %s, letter %s: %s", name, got, before,
				asked.OneSend(), word, d.letter(id), d.rows(id))
		}
	}
}

// TestForgedAfterARefusal: where every send was refused there is nothing to ask the rail about.
func TestForgedAfterARefusal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultRefusedTransient, ""))
	d.do(`UPDATE railhead.payment_outbox_pending p SET payload = i.payload || '{"amount": "9999.00"}'
		FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id
		AND p.outbox_id = $1`, [16]byte(claim.OutboxID))
	d.record(told(sameKey, d.claimOne(claim.OutboxID), payment.ResultTampered, ""))
	e := notExecuted()
	e.RailSilent = false
	_, err := o.ResolvePayment(t.Context(), claim.OutboxID, e)
	_, asked := o.InquirePayment(t.Context(), claim.OutboxID, why)
	if err != nil && asked != nil {
		t.Errorf("resolve: %v\ninquire: %v", err, asked)
	}
}

// TestForgedAfterARestore: what was stopped as forged, and by its rows was never sent, is asked
// about by no inquiry, so that an operator's evidence ends it without one, also in the time in
// which callers may repeat calls that a restore forgot.
func TestForgedAfterARestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	forged := plights["TAMPERED"](d)
	d.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
	_, err := o.AcceptTimeline(t.Context(), d.suspendedAt(), why)
	d.must(err)
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at`) // its call is known from before
	_, err = o.InquirePayment(t.Context(), forged, why)
	refusedWith(t, "inquire", err, "RH020", "only a parked instruction with an unknown outcome")
	e := notExecuted()
	e.RailSilent = false
	_, err = o.ResolvePayment(t.Context(), forged, e)
	refusedWith(t, "without a word", err, "RH020", "was not asked within 15 minutes: the payment can't be resolved")
	e.RailSilent = true
	_, err = o.ResolvePayment(t.Context(), forged, e)
	d.must(err)
	same(t, "letter", d.letter(forged), "FAILED acknowledged")
}

// TestCodeOfALateLetter: the code of a letter is the rail's where no other is, on whichever way it was opened.
func TestCodeOfALateLetter(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	code := func(id payment.ID) string {
		return d.text(`SELECT coalesce(error_code, '-') FROM railhead.payment_dead_letters
			WHERE outbox_id = $1`, [16]byte(id))
	}
	claim := d.claimOne(d.enqueue())
	o := told(sameKey, claim, payment.ResultRefusedFinal, "")
	o.RailCode = "AC04"
	d.record(o)
	same(t, "at once", code(claim.OutboxID), "AC04")
	claim = d.claimOne(d.enqueue())
	d.record(lost(sameKey, claim))
	o = told(sameKey, claim, payment.ResultRefusedFinal, "")
	o.RailCode = "AC04"
	same(t, "late", d.late(o), payment.VerdictSettled)
	same(t, "late", code(claim.OutboxID), "AC04")
	// With a late row, which makes the answer of an open claim slow.
	first, second := thenClaimed(d)
	d.late(told(sameKey, first, payment.ResultUnknown, ""))
	o = told(coversKey, second, payment.ResultRefusedFinal, "")
	o.RailCode = "AC04"
	d.late(o)
	same(t, "with a late row", code(first.OutboxID), "AC04")
}

// TestLongReasonOfAnEnd: the longest reason keeps nothing from ending.
func TestLongReasonOfAnEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.enqueue()
	_, err := o.PauseRail(t.Context(), "bank", strings.Repeat("\U0001F3E6", 500), time.Now().Add(time.Second))
	d.must(err)
	_, err = o.PauseParticipant(t.Context(), "participant", why, time.Now().Add(time.Second))
	d.must(err)
	_, err = o.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateCell, Name: "*"}, why, time.Now().Add(time.Second))
	d.must(err)
	time.Sleep(1100 * time.Millisecond)
	ended, err := d.exec.EndPauses(t.Context())
	if err != nil || len(ended) != 3 {
		t.Errorf("ended %v: %v", ended, err)
	}
}

// TestReopenedLetterNamesNone: a letter that was reopened does not say that its closer acted then.
func TestReopenedLetterNamesNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := answered(d, payment.ResultRefusedFinal)
	_, err := d.operator().TriageDeadLetter(t.Context(), claim.OutboxID, operator.Close,
		"the participant pays in another way")
	d.must(err)
	time.Sleep(1100 * time.Millisecond)
	same(t, "late", d.late(evidence(sameKey, claim, "executed", "ref")), payment.VerdictConflict)
	line, err := openReader(t, d.Cell).Timeline(t.Context(), claim.OutboxID)
	d.must(err)
	l := line.DeadLetter
	if l.Actor != "" && l.UpdatedAt.Sub(line.Acts[0].At) > time.Second {
		t.Errorf("letter %s %s: %s at %s: %s; but that was at %s", l.Reason, l.Status, l.Actor, l.UpdatedAt, l.Note,
			line.Acts[0].At)
	}
}

// TestInquiryThatIsNotOnItsWay: an inquiry that was put off, or quarantined, is not said to be
// in flight, and what is quarantined can be ended.
func TestInquiryThatIsNotOnItsWay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	id := parked(d)
	_, err := o.InquirePayment(t.Context(), id, why)
	d.must(err)
	_, err = d.Conn(t, celltest.Operator).Exec(t.Context(), `SELECT railhead.reschedule_payment($1, now() + interval '300 days', 'later')`, [16]byte(id))
	d.must(err)
	_, err = o.ResolvePayment(t.Context(), id, notExecuted())
	refusedWith(t, "put off", err, "RH020", "postponed: railhead payment send-now")

	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultUnknown, ""))
	d.do(`UPDATE railhead.payment_outbox_pending p SET payload = i.payload || '{"amount": "9999.00"}'
		FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id
		AND p.outbox_id = $1`, [16]byte(claim.OutboxID))
	d.record(told(sameKey, d.claimOne(claim.OutboxID), payment.ResultTampered, ""))
	_, err = o.InquirePayment(t.Context(), claim.OutboxID, why)
	d.must(err)
	d.must(d.quarantine(claim.OutboxID, "23514"))
	_, err = o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
}
