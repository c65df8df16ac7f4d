package ledger_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestClaim is one statement: out of pending, into the archive, noted in flight,
// and the row that it appends holds all of the pending row.
func TestClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue(`priority => 0`, `expires_at => '2100-01-01'`, `headers => '{"traceparent": "x"}'`)
	claim := d.claimOne(id)
	same(t, "rows", d.rows(id), "DISPATCHING")
	same(t, "pending", d.waiting(id), "")
	same(t, "in flight", d.text(`SELECT format('%s %s %s %s', claim_id, worker_id, outbox_ids, attempt_nos)
		FROM railhead.payment_outbox_claims`),
		fmt.Sprintf("%s worker {%s} {1}", claim.ClaimID, id))
	same(t, "claim row", d.text(`
		SELECT format('%s %s %s %s %s %s %s %s %s', payload, headers, priority, expires_at = '2100-01-01', enqueued_at IS NOT NULL,
			next_attempt_at = '2000-01-01', next_action, send_count, render_version)
		FROM railhead.v_outbox_attempts`),
		`{"amount": "10.50", "currency": "EUR"} {"traceparent": "x"} 0 t t t SEND 0 render/1`)
	if claim.AttemptNo != 1 || !claim.Intact() || claim.Action != payment.ActionSend || claim.Priority != 0 ||
		claim.SequenceID != 1 {
		t.Errorf("claim %+v", claim)
	}
}

// TestClaimRolledBack takes a claim back at its commit: the pending row is there
// as it was, to the byte.
func TestClaimRolledBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	whole := `SELECT p::text FROM railhead.payment_outbox_pending p WHERE outbox_id = $1`
	before := d.text(whole, [16]byte(id))
	d.do(`CREATE FUNCTION railhead.fail_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'commit fails'; END $$`)
	d.do(`CREATE CONSTRAINT TRIGGER fail_commit AFTER INSERT ON railhead.payment_outbox_claims
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION railhead.fail_commit()`)
	if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
		0))}); ledger.SQLState(err) != "P0001" {
		t.Fatalf("turn: %v, want the commit to fail", err)
	}
	same(t, "pending row", d.text(whole, [16]byte(id)), before)
	same(t, "rows", d.rows(id), "")
	d.do(`DROP TRIGGER fail_commit ON railhead.payment_outbox_claims`)
	same(t, "attempt number", d.claimOne(id).AttemptNo, 1)
}

// TestClaimNumbersByTheCount: the number of a claim follows the count, which each
// append for a waiting row raises. A row that counts fewer rows than there are is
// older than they are, and is not claimed.
func TestClaimNumbersByTheCount(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.record(told(sameKey, d.claimOne(id), payment.ResultRefusedTransient, ""))
	d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 7`)
	same(t, "attempt number after a raised count", d.claimOne(id).AttemptNo, 8)

	other := d.enqueue()
	d.record(told(sameKey, d.claimOne(other), payment.ResultRefusedTransient, ""))
	d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 0, next_attempt_at = '2000-01-01'`)
	if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
		1))}); ledger.SQLState(err) != outbox.StatePutBack {
		t.Errorf("a claim of an older copy: %v, want %s", err, outbox.StatePutBack)
	}
}

func TestLanesAreIndependent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ApplyProfile("other", celltest.BankProfile)
	here, there := d.enqueue(), d.enqueueOn("other")
	if got := d.claim(lane("other", 5, 0)); len(got) != 1 || got[there].OutboxID != there {
		t.Errorf("the lane of other claimed %v", got)
	}
	same(t, "pending of bank", d.waiting(here), "SEND sends=0 asked=0 count=0")
	third := d.enqueueOn("other")
	got := d.claim(lane("bank", 1, 0), lane("other", 1, 0))
	if len(got) != 2 || got[here].RailType != "bank" || got[third].RailType != "other" {
		t.Errorf("two lanes claimed %v", got)
	}
}

// TestUrgentFirst and the share of the longest due: whatever is urgent goes
// first, but bulk is never starved.
func TestUrgentFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var bulk, normal, urgent []payment.ID
	for range 4 {
		bulk = append(bulk, d.enqueue(`priority => 2`))
		normal = append(normal, d.enqueue(`priority => 1`))
		urgent = append(urgent, d.enqueue(`priority => 0`))
	}
	want := func(what string, got map[payment.ID]payment.Claim, ids ...payment.ID) {
		t.Helper()
		if len(got) != len(ids) {
			t.Errorf("%s: %d rows, want %d", what, len(got), len(ids))
		}
		for _, id := range ids {
			if _, ok := got[id]; !ok {
				t.Errorf("%s: %s is missing", what, id)
			}
		}
	}
	want("two slots", d.claim(lane("bank", 2, 0)), urgent[0], urgent[1])
	want("two slots, one for the longest due", d.claim(lane("bank", 2, 1)), bulk[0], urgent[2])
	want("again", d.claim(lane("bank", 2, 1)), normal[0], urgent[3])
	want("and again", d.claim(lane("bank", 3, 1)), bulk[1], normal[1], normal[2])
	want("the rest", d.claim(lane("bank", 32, 4)), normal[3], bulk[2], bulk[3])
}

// TestBulkIsNotStarved keeps every slot of a lane wanted by urgent rows.
func TestBulkIsNotStarved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	bulk := d.enqueue(`priority => 2`)
	for range 20 {
		d.enqueue(`priority => 0`)
	}
	if _, ok := d.claim(lane("bank", 8, 0))[bulk]; ok {
		t.Error("bulk went before urgent without a share")
	}
	if _, ok := d.claim(lane("bank", 8, 1))[bulk]; !ok {
		t.Error("the longest due row had no share")
	}
}

func TestClaimsNoMoreThanFree(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := range 12 {
		d.enqueue(fmt.Sprintf(`priority => %d`, n%3))
	}
	for _, free := range []int{1, 3, 5} {
		same(t, "claimed", len(d.claim(lane("bank", free, free))), free)
	}
	same(t, "rest", len(d.claim(lane("bank", 100, 100))), 3)
	same(t, "nothing left", len(d.claim(lane("bank", 100, 100))), 0)
	same(t, "claim statements in flight", d.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 4)
}

// TestNotClaimed goes through everything that keeps a row where it is.
func TestNotClaimed(t *testing.T) {
	t.Parallel()
	pause := `UPDATE railhead.payment_rails SET paused = true, paused_by = 'x', paused_at = now(), pause_reason = 'x'
		WHERE rail_type = `
	for what, keep := range map[string]struct{ plant, undo string }{
		"paused rail":        {pause + `'bank'`, `UPDATE railhead.payment_rails SET paused = false`},
		"paused everything":  {pause + `'*'`, `UPDATE railhead.payment_rails SET paused = false`},
		"paused participant": {`INSERT INTO railhead.payment_paused_participants VALUES ('participant', 'x', now(), 'x')`, `DELETE FROM railhead.payment_paused_participants`},
		"not due":            {`UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp() + interval '1 hour'`, `UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp()`},
		"quarantined":        {`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity'`, `UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp()`},
		"expired":            {`UPDATE railhead.payment_outbox_pending SET expires_at = clock_timestamp()`, `UPDATE railhead.payment_outbox_pending SET outcome_unknown = true`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			d.do(keep.plant)
			for _, l := range []outbox.Lane{lane("bank", 5, 0), lane("bank", 5, 5)} {
				if got := d.claim(l); len(got) != 0 {
					t.Fatalf("claimed %v", got)
				}
			}
			d.do(keep.undo)
			if _, ok := d.claim(lane("bank", 5, 0))[id]; !ok {
				t.Error("still not claimed after that was undone")
			}
		})
	}
}

// TestOnePausedRailOfTwo must not stop the other.
func TestOnePausedRailOfTwo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ApplyProfile("other", celltest.BankProfile)
	d.enqueue()
	there := d.enqueueOn("other")
	d.do(`UPDATE railhead.payment_rails SET paused = true, paused_by = 'x', paused_at = now(), pause_reason = 'x'
		WHERE rail_type = 'bank'`)
	if got := d.claim(lane("bank", 1, 0), lane("other", 1, 0)); len(got) != 1 || got[there].OutboxID != there {
		t.Errorf("claimed %v", got)
	}
}

// TestTwoClaimAtOnce has eight executors take one queue apart in small bites.
func TestTwoClaimAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const workers, rows = 8, 200
	var want []payment.ID
	for n := range rows {
		want = append(want, d.enqueue(fmt.Sprintf(`priority => %d`, n%3)))
	}
	var mu sync.Mutex
	var got []payment.ID
	var group sync.WaitGroup
	for range workers {
		exec := openExecutor(t, d.Cell)
		group.Go(func() {
			for misses := 0; misses < 3; {
				result, err := exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 5, 1))})
				if err != nil {
					t.Error(err)
					return
				}
				if len(result.Claims) == 0 {
					misses++ // others may hold locks on what is left
				}
				mu.Lock()
				for _, claim := range result.Claims {
					got = append(got, claim.OutboxID)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for id := range d.claim(lane("bank", rows, 0)) {
		got = append(got, id)
	}
	order := func(a, b payment.ID) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("%d claims of %d rows, %d of them distinct", len(got), rows, len(slices.Compact(got)))
	}
	d.gapless()
}
