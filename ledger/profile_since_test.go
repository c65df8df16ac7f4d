package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// apply puts a profile of the rail in force.
func (d *desk) apply(profile string) {
	d.t.Helper()
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, profile)
}

// TestLaneBehind: a worker that has not taken the profile in force, or can't, claims nothing: what it
// takes for proof, and may send again, was changed.
func TestLaneBehind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.apply(keepsKeys)
	behind := d.inForce(lane("bank", 2, 1))
	d.apply(sameSend)
	id := d.enqueue()
	same(t, "claimed behind", len(d.claim(behind)), 0)
	same(t, "claimed by the one in force", len(d.claim(d.inForce(behind))), 1)
	same(t, "its rows", d.rows(id), "DISPATCHING")
}

// TestKeysKeptAgain: the rail kept no keys between two profiles that say that it does. What it
// was sent before is not sent again.
func TestKeysKeptAgain(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		between string
		again   bool
	}{"kept": {strings.Replace(keepsKeys, "24h", "23h", 1), true}, "not kept": {sameSend, false}} {
		d := newDesk(t)
		d.apply(keepsKeys)
		first := d.claimOne(d.enqueue())
		d.record(told(sameKey, first, payment.ResultUnknown, ""))
		d.apply(c.between)
		d.apply(keepsKeys)
		d.do(`UPDATE railhead.payment_outbox_pending SET next_action = 'SEND' WHERE outbox_id = $1`, [16]byte(first.OutboxID))
		second := d.claimOne(first.OutboxID)
		same(t, what+" between", sameKey.WithDefaults().MaySend(second, time.Minute), c.again)
	}
}

// oneOutcome is keepsKeys of a rail that keeps one outcome a key.
var oneOutcome = strings.NewReplacer(`{`, `{"answer_covers_key": true, `, `"SAME"}`, `"NEW"}`).Replace(keepsKeys)

// TestForgottenUnderAnotherProfile: a send that a restore forgot was made before the rail kept one
// outcome a key. Which profile it was made by is not known where an inquiry alone tells of it;
// a final refusal of the next send is then of that one alone, also if the forgotten one is told
// while the next one is out.
func TestForgottenUnderAnotherProfile(t *testing.T) {
	t.Parallel()
	late := func(d *desk, o payment.Outcome) {
		rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
		if _, err := rec.RecordLate(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []string{"its worker", "an inquiry", "the reaper",
		"its worker, by a profile that is forgotten too"} {
		for _, out := range []bool{false, true} {
			d := newDesk(t)
			d.apply(keepsKeys)
			before := d.ProfileInForce("bank")
			d.apply(oneOutcome)
			id := d.enqueue()
			known := d.claimOne(id)
			d.record(told(coversKey, known, payment.ResultUnknown, ""))
			tell := func() {
				ask := forgottenInquiry(id)
				ask.FirstSentAt, ask.ClaimedAt = ask.FirstSentAt.Add(-time.Minute), ask.ClaimedAt.Truncate(time.Microsecond)
				o := told(asksInVain, ask, payment.ResultInProgress, "")
				switch by {
				case "its worker", "its worker, by a profile that is forgotten too":
					ask.Action, ask.OutcomeUnknown, ask.SendCount = payment.ActionSend, false, 0
					o = told(sameKey, ask, payment.ResultUnknown, "")
				case "the reaper":
					ask.Action, ask.OutcomeUnknown, ask.SendCount = payment.ActionSend, false, 0
					o = lost(sameKey, ask)
				}
				o.ProfileVersion = before
				switch by {
				case "an inquiry":
					o.ProfileVersion = before + 1
				case "its worker, by a profile that is forgotten too":
					o.ProfileVersion = before + 9
				}
				late(d, o)
			}
			if !out {
				tell()
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET next_action = 'SEND' WHERE outbox_id = $1`, [16]byte(id))
			again := d.claimOne(id)
			o := told(coversKey, again, payment.ResultRefusedFinal, "")
			if out {
				tell()
			}
			late(d, o)
			doubted(t, d, id, by)
		}
	}
}

// TestStaleClaimTellsItsProfile: the reaper writes for a claim which profile it was made by, so that a
// restore may forget the claim.
func TestStaleClaimTellsItsProfile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.apply(keepsKeys)
	version := d.ProfileInForce("bank")
	d.claimOne(d.enqueue())
	d.apply(sameSend)
	d.do(`UPDATE railhead.payment_outbox_claims SET claimed_at = now() - interval '1 day'`)
	stale, err := d.exec.StaleClaims(t.Context(), outbox.StaleQuery{Budget: outbox.DefaultTimeBudget(), Limit: 9})
	d.must(err)
	same(t, "stale", len(stale), 1)
	same(t, "its profile", stale[0].ProfileVersion, version)
}

// TestNotFoundBeforeTheProfile: "no such payment" was said of nothing when it was asked: that it is
// proof, or proof sooner, since the profile changed, lets no operator send it again by it.
func TestNotFoundBeforeTheProfile(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		before string
		again  bool
	}{
		"proof before":      {strings.Replace(inVain, `"max": 2`, `"max": 1`, 1), true},
		"no proof before":   {strings.Replace(inVain, "NOT_EXECUTED", "INCONCLUSIVE", 1), false},
		"proof later":       {strings.Replace(inVain, `"1us"`, `"1h"`, 1), false},
		"looked up shorter": {strings.Replace(inVain, `"24h"`, `"1us"`, 1), false},
		"no bound before":   {strings.Replace(inVain, `, "not_found_until": "24h"`, "", 1), false},
	} {
		d := newDesk(t)
		d.apply(c.before)
		first := d.claimOne(d.enqueue())
		patient := asksInVain
		patient.Inquiry.Max, patient.Inquiry.NotFound = 1, payment.NotFoundInconclusive
		d.record(told(patient, first, payment.ResultUnknown, ""))
		d.record(told(patient, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
		d.apply(inVain)
		_, err := d.operator().ReplayPayment(t.Context(), first.OutboxID, time.Time{}, why)
		if c.again {
			d.must(err)
		} else {
			refusedWith(t, what, err, "RH020", "the payment may have been made")
		}
	}
}

// TestExecutedTwicePastTheWindow: two sends that lie further apart than the rail knows a key are two
// payments if both were executed, and one otherwise.
func TestExecutedTwicePastTheWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		apart string
		want  string
	}{{"2 days", "CONFLICT pending"}, {"1 hour", ""}} {
		for _, out := range []bool{true, false} {
			d := newDesk(t)
			d.apply(keepsKeys)
			first := d.claimOne(d.enqueue())
			id := first.OutboxID
			d.record(lost(sameKey, first))
			d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
			d.do(`UPDATE railhead.payment_outbox_attempts SET claimed_at = claimed_at - $2::text::interval WHERE outbox_id = $1
				AND attempt_no = 1`, [16]byte(id), c.apart)
			d.must(d.super.QueryRow(t.Context(), `
				SELECT claimed_at FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
				AND attempt_no = 1`, [16]byte(id)).Scan(&first.ClaimedAt))
			rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
			late := func(o payment.Outcome) {
				_, err := rec.RecordLate(t.Context(), o)
				d.must(err)
			}
			second := d.claimOne(id)
			if !out {
				d.record(told(sameKey, second, payment.ResultAccepted, ""))
			}
			late(told(sameKey, first, payment.ResultAccepted, ""))
			if out {
				late(told(sameKey, second, payment.ResultAccepted, ""))
			}
			same(t, "letter after "+c.apart, d.letter(id), c.want)
		}
	}
}

// TestRefusalsOfInquiriesApart: that the rail refused a send shows nothing of its inquiries, which may
// be refused for the rail, and not for this instruction.
func TestRefusalsOfInquiriesApart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.apply(inVain)
	policy := asksInVain.WithDefaults()
	first := d.claimOne(d.enqueue())
	id := first.OutboxID
	d.record(outcome(first, policy.Decide(first, payment.Answer{Result: payment.ResultUnknown, RailRefused: true}),
		payment.ResultUnknown, ""))
	asked := d.claimOne(id)
	same(t, "action", asked.Action, payment.ActionInquire)
	same(t, "refusals of inquiries", asked.RailRefusals, 0)
	d.record(told(policy, asked, payment.ResultRefusedRail, ""))
	same(t, "refusals of inquiries after one", d.claimOne(id).RailRefusals, 1)
}
