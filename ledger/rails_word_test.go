package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestForgedIsAskedAbout: what was stopped as forged after a send without an answer may
// have been paid: its rail is asked before it is resolved as not executed.
func TestForgedIsAskedAbout(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.askable()
	o := d.operator()
	id := sentOnce(d).OutboxID
	d.do(`UPDATE railhead.payment_outbox_pending p SET payload = i.payload || '{"amount": "9999.00"}'
		FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id AND p.outbox_id = $1`, [16]byte(id))
	d.record(told(sameKey, d.claimOne(id), payment.ResultTampered, ""))
	same(t, "letter", d.letter(id), "TAMPERED pending")
	_, err := o.ResolvePayment(t.Context(), id, notExecuted())
	refusedWith(t, "a rail that was not asked", err, "RH020", "whether it would answer is not known")
	_, err = o.InquirePayment(t.Context(), id, why)
	d.must(err)
	d.record(told(asks, d.claimOne(id), payment.ResultUnavailable, ""))
	same(t, "letter after an inquiry", d.letter(id), "TAMPERED pending")
	_, err = o.InquirePayment(t.Context(), id, why)
	d.must(err)
	asked := d.claimOne(id)
	same(t, "asked about", string(asked.Action)+" "+string(asked.Payload), "INQUIRE "+string(order(0).Payload))
	d.record(told(asks, asked, payment.ResultExecuted, "ref"))
	same(t, "state", d.text(`SELECT railhead.payment_outbox_state($1)`, [16]byte(id)), "DISPATCHED")
}

// TestAgainstTheRailsWord: "executed", told of an inquiry that a restore forgot, is the
// rail's word as any; and what is resolved against it later says so.
func TestAgainstTheRailsWord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	id := plights["FAILED"](d)
	d.askable()
	same(t, "told late", d.late(told(asks, forgottenInquiry(id), payment.ResultExecuted, "ref")), payment.VerdictConflict)
	_, err := o.ResolvePayment(t.Context(), id, notExecuted())
	refusedWith(t, "at once", err, "RH020", "the rail reported that it executed the payment")

	id = parked(d)
	_, err = o.InquirePayment(t.Context(), id, why)
	d.must(err)
	claim := d.claimOne(id)
	d.record(lost(asks, claim))
	same(t, "told late", d.late(told(asks, claim, payment.ResultExecuted, "ref")), payment.VerdictSettled)
	same(t, "executed", d.late(callback(id, payment.ResultRefused, "")), payment.VerdictConflict)
	d.do(`CREATE OR REPLACE FUNCTION railhead.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET completed_at = completed_at - interval '16 minutes'
		WHERE outbox_id = $1 AND completed_at IS NOT NULL`, [16]byte(id))
	_, err = o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	said := d.text(`SELECT error_message FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND error_code = 'RESOLVED'`, [16]byte(id))
	if !strings.HasPrefix(said, "against the rail's word (row ") {
		t.Errorf("the row says %q", said)
	}
}

// TestRailsWordOfLateRowsAlone: of a payment whose sends only their workers know the rail
// is asked too.
func TestRailsWordOfLateRowsAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.askable()
	id := d.enqueue()
	d.late(evidence(asks, forgotten(id), "unknown", ""))
	d.must(d.quarantine(id, "23514"))
	e := notExecuted()
	e.RailSilent = false
	_, err := d.operator().ResolvePayment(t.Context(), id, e)
	refusedWith(t, "without a word", err, "RH020", "without its answer")
}

// TestInquiryThatDidNotLeave is not called an answer of the rail.
func TestInquiryThatDidNotLeave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.askable()
	id := parked(d)
	_, err := d.operator().InquirePayment(t.Context(), id, why)
	d.must(err)
	d.record(told(asks, d.claimOne(id), payment.ResultNotSent, ""))
	e := notExecuted()
	e.RailSilent = false
	_, err = d.operator().ResolvePayment(t.Context(), id, e)
	refusedWith(t, "not sent", err, "RH020", "the inquiry did not reach the rail (row 6, NOT_SENT)")
}

// TestOnlySendRefused: the final refusal of the only send contradicts that the payment was
// executed, by a callback or by an operator, and whether its claim is open or was answered.
func TestOnlySendRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, execute := range map[string]func(payment.ID){
		"a callback": func(id payment.ID) { d.late(callback(id, payment.ResultExecuted, "ref")) },
		"an operator": func(id payment.ID) {
			e := operator.Evidence{Executed: true, RailReference: "ref-2", Date: time.Now(), Document: "ticket 1", Reason: why}
			_, err := d.operator().ResolvePayment(t.Context(), id, e)
			d.must(err)
		},
	} {
		claim := d.claimOne(d.enqueue())
		d.record(lost(never, claim))
		execute(claim.OutboxID)
		same(t, "after "+name, d.late(evidence(never, claim, "refused", "")), payment.VerdictConflict)
	}
	first, second := thenClaimed(d)
	d.record(lost(sameKey, second))
	d.late(callback(first.OutboxID, payment.ResultExecuted, "ref"))
	same(t, "one send of two", d.late(evidence(sameKey, first, "refused", "")), payment.VerdictLate)
}

// TestExecutedOfALostRow: the rail's word counts also where the row that waited is lost.
func TestExecutedOfALostRow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := sentOnce(d)
	d.do(`DELETE FROM railhead.payment_outbox_pending`)
	same(t, "verdict", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref")), payment.VerdictSettled)
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING ZOMBIE_REQUEUE(1) LATE_OUTCOME DISPATCHED")
}

// TestNotFoundEndsNothing: "no such payment" allows the re-send of the same key, and a
// replay; it settles nothing. The payment is as unknown as it was: it is not cancelled, it
// does not expire, and no end of the re-send but "executed" is taken for the end of all.
func TestNotFoundEndsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	replayed := func() payment.ID {
		id := justNotFound(d)
		_, err := o.ReplayPayment(t.Context(), id, time.Now().Add(time.Hour), why)
		d.must(err)
		return id
	}
	for what, id := range map[string]payment.ID{"found nothing": foundNothing(d).OutboxID, "replayed": replayed()} {
		_, err := o.CancelPayment(t.Context(), id, why)
		refusedWith(t, what+": cancel", err, "RH020", "no trustworthy answer")
		same(t, what+": certainty", d.certainty(id), reader.OutcomeUnknown)
		d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
		ended, err := d.exec.Expire(t.Context(), "reaper", 10)
		d.must(err)
		same(t, what+": expired", len(ended), 0)
		claim := d.claimOne(id)
		if asks.WithDefaults().MaySend(claim, time.Second) || asksInVain.WithDefaults().MaySend(claim, time.Second) {
			t.Errorf("%s: it is sent after its expiry", what)
		}
		d.record(told(asks, claim, payment.ResultWindowClosed, ""))
		same(t, what+": letter", d.letter(id), "OUTCOME_UNKNOWN pending")
	}
	again := asks
	again.IDAfterRefusal = payment.IDNew
	for _, result := range []payment.Result{
		payment.ResultRenderChanged, payment.ResultCheckFailed, payment.ResultRefusedTransient, payment.ResultRefusedFinal,
	} {
		claim := d.claimOne(foundNothing(d).OutboxID)
		d.record(told(again, claim, result, ""))
		same(t, string(result), d.letter(claim.OutboxID), "OUTCOME_UNKNOWN pending")
	}
	// The send itself was refused, and there is no other.
	only := foundNothing(d)
	d.late(told(again, only, payment.ResultRefusedFinal, ""))
	same(t, "the only send, refused", d.letter(only.OutboxID), "FAILED pending")
	// Of two sends that an index denied, one was.
	first := foundNothing(d)
	second := d.claimOne(first.OutboxID)
	d.record(lost(asks, second))
	d.record(told(asks, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
	d.late(told(again, first, payment.ResultRefusedFinal, ""))
	same(t, "one of two, refused", d.certainty(first.OutboxID), reader.OutcomeUnknown)
}

// TestReplayOnNoSuchPayment: where the rail knows no keys the one send is made that an
// operator asked for, until anything else is learned; where it knows them the key window
// counts.
func TestReplayOnNoSuchPayment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	replay := func(id payment.ID) {
		t.Helper()
		_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
	}
	may := func(what string, claim payment.Claim, want bool) {
		t.Helper()
		same(t, what, asksInVain.WithDefaults().MaySend(claim, time.Second), want)
	}
	id := justNotFound(d)
	replay(id)
	claim := d.claimOne(id)
	may("on the operator's word", claim, true)
	d.record(told(asksInVain, claim, payment.ResultNotSent, ""))
	claim = d.claimOne(id)
	may("where nothing left", claim, true)
	d.record(lost(sameKey, claim))
	may("once it was sent", d.claimOne(id), false)

	id = justNotFound(d)
	replay(id)
	d.late(evidence(asksInVain, forgotten(id), "unknown", ""))
	may("once a forgotten send is known", d.claimOne(id), false)

	window := func(span string) {
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"NEVER"`, `"SAME_KEY", "key_window": "`+span+`"`, 1))
	}
	window("1h")
	replay(justNotFound(d))
	window("1ms")
	_, err := o.ReplayPayment(t.Context(), justNotFound(d), time.Time{}, why)
	refusedWith(t, "after the key window", err, "RH020", "its key window is over")
}

// TestReplayThatIsSentLate: on a rail without keys a replay rests on the rail's "no such payment", which ages. It is
// sent within a quarter of an hour, or parked again; and it is not accepted while a pause holds it up.
func TestReplayThatIsSentLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER ALL`)
	policy := asksInVain.WithDefaults()
	for _, test := range []struct {
		what, ago string
		may       bool
	}{
		{"soon", "14 minutes", true}, {"late", "15 minutes", false}, {"a day later", "20 hours", false},
		{"after the clock was set back", "-1 minute", false},
	} {
		id := justNotFound(d)
		_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
		d.do(`UPDATE railhead.payment_outbox_attempts SET completed_at = completed_at - $2::interval, claimed_at = claimed_at - $2::interval
			WHERE outbox_id = $1`, [16]byte(id), test.ago)
		claim := d.claimOne(id)
		same(t, test.what, policy.MaySend(claim, time.Second), test.may)
		if !test.may {
			d.record(told(asksInVain, claim, payment.ResultWindowClosed, ""))
			same(t, test.what+": letter", d.letter(id), "OUTCOME_UNKNOWN pending")
			same(t, test.what+": rows", d.rows(id),
				"DISPATCHING UNKNOWN(1) INQUIRING UNKNOWN(3) PARKED REPLAYED DISPATCHING PARKED(7)")
		}
	}

	id := justNotFound(d)
	for what, toggle := range map[string][2]func() (bool, error){
		"rail bank": {func() (bool, error) { return o.PauseRail(t.Context(), "bank", why, time.Now().Add(time.Minute)) },
			func() (bool, error) { return o.ResumeRail(t.Context(), "bank", why) }},
		"participant participant": {func() (bool, error) { return o.PauseParticipant(t.Context(), "participant", why, time.Time{}) },
			func() (bool, error) { return o.ResumeParticipant(t.Context(), "participant", why) }},
	} {
		_, err := toggle[0]()
		d.must(err)
		_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
		refusedWith(t, what, err, "RH020", what+" is paused: the replay would be sent later")
		_, err = toggle[1]()
		d.must(err)
	}
	d.suspend()
	_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "while a suspension is open", err, "RH020", "a replay has to wait")
	d.accept()

	// What was never sent waits for as long as it takes, and so does a key that the rail keeps.
	keyed := newDesk(t)
	keyed.askable()
	o = keyed.operator()
	waits := []payment.ID{plights["EXPIRED"](keyed), justNotFound(keyed)}
	_, err = o.PauseRail(t.Context(), "bank", why, time.Time{})
	d.must(err)
	for _, id := range waits {
		_, err = o.ReplayPayment(t.Context(), id, operator.NeverExpires, why)
		d.must(err)
	}
}

// TestWordAfterEvidence: what an operator's evidence denied is not called the rail's word
// when a later send is refused, nor when "no such payment" comes late.
func TestWordAfterEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}', 'a test')`)
	o := d.operator()
	for _, result := range []payment.Result{payment.ResultRefusedLater, payment.ResultRefusedFinal} {
		id := parked(d)
		_, err := o.ResolvePayment(t.Context(), id, notExecuted())
		d.must(err)
		_, err = o.ReplayPayment(t.Context(), id, time.Now().Add(time.Hour), why)
		d.must(err)
		d.record(told(payment.Policy{IDAfterRefusal: payment.IDSame}, d.claimOne(id), result, ""))
		same(t, string(result), d.certainty(id), reader.NotExecutedByEvidence)
	}

	const vague = `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "inquiry": {"max": 2, "intervals": ["1s"], "not_found": "INCONCLUSIVE"}}`
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, vague)
	id := parked(d)
	_, err := o.InquirePayment(t.Context(), id, why)
	d.must(err)
	claim := d.claimOne(id)
	d.record(lost(asksInVain, claim))
	_, err = o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	_, err = o.ReplayPayment(t.Context(), id, time.Now().Add(time.Hour), why)
	d.must(err)
	d.late(told(asksInVain, claim, payment.ResultNotFound, ""))
	same(t, "a late no such payment", d.certainty(id), reader.NotExecutedByEvidence)
}
