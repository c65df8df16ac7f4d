package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// gate makes every claim wait after its snapshot was taken and before it locks a
// row, until the test opens it.
func (d *desk) gate() (arrived, open func()) {
	d.t.Helper()
	d.do(`CREATE TABLE railhead.gate (opened boolean)`)
	d.do(`CREATE FUNCTION railhead.wait_gate() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
		BEGIN
			WHILE NOT EXISTS (SELECT FROM railhead.gate) LOOP PERFORM pg_sleep(0.002); END LOOP;
			RETURN false;
		END $$`)
	d.do(`ALTER TABLE railhead.payment_paused_participants RENAME TO moved_away`)
	d.do(`CREATE VIEW railhead.payment_paused_participants AS SELECT ''::text AS participant_id
		WHERE railhead.wait_gate()`)
	d.do(`GRANT SELECT ON railhead.payment_paused_participants TO railhead_executor`)
	d.do(`GRANT EXECUTE ON FUNCTION railhead.wait_gate() TO railhead_executor`)
	arrived = func() {
		d.t.Helper()
		d.eventually("a claim at the gate", func() bool {
			return d.text(`SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'
				AND datname = current_database()`) != "0"
		})
	}
	return arrived, func() { d.do(`INSERT INTO railhead.gate VALUES (true)`) }
}

// eventually looks until something is so.
func (d *desk) eventually(what string, so func() bool) {
	d.t.Helper()
	d.within(20*time.Second, what, so)
}

func (d *desk) within(bound time.Duration, what string, so func() bool) {
	d.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(bound)
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			d.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestClaimOlderThanAnAppend has a claim whose snapshot is older than a row that
// another session appended under the pending row's lock. By its snapshot the
// number is free; the row that it locks has changed, and is left to the next claim.
func TestClaimOlderThanAnAppend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	first := d.claimOne(id)
	d.record(lost(sameKey, first)) // 1 DISPATCHING, 2 ZOMBIE_REQUEUE
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	arrived, open := d.gate()

	type claimed struct {
		result outbox.TurnResult
		err    error
	}
	done := make(chan claimed, 1)
	go func() {
		result, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 0))})
		done <- claimed{result, err}
	}()
	arrived()
	same(t, "late outcome", d.late(told(sameKey, first, payment.ResultRefusedTransient, "")), payment.VerdictLate) // 3
	open()
	got := <-done
	if got.err != nil || len(got.result.Claims) != 0 {
		t.Fatalf("claimed %+v, %v by an old snapshot", got.result.Claims, got.err)
	}
	d.eventually("the next look from the beginning", func() bool {
		result, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 0))})
		if err != nil {
			t.Fatal(err)
		}
		return len(result.Claims) == 1 && result.Claims[0].AttemptNo == 4
	})
	d.gapless()
}

// TestClaimOlderThanAnEnd: what was settled under an old snapshot is not claimed.
func TestClaimOlderThanAnEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	first := d.claimOne(id)
	d.record(lost(sameKey, first))
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	arrived, open := d.gate()
	done := make(chan int, 1)
	go func() {
		result, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 1))})
		if err != nil {
			t.Error(err)
		}
		done <- len(result.Claims)
	}()
	arrived()
	same(t, "late outcome", d.late(told(sameKey, first, payment.ResultAccepted, "ref")), payment.VerdictSettled)
	open()
	same(t, "claimed", <-done, 0)
	same(t, "rows", d.rows(id), "DISPATCHING ZOMBIE_REQUEUE(1) LATE_OUTCOME(1) DISPATCHED(1)")
}
