package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/payment"
)

// TestWhatWasTurnedAwayGoesToTheClaim: since when the rail has said nothing but that
// it is busy, and how often it refused us for this instruction; by a claim, and by the
// look for a claim of unknown commit.
func TestWhatWasTurnedAwayGoesToTheClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const busy, refused, notSent = payment.ResultRefusedLater, payment.ResultRefusedRail, payment.ResultNotSent
	id := d.enqueue()
	claim := d.claimOne(id)
	var refusedAt []time.Time
	for n, step := range []struct {
		result  payment.Result
		since   int // the row with which the run of "busy" began; 0: there is none
		refused int
	}{
		{notSent, 0, 0}, {refused, 0, 1}, {busy, 6, 1}, {notSent, 6, 1}, {refused, 6, 2}, {busy, 6, 2},
		{payment.ResultUnknown, 0, 2}, {busy, 16, 2}, {payment.ResultRefusedTransient, 0, 2}, {refused, 0, 3}, {busy, 22, 3},
	} {
		d.record(told(stubborn, claim, step.result, ""))
		claim = d.claimOne(id)
		answeredAt := func(row int) (at time.Time) {
			d.must(d.super.QueryRow(t.Context(), `SELECT completed_at FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
				AND attempt_no = $2`,
				[16]byte(id), row).Scan(&at))
			return at
		}
		var since time.Time
		if step.since > 0 {
			since = answeredAt(step.since)
		}
		if step.result == refused {
			refusedAt = append(refusedAt, answeredAt(2*(n+1)))
		}
		found, err := d.exec.FindClaim(t.Context(), claim.ClaimID)
		d.must(err)
		for _, c := range []payment.Claim{claim, found[0]} {
			if !c.BusySince.Equal(since) || c.RailRefusals != step.refused ||
				!slices.EqualFunc(c.RailRefusedAt, refusedAt, time.Time.Equal) {
				t.Errorf("after answer %d, %s: busy since %s, want %s; %d refusals at %s, want %d at %s",
					n+1, step.result, c.BusySince, since, c.RailRefusals, c.RailRefusedAt, step.refused, refusedAt)
			}
		}
	}
}

// TestMoreRefusalsThanAClaimHas tests that a claim has the first and the latest of more refusals than a profile may
// allow: by the first ones alone none would come of those since others pass.
func TestMoreRefusalsThanAClaimHas(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	for range payment.MaxRailRefusals + 3 {
		d.record(told(stubborn, claim, payment.ResultRefusedRail, ""))
		claim = d.claimOne(claim.OutboxID)
	}
	rows, err := d.super.Query(t.Context(), `SELECT completed_at FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND result = 'REFUSED_RAIL' ORDER BY attempt_no`, [16]byte(claim.OutboxID))
	d.must(err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	d.must(err)
	want = append(want[:1], want[4:]...)
	if len(want) != payment.MaxRailRefusals || !slices.EqualFunc(claim.RailRefusedAt, want, time.Time.Equal) {
		t.Errorf("refused at %s, want %s", claim.RailRefusedAt, want)
	}
}

// TestBusyCountsNoSend: what a rail was too busy for was no send: it may be replayed
// on a rail that wants a new id after a refusal, is no second send that a refusal
// could be of, and begins anew with the replay.
func TestBusyCountsNoSend(t *testing.T) {
	t.Parallel()
	for _, result := range []payment.Result{payment.ResultRefusedLater, payment.ResultRefusedRail} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', '{"rail_type": "bank", "id_after_refusal": "NEW"}'::jsonb, 'set by a test')`)
		claim := d.claimOne(d.enqueue())
		id := claim.OutboxID
		for range 3 {
			d.record(told(never, claim, result, ""))
			claim = d.claimOne(id)
		}
		if claim.SendNo() != 1 || !claim.FirstSentAt.IsZero() {
			t.Errorf("%s: send %d, the first at %s", result, claim.SendNo(), claim.FirstSentAt)
		}
		claim.BusySince, claim.RailRefusals = claim.ClaimedAt.Add(-payment.BusyMax), 4
		end := outcome(claim, never.WithDefaults().Decide(claim, payment.Answer{Result: result, OthersPass: true}), result,
			"")
		d.record(end)
		same(t, string(result)+": letter", d.letter(id), "FAILED pending")
		_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
		claim = d.claimOne(id)
		if !claim.BusySince.IsZero() || claim.RailRefusals != 0 || claim.SendNo() != 1 {
			t.Errorf("%s: after the replay: %+v", result, claim)
		}
		// One send reached the rail: its refusal of the payment covers it.
		d.record(told(asks, claim, payment.ResultUnknown, ""))
		d.tell(told(asks, d.claimOne(id), payment.ResultRefused, ""))
		same(t, string(result)+": end", d.text(`SELECT state || ' ' || outcome_unknown FROM railhead.payment_outbox_attempts
			WHERE outbox_id = $1 ORDER BY attempt_no DESC LIMIT 1`, [16]byte(id)), "FAILED false")

		claim = d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, result, ""))
		d.record(told(sameKey, d.claimOne(claim.OutboxID), payment.ResultUnknown, ""))
		same(t, string(result)+": reported refusal of the only send",
			d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictSettled)
	}
}
