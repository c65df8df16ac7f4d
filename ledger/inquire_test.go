package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// parked is an instruction whose one send has no answer, on a rail that can be asked
// and by whose rules it would be sent again after "no such payment".
func parked(d *desk) payment.ID {
	claim := d.claimOne(d.enqueue())
	d.record(told(never, claim, payment.ResultUnknown, ""))
	return claim.OutboxID
}

// askable puts a profile in force that can be asked.
func (d *desk) askable() {
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'can be asked')`,
		strings.Replace(inVain, `"NEVER"`, `"SAME_KEY", "key_window": "24h"`, 1))
}

// TestInquirePayment puts a parked payment out for one inquiry and gives it every answer:
// the rail's word ends it, everything else parks it again, and it is never sent.
func TestInquirePayment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.askable()
	o := d.operator()
	const out = "DISPATCHING UNKNOWN(1) PARKED UNKNOWN INQUIRING "
	for name, test := range map[string]struct {
		answer       func(payment.Claim) payment.Outcome
		rows, letter string
	}{
		"executed":       {result(asks, payment.ResultExecuted), "DISPATCHED(5)", "OUTCOME_UNKNOWN resolved"},
		"refused":        {result(asks, payment.ResultRefused), "FAILED(5)", "FAILED pending"},
		"not found":      {result(asks, payment.ResultNotFound), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"in progress":    {result(asks, payment.ResultInProgress), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"unavailable":    {result(asks, payment.ResultUnavailable), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"not sent":       {result(asks, payment.ResultNotSent), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"busy":           {result(asks, payment.ResultRefusedLater), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"route refused":  {result(asks, payment.ResultRefusedRail), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"worker lost":    {func(c payment.Claim) payment.Outcome { return lost(asks, c) }, "ZOMBIE_REQUEUE(5) PARKED", "OUTCOME_UNKNOWN pending"},
		"no such policy": {result(payment.Policy{}, payment.ResultNotFound), "UNKNOWN(5) PARKED", "OUTCOME_UNKNOWN pending"},
	} {
		id := parked(d)
		no, err := o.InquirePayment(t.Context(), id, why)
		d.must(err)
		same(t, name+": row", no, 4)
		same(t, name+": waits", d.waiting(id), "INQUIRE sends=1 asked=0 count=4 unknown")
		same(t, name+": letter meanwhile", d.letter(id), "OUTCOME_UNKNOWN pending")
		same(t, name+": logged", d.logged(id), 1)
		claim := d.claimOne(id)
		if !claim.Asked || claim.Action != payment.ActionInquire || !claim.OneSend() || claim.FirstSentAt.IsZero() {
			t.Errorf("%s: claimed %+v", name, claim)
		}
		found, err := d.exec.FindClaim(t.Context(), claim.ClaimID)
		d.must(err)
		stale, err := d.exec.StaleClaims(t.Context(), outbox.StaleQuery{Limit: 10})
		d.must(err)
		if len(found) != 1 || !found[0].Asked || len(stale) != 1 || !stale[0].Claim.Asked {
			t.Errorf("%s: looked up %+v, stale %+v", name, found, stale)
		}
		d.record(test.answer(claim))
		same(t, name+": rows", d.rows(id), out+test.rows)
		same(t, name+": letter", d.letter(id), test.letter)
		same(t, name+": waits afterwards", d.waiting(id), "")
	}
	if claims := d.claim(lane("bank", 10, 0)); len(claims) != 0 {
		t.Errorf("%d are claimed again", len(claims))
	}
	// A second inquiry is one more, and an answer by the slow path ends it as well.
	id := parked(d)
	for range 2 {
		_, err := o.InquirePayment(t.Context(), id, why)
		d.must(err)
		d.record(told(asks, d.claimOne(id), payment.ResultUnavailable, ""))
	}
	_, err := o.InquirePayment(t.Context(), id, why)
	d.must(err)
	same(t, "asked twice before", d.waiting(id), "INQUIRE sends=1 asked=2 count=12 unknown")
	claim := d.claimOne(id)
	same(t, "by the slow path", d.late(told(asks, claim, payment.ResultExecuted, "ref")), payment.VerdictIn)
	same(t, "letter", d.letter(id), "OUTCOME_UNKNOWN resolved")
	d.gapless()
}

func result(policy payment.Policy, word payment.Result) func(payment.Claim) payment.Outcome {
	return func(claim payment.Claim) payment.Outcome { return told(policy, claim, word, "") }
}

// TestInquireIsRefused: only what is parked with an unknown outcome is put out, where its
// rail can be asked and its lane runs.
func TestInquireIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	ask := func(id payment.ID) error { _, err := o.InquirePayment(t.Context(), id, why); return err }
	refusedWith(t, "a rail that can't be asked", ask(parked(d)), "RH020", "rail bank can't be asked")
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	for name, bring := range plights {
		id := bring(d)
		rows, waits, letter := d.rows(id), d.waiting(id), d.letter(id)
		if strings.HasPrefix(name, "PARKED, ") {
			d.must(ask(id))
			refusedWith(t, name+", twice", ask(id), "RH020", "the instruction is UNKNOWN: only a parked instruction")
			continue
		}
		refusedWith(t, name, ask(id), "RH020", "only a parked instruction with an unknown outcome can be inquired about")
		if d.rows(id) != rows || d.waiting(id) != waits || d.letter(id) != letter {
			t.Errorf("%s: a refused act has changed something", name)
		}
	}
	refusedWith(t, "unknown", ask(payment.NewID()), "RH010", "is not known to this cell")
	_, err := o.InquirePayment(t.Context(), parked(d), " ")
	refusedWith(t, "no reason", err, "RH002", "a reason")
	id := parked(d)
	for what, toggle := range map[string][2]func() (bool, error){
		"everything": {func() (bool, error) { return o.PauseRail(t.Context(), operator.Everything, why, time.Time{}) }, func() (bool, error) { return o.ResumeRail(t.Context(), operator.Everything, why) }},
		"rail bank":  {func() (bool, error) { return o.PauseRail(t.Context(), "bank", why, time.Time{}) }, func() (bool, error) { return o.ResumeRail(t.Context(), "bank", why) }},
		"participant participant": {func() (bool, error) { return o.PauseParticipant(t.Context(), "participant", why, time.Time{}) },
			func() (bool, error) { return o.ResumeParticipant(t.Context(), "participant", why) }},
	} {
		_, err := toggle[0]()
		d.must(err)
		refusedWith(t, what, ask(id), "RH020", what+" is paused: no inquiry would be made")
		_, err = toggle[1]()
		d.must(err)
	}
	d.must(ask(id))
}

// TestInquireWhileSuspended: while a suspension is open, an inquiry is accepted only on a rail whose keys cover the
// time of which rows may be missing: no other lane is claimed.
func TestInquireWhileSuspended(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	profile := func(with string) {
		t.Helper()
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, strings.Replace(inVain, `"NEVER"`, with, 1))
	}
	ask := func(id payment.ID) error { _, err := o.InquirePayment(t.Context(), id, why); return err }
	const held = "no inquiry would be made"
	id, other, third := parked(d), parked(d), parked(d)
	profile(`"NEVER"`)
	suspend := func() {
		t.Helper()
		d.do(`SELECT railhead.suspend_outbox('worker', 'ROWS_MISSING', 'in a test', now())`)
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
		d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now() - interval '2 hours'`)
	}
	suspend()
	err := ask(id)
	refusedWith(t, "a rail without keys", err, "RH020", held)
	refusedWith(t, "a rail without keys", err, "RH020", "the lane of rail bank is suspended since "+
		d.suspendedAt().UTC().Format("2006-01-02T15:04:05Z"))
	same(t, "rows", d.rows(id), "DISPATCHING UNKNOWN(1) PARKED")
	profile(`"SAME_KEY", "key_window": "24h"`)
	refusedWith(t, "one that had no keys in that time", ask(id), "RH020", held)
	e := notExecuted()
	e.RailSilent = true
	_, err = o.ResolvePayment(t.Context(), other, e)
	d.must(err)
	d.accept()
	d.must(ask(id))
	d.record(told(asks, d.claimOne(id), payment.ResultUnavailable, ""))

	// Now every profile since has keys.
	d.do(`DELETE FROM railhead.payment_outbox_suspensions`)
	d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = applied_at - interval '1 year'`)
	suspend()
	d.must(ask(id))
	l := d.inForce(lane("bank", 1, 1))
	l.GoesOn = true
	same(t, "claimed by a lane that goes on", len(d.claim(l)), 1)
	profile(`"SAME_KEY", "key_window": "1h"`)
	refusedWith(t, "a key window that is over", ask(third), "RH020", held)
}

// TestNotExecutedWantsTheRailsWord: an operator's "not executed" goes only with the rail's
// fresh word where the rail can be asked, or as one that says that the rail is silent,
// which is on the row and in the log.
func TestNotExecutedWantsTheRailsWord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.askable()
	o := d.operator()
	resolve := func(id payment.ID, silent bool) error {
		_, err := o.ResolvePayment(t.Context(), id,
			operator.Evidence{Date: time.Now(), Document: "ticket 4711", Reason: why, RailSilent: silent})
		return err
	}
	both := func(what string, id payment.ID, without, with string) {
		t.Helper()
		refusedWith(t, what, resolve(id, false), "RH020", without)
		refusedWith(t, what+", silent", resolve(id, true), "RH020", with)
	}
	ask := func(id payment.ID) { _, err := o.InquirePayment(t.Context(), id, why); d.must(err) }
	row := func(id payment.ID) string {
		return d.text(`SELECT concat_ws(' | ', a.state, a.error_message, (SELECT l.detail ->> 'rail_silent'
			FROM railhead.payment_operator_log l
			WHERE l.outbox_id = a.outbox_id AND l.act = 'RESOLVE')) FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = $1 ORDER BY a.attempt_no DESC LIMIT 1`, [16]byte(id))
	}
	today := d.text(`SELECT current_date::text`)

	id := parked(d)
	both("never asked", id, "was not asked within 15 minutes: the payment can't be resolved",
		"whether it would answer is not known")
	ask(id)
	both("out for its inquiry", id, "was not asked within 15 minutes: the payment can't be resolved",
		"whether it would answer is not known")
	claim := d.claimOne(id)
	both("being asked about", id, "it can't be resolved like this now", "it can't be resolved like this now")
	d.record(told(asks, claim, payment.ResultUnavailable, ""))
	refusedWith(t, "unavailable", resolve(id, false), "RH020",
		"(row 6, UNAVAILABLE) does not prove that the payment was not executed")
	d.must(resolve(id, true))
	same(t, "the row of a silent rail", row(id),
		"FAILED | without the rail's word: "+why+" (ticket 4711, "+today+") | true")

	id = parked(d)
	ask(id)
	d.record(lost(asks, d.claimOne(id)))
	refusedWith(t, "no answer came", resolve(id, false), "RH020", "(row 6, no result) does not prove")
	d.must(resolve(id, true))

	id = parked(d)
	ask(id)
	d.record(told(asks, d.claimOne(id), payment.ResultNotFound, ""))
	d.must(resolve(id, true)) // the flag was not needed
	same(t, "the row of a rail that said so", row(id), "FAILED | "+why+" (ticket 4711, "+today+") | false")

	// An answer is good for 15 minutes.
	id = parked(d)
	ask(id)
	d.record(told(asks, d.claimOne(id), payment.ResultNotFound, ""))
	d.do(`CREATE OR REPLACE FUNCTION railhead.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET completed_at = completed_at - interval '16 minutes'
		WHERE outbox_id = $1 AND completed_at IS NOT NULL`, [16]byte(id))
	both("an old answer", id, "was not asked within 15 minutes: the payment can't be resolved",
		"whether it would answer is not known")

	// While nothing is claimed no inquiry is made.
	_, err := o.PauseParticipant(t.Context(), "participant", why, time.Time{})
	d.must(err)
	refusedWith(t, "paused", resolve(id, false), "RH020", "was not asked within 15 minutes")
	d.must(resolve(id, true))
	_, err = o.ResumeParticipant(t.Context(), "participant", why)
	d.must(err)
	id = parked(d)
	ask(id)
	_, err = o.PauseRail(t.Context(), "bank", why, time.Time{})
	d.must(err)
	d.must(resolve(id, true)) // put out, and not claimed yet
	same(t, "what waits of it", d.waiting(id), "")
	same(t, "its letter", d.letter(id), "FAILED acknowledged")
	_, err = o.ResumeRail(t.Context(), "bank", why)
	d.must(err)

	// The rail's "executed" is not resolved away.
	id = parked(d)
	ask(id)
	claim = d.claimOne(id)
	d.record(lost(asks, claim))
	d.must(resolve(id, true))
	same(t, "late", d.late(told(asks, claim, payment.ResultExecuted, "ref")), payment.VerdictConflict)
	both("executed", id, "reported that it executed the payment (row 9)", "reported that it executed the payment (row 9)")
	_, err = o.ResolvePayment(t.Context(), id,
		operator.Evidence{Executed: true, RailReference: "ref", Date: time.Now(), Document: "statement", Reason: why})
	d.must(err)

	// Nor is it where a later inquiry was told nothing.
	id = parked(d)
	var claims []payment.Claim
	for range 2 {
		ask(id)
		claims = append(claims, d.claimOne(id))
		d.record(lost(asks, claims[len(claims)-1]))
	}
	d.must(resolve(id, true))
	same(t, "the first comes late", d.late(told(asks, claims[0], payment.ResultExecuted, "ref")), payment.VerdictConflict)
	same(t, "and the second", d.late(told(asks, claims[1], payment.ResultUnavailable, "")), payment.VerdictLate)
	both("executed, then silence", id, "reported that it executed the payment (row 13)",
		"reported that it executed the payment (row 13)")
	_, err = o.ResolvePayment(t.Context(), id,
		operator.Evidence{Executed: true, RailReference: "ref", Date: time.Now(), Document: "statement", Reason: why})
	d.must(err)

	// Where the rail can't be asked the evidence is all there is.
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER"}', 'can''t be asked')`)
	id = parked(d)
	d.must(resolve(id, true))
	same(t, "the row of a rail that can't be asked", row(id), "FAILED | "+why+" (ticket 4711, "+today+") | false")
	d.gapless()
}
