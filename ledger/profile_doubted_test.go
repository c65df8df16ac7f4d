package ledger_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// lateByBoth records late outcomes, each decided by the schema and by the vocabulary.
func (d *desk) lateByBoth() func(payment.Outcome) payment.Verdict {
	recorder := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(difference string) { d.t.Error(difference) }}
	return func(o payment.Outcome) payment.Verdict {
		d.t.Helper()
		verdict, err := recorder.RecordLate(d.t.Context(), o)
		d.must(err)
		return verdict
	}
}

// claimedEarlier makes a claim older.
func (d *desk) claimedEarlier(c *payment.Claim, by string) {
	d.t.Helper()
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET claimed_at = claimed_at - $3::text::interval WHERE outbox_id = $1
		AND attempt_no = $2`, [16]byte(c.OutboxID), c.AttemptNo, by)
	d.must(d.super.QueryRow(d.t.Context(), `
		SELECT claimed_at FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND attempt_no = $2`, [16]byte(c.OutboxID), c.AttemptNo).Scan(&c.ClaimedAt))
}

// asksAndKeeps is a rail that can be asked in vain, keeps keys for a day, and takes a refused one again.
var asksAndKeeps = strings.Replace(inVain, `"NEVER"`, `"SAME_KEY", "key_window": "24h"`, 1)

// TestProfileSinceRowsAreMissing: a send that a restore may have forgotten was made when the rail kept
// an outcome of each send. A final refusal of the next send is of that one alone, whatever the
// profile says since; what is enqueued after the time of repeated calls is not concerned.
func TestProfileSinceRowsAreMissing(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		changed, later bool
		want           string
	}{
		"as before":                       {false, false, "DISPATCHING PARKED(1)"},
		"one outcome a key since":         {true, false, "DISPATCHING PARKED(1)"},
		"enqueued when all was over":      {true, true, "DISPATCHING FAILED(1)"},
		"enqueued then, and nothing else": {false, true, "DISPATCHING FAILED(1)"},
	} {
		d := newDesk(t)
		d.apply(keepsKeys)
		id := payment.ID{}
		if !test.later {
			id = d.enqueue()
		}
		d.suspend()
		d.accept()
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
		d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at`) // when the profile before was in force
		policy := sameKey
		if test.changed {
			d.apply(oneOutcome)
			policy = coversKey
		}
		if test.later {
			d.do(`UPDATE railhead.payment_outbox_suspensions
				SET known_until = now() - interval '4 days', opened_at = now() - interval '3 days', accepted_at = now() - interval '2 days'`)
			id = d.enqueue()
		}
		server, err := d.exec.CheckServer(t.Context())
		d.must(err)
		next := server.Weigh(d.claimOne(id))
		same(t, what+": may have been sent", next.MaybeSent, !test.later)
		d.record(told(policy, next, payment.ResultRefusedFinal, ""))
		same(t, what, d.rows(id), test.want)
	}
}

// TestRulesWhileSuspended: while a suspension is open the profiles count that were in force since the
// moment from which rows may be missing.
func TestRulesWhileSuspended(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	bank := func() outbox.RailRow {
		t.Helper()
		rows, err := d.exec.Rails(t.Context())
		d.must(err)
		for _, row := range rows {
			if row.RailType == "bank" {
				return row
			}
		}
		t.Fatal("no bank")
		return outbox.RailRow{}
	}
	d.apply(sameSend)
	d.apply(keepsKeys)
	same(t, "suspended at first", bank().Suspended, false)
	d.suspend()
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now()`)
	row := bank()
	same(t, "suspended", row.Suspended, true)
	same(t, "rules of profiles since", len(row.DoubtedUnder), 0)
	d.apply(strings.Replace(keepsKeys, "24h", "23h", 1))
	row = bank()
	same(t, "rules since another profile", len(row.DoubtedUnder), 1)
	same(t, "its window", row.DoubtedUnder[0].KeyWindow, payment.Duration(24*time.Hour))
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = '-infinity'`)
	var never bool
	for _, rules := range bank().DoubtedUnder {
		never = never || rules.ResendOnUnknown == payment.ResendNever
	}
	same(t, "one that kept no keys counts, where nothing is known", never, true)
}

// TestNumberOfAProfileTwice: a restore forgot version n+1, which said NEVER, and the next profile got its
// number. The send that its worker tells of was made before that one was in force: nothing is known of its rules.
func TestNumberOfAProfileTwice(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]bool{"made before it": true, "made under it": false} {
		d := newDesk(t)
		d.apply(keepsKeys)
		id := d.enqueue()
		number := d.ProfileInForce("bank") + 1
		tell := func() {
			f := forgotten(id)
			f.AttemptNo, f.ClaimedAt = 7, d.now()
			o := told(never, f, payment.ResultUnknown, "")
			o.ProfileVersion = number
			if after {
				d.apply(strings.Replace(keepsKeys, "24h", "23h", 1))
			}
			d.lateByBoth()(o)
		}
		if !after {
			d.apply(strings.Replace(keepsKeys, "24h", "23h", 1))
		}
		tell()
		same(t, "number", d.ProfileInForce("bank"), number)
		again := d.claimOne(id)
		same(t, what+": sent again by itself", again.Action == payment.ActionSend &&
			sameKey.WithDefaults().MaySend(again, time.Second), !after)
	}
}

// now is the database's clock.
func (d *desk) now() (at time.Time) {
	d.t.Helper()
	d.must(d.super.QueryRow(d.t.Context(), `SELECT clock_timestamp()`).Scan(&at))
	return at
}

// TestReplayUnderAnotherProfile: a replay that keys and "no such payment" allowed is not made once the
// rail keeps no keys any more; an operator has to decide anew. Where it kept none before, it is made.
func TestReplayUnderAnotherProfile(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		before, after string
		// the other profile is committed after the replay, and has an earlier time; the row does not say which was in force
		during, older bool
		sent          bool
	}{
		"keeps no keys since":                           {asksAndKeeps, sameSend, false, false, false},
		"keeps no keys, by a profile during the replay": {asksAndKeeps, sameSend, true, false, false},
		"kept none, as since":                           {inVain, "", false, false, true},
		"kept none, another since":                      {inVain, strings.Replace(inVain, `"max": 2`, `"max": 3`, 1), false, false, false},
		"keeps no keys since, an older row":             {asksAndKeeps, sameSend, false, true, false},
		"kept none, as since, an older row":             {inVain, "", false, true, true},
	} {
		d := newDesk(t)
		d.apply(test.before)
		policy := asks
		policy.IDAfterRefusal, policy.Retry.MaxSends = payment.IDSame, 1
		if test.before == inVain {
			policy.ResendOnUnknown, policy.KeyWindow = payment.ResendNever, 0
		}
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		d.record(told(policy, first, payment.ResultUnknown, ""))
		d.record(told(policy, d.claimOne(id), payment.ResultNotFound, ""))
		same(t, what+": letter", d.letter(id), "OUTCOME_UNKNOWN pending")
		switch {
		case test.during:
			tx, err := d.Conn(t, "").Begin(t.Context())
			d.must(err)
			_, err = tx.Exec(t.Context(), `SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, test.after)
			d.must(err)
			d.replay(id)
			d.must(tx.Commit(t.Context()))
		case test.after != "":
			d.replay(id)
			d.apply(test.after)
		default:
			d.replay(id)
		}
		if test.older {
			d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
			d.do(`UPDATE railhead.payment_outbox_attempts SET profile_version = NULL WHERE state = 'REPLAYED'`)
		}
		again := d.claimOne(id)
		none := payment.Policy{IDAfterRefusal: payment.IDSame}.WithDefaults()
		same(t, what+": sent", again.Action == payment.ActionSend && none.MaySend(again, time.Second), test.sent)
	}
}

// TestForgottenInquiryMovesTheWindow: a send of which only the worker of its inquiry tells, both
// forgotten, was made before that inquiry: the key window and what "no such payment" proves count from
// the moment from which rows may be missing, and what was sent since does not begin them anew. Where
// rows may be missing for longer than the rail remembers, "no such payment" proves nothing, told or not.
func TestForgottenInquiryMovesTheWindow(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	policy = policy.WithDefaults()
	for what, c := range map[string]struct {
		known      string
		told, sent bool
	}{
		"told":               {"23 hours 57 minutes", true, false},
		"not told":           {"23 hours 57 minutes", false, false}, // its first send fell into that window
		"told in time":       {"23 hours 50 minutes", true, true},
		"not told in time":   {"23 hours 50 minutes", false, true},
		"told, long ago":     {"48 hours", true, false},
		"not told, long ago": {"48 hours", false, false},
	} {
		d := newDesk(t)
		d.apply(asksAndKeeps)
		id := d.enqueue()
		d.suspend()
		d.accept()
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
		d.do(`UPDATE railhead.payment_outbox_suspensions
			SET known_until = now() - $1::interval, opened_at = now() - interval '7 hours', accepted_at = now() - interval '6 hours'`, c.known)
		server, err := d.exec.CheckServer(t.Context())
		d.must(err)
		take := func() payment.Claim { return server.Weigh(d.claimOne(id)) }
		known := take()
		d.record(told(policy, known, payment.ResultUnknown, ""))
		d.claimedEarlier(&known, "5 hours")
		d.do(`UPDATE railhead.payment_outbox_pending SET first_sent_at = first_sent_at - interval '5 hours', last_sent_at = last_sent_at - interval '5 hours' WHERE outbox_id = $1`, [16]byte(id))
		if c.told {
			ask := forgottenInquiry(id)
			ask.AttemptNo, ask.ClaimedAt = 9, time.Now().Add(-8*time.Hour).Truncate(time.Microsecond)
			ask.FirstSentAt = time.Now().Add(-25 * time.Hour)
			ask.LastSentAt = ask.FirstSentAt
			d.lateByBoth()(told(policy, ask, payment.ResultUnavailable, ""))
		}
		same(t, what+": begins the window", d.text(`SELECT (first_sent_at < now() - interval '7 hours')::text
			FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id)), strconv.FormatBool(c.told))
		d.record(told(policy, take(), payment.ResultNotFound, ""))
		sent := false
		if d.waiting(id) != "" {
			again := take()
			sent = again.Action == payment.ActionSend && policy.MaySend(again, time.Second)
		}
		same(t, what+": sent again by itself", sent, c.sent)
	}
}

// TestTwiceBehindAnotherWord: two sends further apart than the rail knows a key, each accepted by its own
// answer, open a CONFLICT also where a report or an inquiry had said "executed" before; within the window they are one.
func TestTwiceBehindAnotherWord(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"report", "inquiry"} {
		for _, apart := range []string{"2 days", "1 hour"} {
			d := newDesk(t)
			policy, profile := sameKey, keepsKeys
			if by == "inquiry" {
				policy, profile = asks, asksAndKeeps
				policy.IDAfterRefusal = payment.IDSame
			}
			d.apply(profile)
			late := d.lateByBoth()
			first := d.claimOne(d.enqueue())
			id := first.OutboxID
			d.record(lost(policy, first))
			d.claimedEarlier(&first, apart)
			d.do(`UPDATE railhead.payment_outbox_pending SET next_action = 'SEND' WHERE outbox_id = $1`, [16]byte(id))
			second := d.claimOne(id)
			d.record(lost(policy, second))
			if by == "report" {
				same(t, "the report", late(callback(id, payment.ResultExecuted, "")), payment.VerdictSettled)
			} else {
				d.record(told(policy, d.claimOne(id), payment.ResultExecuted, ""))
			}
			late(told(policy, first, payment.ResultAccepted, ""))
			late(told(policy, second, payment.ResultAccepted, ""))
			want := ""
			if apart == "2 days" {
				want = "CONFLICT pending"
			}
			same(t, "letter of two sends "+apart+" apart, behind the "+by, d.letter(id), want)
		}
	}
}

// TestTakenWithAForgotten: a send that a restore forgot was made when every "yes" was provisional. The
// stored answer to the next one is no last word, also if the forgotten one is told while that is out.
func TestTakenWithAForgotten(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		out    bool
		before string
		result payment.Result
		want   bool // it ends the payment
	}{
		"provisional, told before":    {false, "PROVISIONAL", payment.ResultAccepted, false},
		"provisional, told while out": {true, "PROVISIONAL", payment.ResultAccepted, false},
		"by answer, told while out":   {true, "BY_ANSWER", payment.ResultAccepted, false},
		"final, told while out":       {true, "FINAL", payment.ResultAccepted, true},
	} {
		d := newDesk(t)
		d.apply(strings.Replace(keepsKeys, `{`, `{"acceptance": "`+test.before+`", "callback_deadline": "2h", `, 1))
		before := d.ProfileInForce("bank")
		id := d.enqueue()
		f := forgotten(id)
		f.AttemptNo, f.ClaimedAt = 7, d.now()
		d.apply(keepsKeys)
		o := told(sameKey, f, payment.ResultUnknown, "")
		o.ProfileVersion = before
		late := d.lateByBoth()
		if !test.out {
			late(o)
		}
		next := d.claimOne(id)
		if test.out {
			late(o)
		}
		late(told(sameKey, next, test.result, "B1"))
		same(t, what+": "+d.rows(id)+", executed", strings.Contains(d.rows(id), "DISPATCHED"), test.want)
		if test.out && !test.want {
			same(t, what+": asked about or waited for", d.action(id), "INQUIRE")
		}
	}
}

// TestTakenWithAForgottenSince: the same where the answer comes late, after the reaper's, and where
// the forgotten send becomes known when the answer has ended the payment, or has been stored while
// another send is out: it is asked about or waited for, or an operator decides.
func TestTakenWithAForgottenSince(t *testing.T) {
	t.Parallel()
	for _, before := range []payment.Acceptance{payment.AcceptanceProvisional, payment.AcceptanceByAnswer,
		payment.AcceptanceFinal} {
		for _, when := range []string{"the answer is late", "it is known late", "both are late", "the answer is stored",
			"two answers are", "the payment was reported"} {
			d := newDesk(t)
			d.apply(strings.Replace(keepsKeys, `{`, `{"acceptance": "`+string(before)+`", "callback_deadline": "2h", `, 1))
			version := d.ProfileInForce("bank")
			id := d.enqueue()
			f := forgotten(id)
			f.AttemptNo, f.ClaimedAt = 7, d.now()
			d.apply(keepsKeys)
			knownSince := told(sameKey, f, payment.ResultUnknown, "")
			knownSince.ProfileVersion = version
			late := d.lateByBoth()
			next := d.claimOne(id)
			yes := told(sameKey, next, payment.ResultAccepted, "B1")
			letter := "CONFLICT pending"
			switch when {
			case "the answer is late":
				letter = ""
				d.record(lost(sameKey, next))
				late(knownSince)
				late(yes)
				same(t, string(before)+", "+when+": executed", strings.Contains(d.rows(id), "DISPATCHED"),
					before == payment.AcceptanceFinal)
				if before != payment.AcceptanceFinal {
					same(t, when, d.waiting(id), "INQUIRE sends=2 asked=0 count=4 unknown provisional")
				}
			case "it is known late":
				d.record(yes)
				late(knownSince)
			case "both are late":
				d.record(lost(sameKey, next))
				late(yes)
				late(knownSince)
			case "the answer is stored", "two answers are":
				d.record(lost(sameKey, next))
				again := d.claimOne(id)
				late(yes)
				late(knownSince)
				if when == "two answers are" {
					late(told(sameKey, again, payment.ResultAccepted, "B1"))
				} else {
					late(told(sameKey, again, payment.ResultUnknown, ""))
				}
			case "the payment was reported":
				letter = ""
				late(callback(id, payment.ResultExecuted, "B1"))
				late(yes)
				late(knownSince)
			}
			if before == payment.AcceptanceFinal && letter == "CONFLICT pending" {
				letter = ""
			}
			same(t, string(before)+", "+when+": letter, of "+d.rows(id), d.letter(id), letter)
		}
	}
}

// action is what an instruction waits for.
func (d *desk) action(id payment.ID) (action string) {
	d.t.Helper()
	d.must(d.super.QueryRow(d.t.Context(), `SELECT coalesce((SELECT next_action FROM railhead.payment_outbox_pending
		WHERE outbox_id = $1), '')`, [16]byte(id)).Scan(&action))
	return action
}
