package relayer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/relayer"
)

const neverAgain = `"resend_on_unknown": "NEVER"`

// unguarded changes what no role may change, as a restore does.
func (w *world) unguarded(sql ...string) {
	w.t.Helper()
	tx, err := w.super.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Rollback(w.t.Context())
	tables := []string{"payment_accepted_timelines", "payment_outbox_attempts", "payment_outbox_keys"}
	for _, table := range tables {
		sql = append([]string{"ALTER TABLE railhead." + table + " DISABLE TRIGGER USER"}, sql...)
		sql = append(sql, "ALTER TABLE railhead."+table+" ENABLE ALWAYS TRIGGER "+table+"_append_only")
	}
	sql = append(sql, "ALTER TABLE railhead.payment_outbox_attempts ENABLE ALWAYS TRIGGER "+
		"payment_outbox_attempts_append_only_rows")
	for _, each := range sql {
		if _, err := tx.Exec(w.t.Context(), each); err != nil {
			w.t.Fatalf("%s: %v", each, err)
		}
	}
	if err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

const (
	// What a promoted standby has: the acceptance of another timeline alone, and
	// heartbeats from another start of a server.
	otherTimeline   = `DELETE FROM railhead.payment_accepted_timelines`
	beforeThis      = `UPDATE railhead.outbox_heartbeats SET server_started_at = server_started_at - interval '1 hour'`
	forgetBeats     = `DELETE FROM railhead.outbox_heartbeats`
	forgetClaims    = `DELETE FROM railhead.payment_outbox_attempts`
	acceptedLongAgo = `UPDATE railhead.payment_accepted_timelines SET accepted_at = accepted_at - interval '1 year'`
)

func (w *world) accept() {
	w.t.Helper()
	operator := w.cell.Conn(w.t, celltest.Operator)
	if _, err := operator.Exec(w.t.Context(),
		`SELECT railhead.accept_timeline('compared with the statement of the bank', (SELECT s.opened_at FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) awaitSuspended(cause outbox.SuspensionCause) {
	w.t.Helper()
	w.awaitText(string(cause), `SELECT coalesce((SELECT cause FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL), '')`)
}

// TestFailoverSuspends tests that, whatever shows that the data went back, a rail that
// de-duplicates is claimed further, and one that does not waits until an operator has compared. A
// relayer without memory is bound by the suspension as well.
func TestFailoverSuspends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause   outbox.SuspensionCause
		forgets []string
	}{
		"another timeline":      {outbox.CauseNewTimeline, []string{otherTimeline, beforeThis}},
		"a missing heartbeat":   {outbox.CauseRowsMissing, []string{forgetBeats}},
		"a missing last claim":  {outbox.CauseRowsMissing, []string{forgetClaims}},
		"fewer beats than were": {outbox.CauseRowsMissing, []string{`UPDATE railhead.outbox_heartbeats SET beats = 0, server_started_at = server_started_at - interval '1 hour'`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain), noDedupe)
			free := newHesitant()
			close(free.goOn)
			w.second("other", free)
			w.cell.ApplyProfile("other", fastProfile)
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "state", "server.json")
			r := w.run(config)
			first := w.enqueue("before")
			w.awaitStates(first, "DISPATCHING DISPATCHED")
			w.awaitTurns(3)
			w.unguarded(c.forgets...)
			w.awaitSuspended(c.cause)
			w.seen.await(t, func() error {
				if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "timeline accept") {
					return fmt.Errorf("ready: %v", err)
				}
				return nil
			})
			forgetful := config
			forgetful.WorkerID, forgetful.StateFile = "relayer-"+payment.NewID().String(), ""
			w.run(forgetful)
			held := w.enqueue("never")
			there := w.enqueueOn("other", "same key")
			if c.forgets[0] == otherTimeline {
				w.seen.await(t, func() error {
					if w.states(there) == "" {
						return errors.New("the lane that de-duplicates stands still")
					}
					return nil
				})
			}
			w.awaitTurns(10)
			same(t, "rows of the lane that is suspended", w.states(held), "")
			w.awaitText("suspended", `SELECT status FROM railhead.outbox_heartbeats ORDER BY started_at LIMIT 1`)
			w.accept()
			w.awaitStates(held, "DISPATCHING DISPATCHED")
			w.awaitText("", `SELECT coalesce((SELECT cause FROM railhead.payment_outbox_suspensions
				WHERE accepted_at IS NULL), '')`)
			w.seen.await(t, func() error { return r.Ready() })
			w.awaitTurns(10)
			w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_suspensions`) // and it stays so
		})
	}
}

// TestMemoryOfAnEarlierStart tests that the file of an earlier start is compared before anything is
// claimed.
func TestMemoryOfAnEarlierStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause  outbox.SuspensionCause
		change func(*outbox.Remembered)
	}{
		"the log was longer":  {outbox.CauseLogWentBack, func(m *outbox.Remembered) { m.LogPosition += 1 << 30 }},
		"another server":      {outbox.CauseNewServer, func(m *outbox.Remembered) { m.SystemIdentifier = "7000000000000000000" }},
		"a later timeline":    {outbox.CauseNewTimeline, func(m *outbox.Remembered) { m.Timeline++ }},
		"a worker that beat":  {outbox.CauseRowsMissing, func(m *outbox.Remembered) { m.Name, m.Beats = "relayer-gone", 3 }},
		"a claim that it had": {outbox.CauseRowsMissing, func(m *outbox.Remembered) { m.OutboxID, m.AttemptNo, m.ClaimedAt = payment.NewID(), 1, m.SeenAt }},
		"nothing is missing":  {"", func(*outbox.Remembered) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain), noDedupe)
			server, err := w.store.CheckServer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			memory := outbox.Remembered{
				SystemIdentifier: server.SystemIdentifier, Timeline: server.Timeline, LogPosition: server.LogPosition,
				SeenAt: server.Now,
			}
			c.change(&memory)
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "server.json")
			text, err := json.Marshal(memory)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config.StateFile, text, 0o600); err != nil {
				t.Fatal(err)
			}
			w.run(config)
			id := w.enqueue("the one")
			if c.cause == "" {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
				return
			}
			w.awaitSuspended(c.cause)
			w.awaitTurns(5)
			same(t, "rows", w.states(id), "")
			same(t, "the file", read(t, config.StateFile), string(text))
		})
	}
}

// TestNoMemory tests a restarted server that no component remembers from before. A relayer that
// vouches for it is enough for those that can't.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(neverAgain), noDedupe)
	w.unguarded(acceptedLongAgo, `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
		VALUES ('relayer-before', 'relayer', 'h', 'v', 'running', now() - interval '2 days', now() - interval '1 day', true)`)
	w.run(config())
	id := w.enqueue("the one")
	w.awaitSuspended(outbox.CauseNoMemory)
	w.awaitTurns(5)
	same(t, "rows", w.states(id), "")
	w.accept()
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	w.awaitText("true", `SELECT bool_or(vouched)::text FROM railhead.outbox_heartbeats WHERE name <> 'relayer-before'`)
	other := config()
	w.run(other)
	w.awaitText("true", `SELECT coalesce((SELECT vouched FROM railhead.outbox_heartbeats WHERE name = $1), false)::text`,
		other.WorkerID)
	w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_suspensions`)
}

// TestOthersAreAwaited tests that a relayer that ran when the server went down may remember what
// this one does not, and is awaited while it may be alive.
func TestOthersAreAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(neverAgain), noDedupe)
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "server.json")
	w.unguarded(acceptedLongAgo, `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, stale_after_ms)
		VALUES ('relayer-other', 'relayer', 'h', 'v', 'running', now() - interval '2 days', 3600000000)`)
	server, err := w.store.CheckServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(outbox.Remembered{SystemIdentifier: server.SystemIdentifier, Timeline: server.Timeline,
		SeenAt: server.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.StateFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.run(config)
	id := w.enqueue("the one")
	w.awaitTurns(10)
	same(t, "rows", w.states(id), "")
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "relayer-other") {
		t.Errorf("ready: %v", err)
	}
	w.unguarded(`UPDATE railhead.outbox_heartbeats SET server_started_at = pg_postmaster_start_time()
		WHERE name = 'relayer-other'`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	same(t, "ready", r.Ready(), nil)
}

// TestSuspensionKnowsTheWindow tests that a rail that de-duplicates is claimed only while its key
// window covers the time since the newest moment in the data, however recently the old server was
// seen.
func TestSuspensionKnowsTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile) // a window of 24 h
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "server.json")
	w.run(config)
	w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
	w.unguarded(otherTimeline, `UPDATE railhead.outbox_heartbeats SET server_started_at = server_started_at - interval '1 hour', last_tick_at = last_tick_at - interval '25 hours'`)
	w.awaitSuspended(outbox.CauseNewTimeline)
	id := w.enqueue("the one")
	w.awaitTurns(10)
	same(t, "rows", w.states(id), "")
	w.accept()
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}

// TestForgottenSendIsNotTheFirst tests a payment that the bank has executed and the database has
// forgotten, with each way in which banks answer the repetition. None of them may make it FAILED;
// the rail that keeps one outcome per key ends it.
func TestForgottenSendIsNotTheFirst(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{false, true} {
		for answer, want := range map[railsim.Replay]string{
			railsim.ReplayStored: "DISPATCHED", railsim.ReplayDuplicate: "PARKED", railsim.ReplayDuplicate422: "PARKED",
			railsim.ReplayDuplicate200: "PARKED", railsim.ReplayBadRequest: "PARKED",
		} {
			t.Run(fmt.Sprintf("%s accepted=%t", answer, accepted), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, fastProfile, func(c *railsim.Config) { c.Behaviour.OnReplay = answer })
				r := w.run(config())
				id := w.enqueue("the one")
				w.awaitStates(id, "DISPATCHING DISPATCHED")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				// The claim is forgotten, and the row waits as it did.
				w.unguarded(`INSERT INTO railhead.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, created_at, headers)
					SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, enqueued_at, headers
					FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHING'`, forgetClaims, otherTimeline, beforeThis)
				if accepted {
					if err := w.store.Suspend(t.Context(), "test", outbox.CauseNewTimeline, "in a test",
						time.Now().Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
					w.accept()
				}
				again := config()
				w.run(again)
				w.awaitText(want, `SELECT coalesce((SELECT state::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
					AND state NOT IN ('DISPATCHING', 'UNKNOWN') ORDER BY attempt_no DESC LIMIT 1), '')`, [16]byte(id))
				same(t, "executions", w.executions(id), 1)
				if states := w.states(id); strings.Contains(states, "FAILED") {
					t.Errorf("it was executed and is %s", states)
				}
			})
		}
	}
}

// TestFirstSendIsStillRefused tests that, without a suspension, a refusal of the first send ends
// the payment.
func TestFirstSendIsStillRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile, func(c *railsim.Config) {
		c.Faults = []railsim.Fault{{Kind: railsim.Refuse, Probability: 1, Code: "NARR"}}
	})
	w.run(config())
	w.awaitStates(w.enqueue("the one"), "DISPATCHING FAILED")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDamagedStateFile tests that a damaged file refuses the start with a remedy: a guess about the
// server's identity could pay twice. So does a folder that is not writable.
func TestDamagedStateFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	for name, text := range map[string]string{
		"cut off": `{"system_identifier": "71`, "empty": "", "no object": "null", "of no server": "{}",
		"noise": "\x00\x01\x02",
	} {
		config := config()
		config.StateFile = filepath.Join(t.TempDir(), "server.json")
		if err := os.WriteFile(config.StateFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := relayer.New(config, w.store, lostNotifier{}, w.open, w.seen, w.log)
		if err == nil || !strings.Contains(err.Error(), config.StateFile+" is damaged") ||
			!strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "file", "server.json")
	if err := os.WriteFile(filepath.Dir(config.StateFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := relayer.New(config, w.store, lostNotifier{}, w.open, w.seen, w.log); err == nil ||
		!strings.Contains(err.Error(), "RAILHEAD_STATE_DIR") {
		t.Errorf("no folder: %v", err)
	}
}

// TestStateThatCantBeSaved tests that a failure to save stops neither outcomes nor what is claimed
// after it.
func TestStateThatCantBeSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	bank := newHesitant()
	w.wrap = bank.around
	config := config()
	folder := filepath.Join(t.TempDir(), "state")
	config.StateFile = filepath.Join(folder, "server.json")
	w.run(config)
	before := w.enqueue("before")
	<-bank.arrived
	bank.goOn <- struct{}{}
	w.awaitStates(before, "DISPATCHING DISPATCHED")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.awaitBeats(2) // later than the last claim that was saved, so that the next one has to be
	inHand := w.enqueue("in hand")
	<-bank.arrived
	w.awaitBeats(2) // the server is looked at meanwhile
	close(bank.goOn)
	w.awaitStates(inHand, "DISPATCHING DISPATCHED")
	w.awaitStates(w.enqueue("after"), "DISPATCHING DISPATCHED")
	for _, kind := range relayer.Failures() {
		same(t, "turns that failed: "+string(kind), w.seen.count("failed "+string(kind)), 0)
	}
}

// awaitBeats waits for n more heartbeats, between which the server is checked.
func (w *world) awaitBeats(n int) {
	w.t.Helper()
	const beats = `SELECT sum(beats) FROM railhead.outbox_heartbeats`
	before := w.cell.Int(beats)
	w.seen.await(w.t, func() error {
		if got := w.cell.Int(beats); got < before+n {
			return fmt.Errorf("%d heartbeats more, want %d", got-before, n)
		}
		return nil
	})
}

// namesServer records claims that do not name the server that they were decided for.
type namesServer struct {
	relayer.Store
	nameless atomic.Int64
}

func (s *namesServer) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	if len(turn.Claim.Lanes) > 0 && turn.Claim.Server.SystemIdentifier == "" {
		s.nameless.Add(1)
	}
	return s.Store.Turn(ctx, turn)
}

// TestClaimNamesItsServer tests that lanes that were free on one server are claimed on no other.
func TestClaimNamesItsServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	store := &namesServer{Store: w.store}
	w.runWith(config(), store, w.notifier())
	w.awaitStates(w.enqueue("the one"), "DISPATCHING DISPATCHED")
	same(t, "claims that name no server", store.nameless.Load(), 0)
}
