package reaper_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// TestStale tests which open claims are repaired, by age and by the worker's silence.
func TestStale(t *testing.T) {
	t.Parallel()
	const silence = 10 * time.Second // of a worker that is taken for dead
	for name, c := range map[string]struct {
		status string // of the worker's heartbeat; empty: none
		silent time.Duration
		age    time.Duration
		stale  int
		lasts  time.Duration // until time alone makes another case of it, on the first try; 0: never
	}{
		"young, alive":                      {"running", 0, 0, 0, silence},
		"old, alive":                        {"running", 0, claimTimeout + time.Second, 1, 0},
		"almost old, alive":                 {"running", 0, claimTimeout - 5*time.Second, 0, 5 * time.Second},
		"draining is alive":                 {"draining", 0, budget + time.Second, 0, silence},
		"suspended is alive":                {"suspended", 0, budget + time.Second, 0, silence},
		"past the budget, silent":           {"running", silence + time.Second, budget + time.Second, 1, 0},
		"past the budget, a little silent":  {"running", 5 * time.Second, budget + time.Second, 0, silence - 5*time.Second},
		"past the budget, stopped":          {"stopped", 0, budget + time.Second, 1, 0},
		"past the budget, never heard of":   {"", 0, budget + time.Second, 1, 0},
		"within the budget, silent":         {"running", time.Hour, budget - 700*time.Millisecond, 0, 700 * time.Millisecond},
		"within the budget, stopped":        {"stopped", 0, budget - 700*time.Millisecond, 0, 700 * time.Millisecond},
		"within the budget, never heard of": {"", 0, 0, 0, budget},
		"a year old: there is no window":    {"running", 0, 365 * 24 * time.Hour, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				y        *yard
				claim    payment.Claim
				result   reaper.Result
				again    int
				inFlight int
			)
			// A case for which the machine was too slow is repeated, and given longer if it can be.
			for try, inTime := 1, false; !inTime; try++ {
				if try > 20 {
					t.Fatal("the machine was too slow for each try")
				}
				y = newYard(t, sameKey)
				r := y.reaper()
				claim = y.claimOne("worker")
				begun := time.Now()
				if c.status != "" {
					y.beat("worker", c.status, c.silent)
				}
				age, lasts := c.age, c.lasts
				if age < budget && lasts < budget {
					lasts = min(lasts*time.Duration(try), budget)
					age = min(age, budget-lasts)
				}
				y.age(age)
				result = y.once(r)
				inFlight = y.inFlight()
				again = y.once(r).Stale
				inTime = c.lasts == 0 || time.Since(begun) < lasts
			}
			same(t, "stale", result.Stale, c.stale)
			same(t, "repaired", result.Repaired, c.stale)
			want := "DISPATCHING"
			if c.stale > 0 {
				want = "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=1 unknown"
				if c.age > 24*time.Hour { // the rail has forgotten the key
					want = "DISPATCHING ZOMBIE_REQUEUE/KEY_WINDOW_CLOSED PARKED/KEY_WINDOW_CLOSED, letter OUTCOME_UNKNOWN pending"
				}
				same(t, "claims in flight", inFlight, 0)
			}
			same(t, "fate", y.fate(claim.OutboxID), want)
			same(t, "a second look", again, 0)
		})
	}
}

// TestStaleByItsOwnProfile tests that a call may take as long as the profile of its claim allows. A
// shorter profile that was applied since ends no call under way.
func TestStaleByItsOwnProfile(t *testing.T) {
	t.Parallel()
	const patient = `{"resend_on_unknown": "NEVER", "inquiry": {"max": 3, "not_found": "INCONCLUSIVE"},
		"timeouts": {"connect": "15s", "tls": "100ms", "write": "300ms", "response_header": "500ms", "body": "300ms"}}`
	y := newYard(t, patient)
	r := y.reaper()
	claim := y.claimOne("worker")
	made := y.Int(`SELECT profile_version FROM railhead.payment_outbox_attempts`)
	y.beat("worker", "running", time.Hour)
	y.ApplyProfile("bank", asks)
	y.age(10 * time.Second)
	same(t, "dialling still, by the profile of the claim", y.once(r).Stale, 0)
	same(t, "fate", y.fate(claim.OutboxID), "DISPATCHING")
	y.age(17 * time.Second)
	same(t, "past its call", y.once(r).Stale, 1)
	same(t, "the profile of the answer",
		y.Int(`SELECT profile_version FROM railhead.payment_outbox_attempts WHERE answers_attempt_no = 1`), made)

	// A longer profile counts too: the reason for it may apply to any call.
	y = newYard(t, asks)
	r = y.reaper()
	claim = y.claimOne("worker")
	y.beat("worker", "running", time.Hour)
	y.ApplyProfile("bank", patient)
	y.age(10 * time.Second)
	same(t, "within the call of the profile in force", y.once(r).Stale, 0)
	same(t, "fate", y.fate(claim.OutboxID), "DISPATCHING")
}

// TestLostIsUnknown tests that the sends of a dead worker are unknown. The profile decides what
// follows.
func TestLostIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ profile, want string }{
		"same key": {sameKey, "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=1 unknown"},
		"asked":    {asks, "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST, INQUIRE sends=1 unknown"},
		"never":    {never, "DISPATCHING ZOMBIE_REQUEUE/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY, letter OUTCOME_UNKNOWN pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, c.profile)
			claim := y.claimOne("worker")
			y.age(time.Minute)
			y.once(y.reaper())
			same(t, "fate", y.fate(claim.OutboxID), c.want)
			same(t, "result", y.text(`SELECT coalesce(max(result), 'none') FROM railhead.payment_outbox_attempts
				WHERE state <> 'DISPATCHING'`), "none")
		})
	}
}

// TestLostInquiry tests that a lost inquiry is repeated, and never becomes a send.
func TestLostInquiry(t *testing.T) {
	t.Parallel()
	y := newYard(t, asks)
	claim := y.claimOne("worker")
	r := y.reaper()
	for range 2 {
		y.age(time.Minute)
		y.once(r)
		y.claim("worker")
	}
	same(t, "fate", y.fate(claim.OutboxID),
		"DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST INQUIRING ZOMBIE_REQUEUE/WORKER_LOST INQUIRING")
}

// TestUnreadableProfileParks tests that nothing is sent again on a guess, and that a payment of which no
// reaper can read the profile is left to an operator in the end.
func TestUnreadableProfileParks(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	claim := y.claimOne("worker")
	y.do(`SELECT railhead.apply_rail_profile('bank', '{"rail_type": "bank", "resend_on_unknown": "SAME_KEY", "key_window": "a day", ` + timeouts + `}', 'a slip')`)
	y.age(reaper.LeaveUnread + time.Minute)
	y.once(y.reaper())
	same(t, "fate", y.fate(claim.OutboxID),
		"DISPATCHING ZOMBIE_REQUEUE/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY, letter OUTCOME_UNKNOWN pending")
}

// TestLateEvidenceIsWeighedFirst tests that proof of execution ends a claim as executed, whichever
// worker died with it; a refusal of an earlier send does not.
func TestLateEvidenceIsWeighedFirst(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	r := y.reaper()
	lost := func() (first, second payment.Claim) {
		t.Helper()
		first = y.claimOne("worker")
		y.age(time.Minute)
		same(t, "repaired", y.once(r).Repaired, 1)
		return first, y.claim("worker")[0]
	}
	first, second := lost()
	same(t, "evidence", y.late(told(first, payment.ResultAccepted, "ref")), payment.VerdictLate)
	y.age(time.Minute)
	result := y.once(r)
	same(t, "proven", result.Confirmed, 1)
	same(t, "repaired", result.Repaired, 0)
	same(t, "closed", result.Closed, 1)
	same(t, "fate", y.fate(second.OutboxID), "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST DISPATCHING LATE_OUTCOME DISPATCHED")
	same(t, "reference", y.text(`SELECT rail_reference FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`),
		"ref")

	first, second = lost()
	same(t, "evidence", y.late(told(first, payment.ResultRefusedFinal, "")), payment.VerdictLate)
	y.age(time.Minute)
	result = y.once(r)
	same(t, "repaired", result.Repaired, 1)
	same(t, "fate", y.fate(second.OutboxID),
		"DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST DISPATCHING LATE_OUTCOME ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=2 unknown")
}

// TestAnsweredClaimsAreRemoved tests claim rows that a slow path or a dead worker left.
func TestAnsweredClaimsAreRemoved(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	for range 3 {
		y.enqueue()
	}
	claims := y.claim("worker")
	for _, claim := range claims[:2] {
		y.late(told(claim, payment.ResultAccepted, "ref"))
	}
	r := y.reaper()
	same(t, "closed with one open", y.once(r).Closed, 0)
	y.late(told(claims[2], payment.ResultAccepted, "ref"))
	same(t, "closed", y.once(r).Closed, 1)
	same(t, "in flight", y.inFlight(), 0)
}

// TestReapersAndALateWorker tests the fence: two reapers, and the worker that only seemed dead,
// answer the same claims concurrently.
func TestReapersAndALateWorker(t *testing.T) {
	t.Parallel()
	y := newYard(t, `{"retry": {"max_sends": 20}, `+sameKey[1:])
	const instructions = 40
	reapers := []*reaper.Reaper{y.reaper(), y.reaper()}
	for range instructions {
		y.enqueue()
	}
	for round := range 5 {
		claims := y.claim("worker")
		y.age(time.Minute)
		var outcomes []payment.Outcome
		for n, claim := range claims {
			word := payment.ResultUnknown
			if round == 4 && n%2 == 0 {
				word = payment.ResultAccepted
			}
			outcomes = append(outcomes, told(claim, word, "ref"))
		}
		var group sync.WaitGroup
		for _, r := range reapers {
			group.Go(func() {
				if _, err := r.RunOnce(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		worker := y.executor()
		group.Go(func() {
			for half := range 2 {
				part := outcomes[half*len(outcomes)/2 : (half+1)*len(outcomes)/2]
				result, err := worker.Turn(t.Context(), outbox.Turn{Outcomes: part})
				if err != nil {
					t.Error(err)
					return
				}
				for _, o := range result.Late {
					if _, err := worker.RecordLate(t.Context(), o); err != nil {
						t.Error(err)
					}
				}
			}
		})
		group.Wait()
	}
	same(t, "claims that were not answered exactly once", y.text(`
		SELECT count(*)::text FROM railhead.payment_outbox_attempts c
		WHERE c.state = 'DISPATCHING' AND 1 <> (
			SELECT count(*) FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = c.outbox_id AND a.answers_attempt_no = c.attempt_no AND a.state <> 'LATE_OUTCOME')
			AND NOT EXISTS (SELECT FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = c.outbox_id
			AND a.state = 'DISPATCHED' AND a.answers_attempt_no = c.attempt_no)`), "0")
	same(t, "instructions with gaps or two executions", y.text(`
		SELECT count(*)::text FROM (SELECT FROM railhead.payment_outbox_attempts GROUP BY outbox_id
			HAVING max(attempt_no) <> count(*) OR count(*) FILTER (WHERE state = 'DISPATCHED') > 1) x`), "0")
	same(t, "executed according to the worker, and recorded", y.text(`
		SELECT count(DISTINCT outbox_id)::text FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHED'`), fmt.Sprint(instructions/2))
	same(t, "nowhere", y.text(`
		SELECT count(*)::text FROM railhead.payment_outbox_keys k
		WHERE coalesce(railhead.payment_outbox_state(k.outbox_id), '') NOT IN ('PENDING', 'UNKNOWN', 'DISPATCHED', 'PARKED')`), "0")
	y.once(reapers[0])
	same(t, "claims in flight", y.inFlight(), 0)
}

// TestOneStuckRepair tests that an open transaction on one instruction keeps no other from being
// repaired or expired.
func TestOneStuckRepair(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	for range 6 {
		y.enqueue()
	}
	claims := y.claim("worker")
	y.age(time.Minute)
	expired := y.enqueue()
	y.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now()`)
	held := claims[0].OutboxID
	tx, err := y.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	columns := `outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type`
	if _, err := tx.Exec(t.Context(), `INSERT INTO railhead.payment_outbox_attempts (attempt_id, attempt_no, state, outcome_unknown, provisional, `+columns+`)
		SELECT gen_random_uuid(), 2, 'LATE_OUTCOME', false, false, `+columns+` FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1`, [16]byte(held)); err != nil {
		t.Fatal(err)
	}
	r := y.reaper()
	result, err := r.RunOnce(t.Context())
	if !errors.Is(err, outbox.ErrLockTimeout) {
		t.Errorf("got %v, want %v", err, outbox.ErrLockTimeout)
	}
	same(t, "repaired", result.Repaired, 5)
	same(t, "expired", result.Expired, 1)
	same(t, "the expired one", y.fate(expired), "FAILED/EXPIRED, letter EXPIRED pending")
	same(t, "the stuck one", y.fate(held), "DISPATCHING")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "repaired afterwards", y.once(r).Repaired, 1)
	same(t, "in flight", y.inFlight(), 0)
}

// TestOneRefusedRepair tests that a repair that the archive rejects stops no other.
func TestOneRefusedRepair(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	var refused payment.ID
	for range 4 {
		refused = y.enqueue()
	}
	y.claim("worker")
	y.age(time.Minute)
	y.do(`ALTER TABLE railhead.payment_outbox_attempts ADD CONSTRAINT refused_by_the_test
		CHECK (outbox_id <> '` + refused.String() + `' OR state <> 'ZOMBIE_REQUEUE') NOT VALID`)
	result, err := y.reaper().RunOnce(t.Context())
	if err == nil {
		t.Error("the turn says that all went well")
	}
	same(t, "repaired", result.Repaired, 3)
	same(t, "open", y.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 1)
}
