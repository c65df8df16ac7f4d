package relayer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// noDedupe is a bank that pays each time it is asked to.
func noDedupe(c *railsim.Config) { c.Behaviour.NoDedupe = true }

// TestEveryCallIsLost loses each call of the store, sometimes before and sometimes after it took
// effect, while payments go through. In all cases every payment ends, each is sent once, and
// nothing is left in flight.
func TestEveryCallIsLost(t *testing.T) {
	t.Parallel()
	for call, times := range map[string]int{
		"CheckServer": 3, "Rails": 3, "Heartbeat": 3, "Turn": 3, "ClaimOnly": 3, "DueIDs": 3, "FindClaim": 3,
		// These calls are made once in their situation.
		"Quarantine": 1, "RecordLate": 1, "CloseClaims": 1, "PauseRail": 1,
	} {
		for _, how := range []way{lostBefore, lostAfter} {
			t.Run(call+" "+how.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "refuses_before_processing": true, "rail_refused": {"after": 1}`), noDedupe)
				store := newFaulty(w.store)
				w.runWith(config(), store, w.notifier())
				first := w.enqueue("first")
				w.awaitStates(first, "DISPATCHING DISPATCHED")
				ids, sends := w.lookFor(call, store, func() { store.failNext(call, how, times) }), 1
				if call == "PauseRail" {
					sends = w.sends(ids[0]) + 1 // those that the rail refused, before it is resumed
					w.do(`UPDATE railhead.payment_rails SET paused = false`)
				}
				for _, id := range ids {
					w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
					same(t, "executions", w.executions(id), 1)
					same(t, "sends", w.sends(id), sends)
				}
				w.seen.await(t, func() error {
					if lost := store.count(call); lost != times {
						return fmt.Errorf("%s was lost %d times", call, lost)
					}
					return nil
				})
				w.closeClaims()
				w.gapless()
			})
		}
	}
}

// lookFor makes a situation in which a relayer makes this call, and begins to lose it.
func (w *world) lookFor(call string, store *faulty, begin func()) (ids []payment.ID) {
	w.t.Helper()
	switch call {
	case "ClaimOnly", "DueIDs", "Quarantine":
		w.poison("bad")
	case "FindClaim":
		store.failNext("Turn", lostAfter, 1)
	case "RecordLate", "CloseClaims":
		// Late by our own repetition: the outcomes were recorded, and the answer was lost.
		store.failNext("Turn with outcomes", lostAfter, 1)
	case "PauseRail":
		w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 401, Plain: true})
		begin()
		ids = append(ids, w.enqueue("refused"))
		w.awaitText("true", `SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`)
		w.awaitText("0", `SELECT count(*)::text FROM railhead.payment_outbox_claims`)
		w.faults()
		return ids
	}
	begin()
	for n := range 5 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	return ids
}

// closeClaims does what a reaper does with rows of answered claims, and checks that all were
// answered.
func (w *world) closeClaims() {
	w.t.Helper()
	w.awaitText("0", `SELECT count(*)::text FROM railhead.v_outbox_pending WHERE instruction_id NOT LIKE 'bad%'`)
	w.seen.await(w.t, func() error {
		if _, err := w.store.CloseClaims(w.t.Context(), nil); err != nil {
			return err
		}
		if n := w.text(`SELECT count(*)::text FROM railhead.payment_outbox_claims`); n != "0" {
			return fmt.Errorf("%s claims are in flight", n)
		}
		return nil
	})
}

// gapless checks for numbers without gaps, at most one DISPATCHED each, and a sequence without
// gaps.
func (w *world) gapless() {
	w.t.Helper()
	same(w.t, "instructions with gaps or two executions", w.text(`
		SELECT coalesce(string_agg(x.outbox_id::text, ', '), '')
		FROM (
			SELECT outbox_id FROM railhead.payment_outbox_attempts GROUP BY outbox_id
			HAVING max(attempt_no) <> count(*) OR min(attempt_no) <> 1
			OR count(*) FILTER (WHERE state = 'DISPATCHED') > 1) x`), "")
	same(w.t, "participants with gaps", w.text(`
		SELECT count(*)::text FROM (
			SELECT k.participant_id FROM railhead.payment_outbox_keys k
			JOIN railhead.participant_outbox_sequences s USING (participant_id)
			GROUP BY k.participant_id, s.next_sequence_id
			HAVING count(*) <> max(k.sequence_id) OR min(k.sequence_id) <> 1
			OR max(k.sequence_id) <> s.next_sequence_id - 1) x`), "0")
}

// TestCommitUnknownIsNeverSentOn tests that nothing is sent on a guess, whether the claim committed
// or not. What it took is looked up and given back as never sent, and the outcomes of that turn are
// recorded once.
func TestCommitUnknownIsNeverSentOn(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
			store := &unsure{Store: w.store, committed: committed}
			w.runWith(config(), store, w.notifier())
			w.awaitTurns(1)
			store.left.Store(3)
			var ids []payment.ID
			for n := range 12 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
			}
			for _, id := range ids {
				w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
				same(t, "sends", w.sends(id), 1)
			}
			if left := store.left.Load(); left > 0 {
				t.Errorf("%d turns are still to be lost", left)
			}
			same(t, "answers other than the one and those given back", w.text(`
				SELECT coalesce(string_agg(state || coalesce('/' || error_code, ''), ' '), '') FROM railhead.payment_outbox_attempts
				WHERE state NOT IN ('DISPATCHING', 'DISPATCHED') AND error_code IS DISTINCT FROM 'NOT_SENT'`), "")
			given := w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE error_code = 'NOT_SENT'`)
			if (given > 0) != committed {
				t.Errorf("%d claims were given back", given)
			}
			w.closeClaims()
			w.gapless()
		})
	}
}

// TestClaimCommitsAfterTheLook tests that a claim that commits after its look-up is given back too,
// as never sent.
func TestClaimCommitsAfterTheLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
	w.do(`CREATE FUNCTION public.slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END'`)
	w.do(`CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON railhead.payment_outbox_claims
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.slowly()`)
	id := w.enqueue("first") // before the relayer, so that its first turn claims it
	store := &overtaken{Store: w.store}
	store.left.Store(1)
	t.Cleanup(store.work.Wait)
	w.runWith(oneLoop(), store, w.notifier())
	w.awaitStates(id, "DISPATCHING RETRYABLE/NOT_SENT DISPATCHING DISPATCHED")
	same(t, "sends", w.sends(id), 1)
	w.closeClaims()
}

// TestAnswersOfAnUnknownCommit tests that outcomes stay in memory until the ledger has them, and
// that it has them once.
func TestAnswersOfAnUnknownCommit(t *testing.T) {
	t.Parallel()
	for _, how := range []way{lostBefore, lostMidway, lostAfter} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
			store := newFaulty(w.store)
			store.failNext("Turn with outcomes", how, 4)
			w.runWith(config(), store, w.notifier())
			for n := range 8 {
				id := w.enqueue(fmt.Sprintf("instruction-%d", n))
				w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
				same(t, "sends", w.sends(id), 1)
			}
			same(t, "turns lost", store.count("Turn with outcomes"), 4)
			w.closeClaims()
			w.gapless()
		})
	}
}

// TestKilledBackends ends the relayer's sessions repeatedly while it works.
func TestKilledBackends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	var killer sync.WaitGroup
	killer.Go(func() { w.kill(25) })
	var ids []payment.ID
	for n := range 60 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	killer.Wait()
	for _, id := range ids {
		w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
		same(t, "executions", w.executions(id), 1)
	}
	w.closeClaims()
	w.gapless()
}

// kill ends n of the relayer's sessions, a few at a time.
func (w *world) kill(sessions int) {
	conn, err := pgx.Connect(w.t.Context(), w.cell.URL(""))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(w.t.Context()))
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for killed := 0; killed < sessions; {
		select {
		case <-w.t.Context().Done():
			return
		case <-tick.C:
		}
		var n int
		if err := conn.QueryRow(w.t.Context(), `
			SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = $1`, celltest.Relayer).Scan(&n); err != nil {
			w.t.Error(err)
			return
		}
		killed += n
	}
}

// TestServersFault tests errors about the server itself, for which no row is at fault. No row is
// quarantined, and no lane stops.
func TestServersFault(t *testing.T) {
	t.Parallel()
	for what, state := range map[string]string{
		"shut down": "57P01", "starting up": "57P03", "cancelled": "57014", "link lost": "08006",
		"too many connections": "53300",
		"read only":            "25006", "lost a race": "40001", "deadlock": "40P01", "locked": "55P03",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
			store := newFaulty(w.store)
			store.refuse(&pgconn.PgError{Severity: "FATAL", Code: state})
			store.failNext("Turn", lostBefore, 4)
			store.failNext("ClaimOnly", lostBefore, 8)
			id := w.enqueue("the one")
			w.runWith(oneLoop(), store, w.notifier())
			w.awaitStates(id, "DISPATCHING DISPATCHED")
			same(t, "sends", w.sends(id), 1)
			same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 0)
		})
	}
}

// TestLateOutcomeThatCantGoIn tests that a late outcome that can't be recorded delays no other.
// After a restore the database may not have the instruction: its outcome is then only logged. An
// outcome that is refused for another reason is tried again later.
func TestLateOutcomeThatCantGoIn(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"forgotten": fmt.Errorf("%w: restored", outbox.ErrNotFound),
		"refused":   &pgconn.PgError{Code: "23514"},
		"locked":    fmt.Errorf("%w: %w", outbox.ErrLockTimeout, &pgconn.PgError{Code: "55P03"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fastProfile)
			store := &forgetful{Store: w.store, instruction: "lost", err: err}
			w.runWith(oneLoop(), store, w.notifier())
			lost := w.enqueue("lost")
			w.seen.await(t, func() error { return wantOne(w.executions(lost)) })
			w.seen.await(t, func() error { return wantOne(int(store.asked.Load())) })
			for n := range 5 {
				id := w.enqueue(fmt.Sprintf("instruction-%d", n))
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			if n := store.asked.Load(); n > 3 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
