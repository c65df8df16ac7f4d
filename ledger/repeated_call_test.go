package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestRepeatedCallIsNotCalledUnpaid: a caller repeats a call that a restore forgot, and that was
// executed. What the rail did not look at, and what was never sent, is not told as not paid: not
// while it waits, nor when it is cancelled or expires.
func TestRepeatedCallIsNotCalledUnpaid(t *testing.T) {
	t.Parallel()
	const expired, cancelled = "expired", "cancelled"
	for _, word := range []payment.Result{"", payment.ResultRefusedLater, payment.ResultRefusedRail} {
		for _, end := range []string{"waits", expired, cancelled} {
			for _, repeats := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %t", word, end, repeats), func(t *testing.T) {
					t.Parallel()
					d := newDesk(t)
					d.apply(keepsKeys)
					d.suspend()
					d.accept()
					if !repeats {
						d.do(`UPDATE railhead.payment_outbox_settings SET repeated_within = '0'`)
					}
					id := d.enqueue()
					if word != "" {
						claim := d.claimOne(id)
						if repeats {
							server, err := d.exec.CheckServer(t.Context())
							d.must(err)
							claim = server.Weigh(claim)
						}
						answer := told(sameKey, claim, word, "")
						answer.RailCode = "429"
						d.must(d.held(answer))
					}
					state, letter := "PENDING", ""
					switch end {
					case expired:
						d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'
							WHERE outbox_id = $1`, [16]byte(id))
						ended, err := d.exec.Expire(t.Context(), "reaper", 10)
						d.must(err)
						same(t, "expired", len(ended), 1)
						same(t, "expired and parked", ended[0].Parked, repeats)
						if state, letter = "FAILED", "EXPIRED pending"; repeats {
							state, letter = "PARKED", "OUTCOME_UNKNOWN pending"
						}
					case cancelled:
						_, err := d.operator().CancelPayment(t.Context(), id, why)
						d.must(err)
						state = "CANCELLED"
					}
					want := reader.OutcomeUnknown
					if !repeats {
						if want = reader.NotSent; word != "" {
							want = reader.RailRefused
						}
					}
					line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
					d.must(err)
					got, says := line.Certainty()
					same(t, "payment show says \""+says+"\" of "+d.rows(id), got, want)
					same(t, "callers are told", d.text(`SELECT railhead.payment_certainty($1, railhead.server_is_settled())`, [16]byte(id)), string(want))
					same(t, "state", line.State, state)
					same(t, "letter", d.letter(id), letter)
				})
			}
		}
	}
}

// TestRepeatsForgottenCall: of which times a call may repeat one that was forgotten.
func TestRepeatsForgottenCall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	repeats := func(at string) string {
		return d.text(`SELECT (railhead.repeats_forgotten_call((SELECT opened_at
			FROM railhead.payment_outbox_suspensions LIMIT 1) + $1::interval) IS NOT NULL)::text`, at)
	}
	d.suspend()
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at - interval '1 minute'`)
	for at, want := range map[string]string{"-61 seconds": "false", "-59 seconds": "true", "1 year": "true"} {
		same(t, "open, at "+at, repeats(at), want)
	}
	d.accept()
	d.do(`UPDATE railhead.payment_outbox_suspensions SET accepted_at = opened_at + interval '1 hour'`)
	for at, want := range map[string]string{"-61 seconds": "false", "-59 seconds": "true", "24 hours": "true",
		"25 hours": "false"} {
		same(t, "accepted, at "+at, repeats(at), want)
	}
	// The clock of the server before was ahead, or nothing is known from before.
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at + interval '1 minute'`)
	same(t, "by the clock of the server before", repeats("1 second"), "true")
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = '-infinity'`)
	same(t, "nothing is known", repeats("-1 year"), "true")
}

// TestAcceptsWhatWasCompared: an operator compares, and the server goes back once more before the
// acceptance. What was compared is not what is there, also where a relayer has looked.
func TestAcceptsWhatWasCompared(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	accept := func(since time.Time) error {
		_, err := d.operator().AcceptTimeline(t.Context(), since, why)
		return err
	}
	d.suspend()
	d.do(`UPDATE railhead.payment_outbox_suspensions
		SET server_started_at = server_started_at - interval '1 day', opened_at = opened_at - interval '1 hour'`)
	compared := d.suspendedAt()
	d.suspend() // a guard takes it over on the next start
	same(t, "is taken over", d.suspendedAt().Sub(compared) > time.Minute, true)
	refusedWith(t, "without a time", accept(time.Time{}), "RH002", "lanes have been suspended since")
	refusedWith(t, "what was compared", accept(compared), "RH020", "the server may have gone back again since")
	same(t, "is open", d.suspendedAt().IsZero(), false)
	again := d.suspendedAt()
	d.must(accept(again.Truncate(time.Second))) // as it is printed
	same(t, "is accepted", d.suspendedAt().IsZero(), true)
	d.must(accept(again)) // the answer was lost
	d.must(accept(time.Time{}))
	refusedWith(t, "of no suspension", accept(again.Add(time.Minute)), "RH020", "no suspension is open")
}

// TestRefusalOfAKeyThatTheRailForgot: a call is repeated whose forgotten send is older than the key
// window. The rail keeps one outcome a key, and refuses the key that it knows no more: what it
// executed under it stays unknown.
func TestRefusalOfAKeyThatTheRailForgot(t *testing.T) {
	t.Parallel()
	// a key is sent again for 55 minutes of its hour
	for _, ago := range []string{"1 minute", "57 minutes", "2 hours", "-1 minute"} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', '{"answer_covers_key": true, "resend_on_unknown": "SAME_KEY", "key_window": "1h"}', 'set by a test')`)
		d.suspend()
		d.accept()
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
		d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now() - $1::interval`, ago)
		d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
		d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '1 day'`) // in force when it was sent
		policy := payment.Policy{AnswerCoversKey: true, ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(time.Hour)}.WithDefaults()
		server, err := d.exec.CheckServer(t.Context())
		d.must(err)
		want := map[string]string{"1 minute": "FAILED", "57 minutes": "PARKED", "2 hours": "PARKED",
			"-1 minute": "PARKED"}[ago]

		claim := server.Weigh(d.claimOne(d.enqueue()))
		d.must(d.held(told(policy, claim, payment.ResultRefusedFinal, "")))
		line, err := openReader(t, d.Cell).Timeline(t.Context(), claim.OutboxID)
		d.must(err)
		same(t, ago+": by the answer", line.State, want)

		claim = server.Weigh(d.claimOne(d.enqueue()))
		same(t, ago+": by SQL", d.text(`SELECT railhead.rail_keeps_one_outcome($1)::text`, [16]byte(claim.OutboxID)), map[string]string{"FAILED": "true", "PARKED": "false"}[want])
	}
}

// TestEvidenceOfAfterTheRestore: that a payment was not executed is not shown by a statement that
// is older than the sends that a restore may have forgotten.
func TestEvidenceOfAfterTheRestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.record(lost(never, claim))
	d.suspend()
	d.accept()
	e := notExecuted()
	e.Date = time.Now().AddDate(0, 0, -3)
	_, err := d.operator().ResolvePayment(t.Context(), claim.OutboxID, e)
	refusedWith(t, "evidence of before", err, "RH020", "a send that the database has forgotten may have begun as late as")
	// By a clock that was ahead, which is right again: no evidence is of then.
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_suspensions
		SET opened_at = now() + interval '3 days', accepted_at = now() + interval '3 days'`)
	_, err = d.operator().ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
}

// TestReplayOfAKeyThatTheRailForgot: a send that was made while lanes were suspended may have been
// a re-send of one that was forgotten, whose key window is over. It is not replayed only to be
// parked again.
func TestReplayOfAKeyThatTheRailForgot(t *testing.T) {
	t.Parallel()
	for ago, refused := range map[string]bool{"1 minute": false, "2 hours": true, "2 hours, sent while suspended": true,
		"2 hours, sent after the acceptance": true, "2 hours, sent long after the acceptance": false,
		"2 hours, sent long after the acceptance and in the longer window of then": true} {
		d := newDesk(t)
		ago, when, after := strings.Cut(ago, ", ")
		when, longer := strings.CutSuffix(when, " and in the longer window of then")
		suspended := when == "sent while suspended"
		after = after && !suspended
		if noticed := map[string]string{"sent after the acceptance": "50 minutes",
			"sent long after the acceptance": "100 minutes"}[when]; after {
			d.suspend()
			d.accept()
			d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_outbox_suspensions
				SET opened_at = now() - $1::interval, accepted_at = now() - $1::interval`, noticed)
		}
		const profile = `{"resend_on_unknown": "SAME_KEY", "key_window": "1h", "id_after_refusal": "SAME",
			"inquiry": {"max": 1, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1s", "not_found_until": "24h"}}`
		if longer {
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, strings.Replace(profile, `"1h"`, `"2h"`, 1))
		}
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, profile)
		policy := asksInVain
		policy.Inquiry.Max, policy.Inquiry.NotFoundAge = 1, payment.Duration(time.Second)
		claim := d.claimOne(d.enqueue())
		d.record(told(policy, claim, payment.ResultUnknown, ""))
		if !after {
			d.suspend()
			d.accept()
		}
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
		d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now() - $1::interval`, ago)
		if suspended { // for longer than the window
			d.do(`UPDATE railhead.payment_outbox_suspensions SET opened_at = now() - interval '100 minutes'`)
		}
		d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
		d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '1 day'`)
		if longer { // the present one is in force since the acceptance
			d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '99 minutes'
				WHERE version = (SELECT max(version) FROM railhead.payment_rail_profiles WHERE rail_type = 'bank')
				AND rail_type = 'bank'`)
		}
		time.Sleep(1100 * time.Millisecond) // the send is old enough for the inquiry
		d.record(told(policy, d.claimOne(claim.OutboxID), payment.ResultNotFound, ""))
		same(t, ago+": letter", d.letter(claim.OutboxID), "OUTCOME_UNKNOWN pending")
		_, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why)
		if refused {
			refusedWith(t, ago+when+": replay", err, "RH020", "its key window is over")
		} else {
			d.must(err)
		}
	}
}

// TestReplayOfASendThatIsYetToCome: the clock has stepped back since a send. How much of the window
// of its key is left is not known.
func TestReplayOfASendThatIsYetToCome(t *testing.T) {
	t.Parallel()
	for _, ahead := range []bool{false, true} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, `{"resend_on_unknown": "SAME_KEY", "key_window": "1h", "id_after_refusal": "SAME",
			"inquiry": {"max": 1, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1s", "not_found_until": "24h"}}`)
		policy := asksInVain
		policy.Inquiry.Max, policy.Inquiry.NotFoundAge = 1, payment.Duration(time.Second)
		claim := d.claimOne(d.enqueue())
		d.record(told(policy, claim, payment.ResultUnknown, ""))
		time.Sleep(1100 * time.Millisecond) // the send is old enough for the inquiry
		d.record(told(policy, d.claimOne(claim.OutboxID), payment.ResultNotFound, ""))
		if ahead {
			d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_outbox_attempts SET claimed_at = claimed_at + interval '1 minute', completed_at = completed_at + interval '2 minutes' WHERE claimed_at IS NOT NULL AND state <> 'LATE_OUTCOME'`)
		}
		same(t, "letter", d.letter(claim.OutboxID), "OUTCOME_UNKNOWN pending")
		_, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why)
		if ahead {
			refusedWith(t, "ahead", err, "RH020", "its key window is over, or not known")
		} else {
			d.must(err)
		}
	}
}

// TestKeySince: from when on a rail may have the key of a first known send, which it knows for an
// hour at most: from gap to gap, the newest first, and not at all by a clock that stepped back.
func TestKeySince(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	for name, test := range map[string]struct {
		first string
		gaps  [][2]string // known and noticed
		want  string
	}{
		"none":                         {"30 minutes", nil, "00:30:00"},
		"in its window":                {"30 minutes", [][2]string{{"65 minutes", "60 minutes"}}, "01:05:00"},
		"after it":                     {"30 minutes", [][2]string{{"3 hours", "2 hours"}}, "00:30:00"},
		"from gap to gap":              {"30 minutes", [][2]string{{"65 minutes", "60 minutes"}, {"2 hours", "110 minutes"}}, "02:00:00"},
		"the earlier one alone is out": {"30 minutes", [][2]string{{"65 minutes", "60 minutes"}, {"5 hours", "4 hours"}}, "01:05:00"},
		"a time to come":               {"30 minutes", [][2]string{{"-1 hour", "-2 hours"}}, "-01:00:00"},
	} {
		d.do(`DELETE FROM railhead.payment_outbox_suspensions`)
		for _, gap := range test.gaps {
			d.do(`INSERT INTO railhead.payment_outbox_suspensions (cause, detail, worker_id, system_identifier, known_until, opened_at, accepted_at, accepted_by, reason, server_started_at, timeline)
				SELECT 'NEW_TIMELINE', 'in a test', 'a worker', '1', clock_timestamp() - $1::interval, clock_timestamp() - $2::interval, clock_timestamp(), 'amy', 'a test', now(), 1`, gap[0], gap[1])
		}
		got := d.text(`SELECT (round(extract(epoch FROM clock_timestamp() - railhead.key_since($1, '1 hour', clock_timestamp() - $2::interval)) / 60) * interval '1 minute')::text`, [16]byte(id), test.first)
		same(t, name, got, test.want)
	}
}
