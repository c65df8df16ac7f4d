package relayer_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// TestRestartedBeforeItWasSeen restores a storage snapshot that is older than the rail's key
// window. Before any relayer checks the server it is restarted, and meanwhile callers enqueue, or a
// heartbeat is recorded. The lane is suspended nevertheless: those rows prove nothing about the
// time before the restore.
func TestRestartedBeforeItWasSeen(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		between func(w *world, door *executor.Executor) // on the restored server, before it is started again
		crash   bool
		again   bool
		standby bool
	}{
		"started once": {},
		"a relayer that waits for others, then a plain restart": {again: true},
		"started twice, nothing between":                        {again: true},
		"a caller, then a crash":                                {between: func(w *world, _ *executor.Executor) { w.enqueue("meanwhile") }, crash: true, again: true},
		"a caller, then a failover to a standby":                {between: func(w *world, _ *executor.Executor) { w.enqueue("meanwhile") }, crash: true, again: true, standby: true},
		"the API's heartbeat, then a plain restart": {again: true, between: func(w *world, store *executor.Executor) {
			_, err := store.Heartbeat(w.t.Context(), outbox.Heartbeat{Name: "ingest:api-1", Kind: "ingest", Host: "h",
				Version: "v", Status: "running"})
			if err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const window = 6 * time.Second
			srv, cluster := pgtest.Server(t, pgserver.Options{})
			w := &world{t: t, cell: celltest.On(t, cluster), seen: newWitness(), log: testLog(t)}
			bank, err := railsim.New(railsim.Config{LedgerPath: filepath.Join(t.TempDir(), "bank.jsonl"), KeyWindow: window})
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go bank.Serve(listener)
			t.Cleanup(func() { bank.Close() })
			w.bank, w.url = bank, "http://"+listener.Addr().String()
			w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "SAME_KEY", "key_window": "6s", "answer_covers_key": true, "id_after_refusal": "NEW"`))
			w.cell.SetTimeBudget(budget())
			open := func() *executor.Executor {
				t.Helper()
				store, err := executor.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema,
					Name: "test-relayer"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(store.Close)
				w.super, w.ingest = w.cell.Conn(t, ""), nil
				return store
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			w.store = open()
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "server.json")
			r := w.run(config)
			w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
			must(r.stop())
			id := w.enqueue("the one")
			w.railKey(id)

			// The snapshot.
			must(srv.Halt(t.Context()))
			image := srv.DataDir() + ".image"
			must(exec.CommandContext(t.Context(), "cp", "-a", srv.DataDir(), image).Run())
			t.Cleanup(func() { os.RemoveAll(image) })
			must(srv.Restart(t.Context()))

			// What it will have forgotten.
			w.store = open()
			r = w.run(config)
			w.awaitStates(id, "DISPATCHING DISPATCHED")
			must(r.stop())
			same(t, "executions", w.executions(id), 1)
			time.Sleep(window + time.Second)

			// It is put back.
			must(srv.Kill9())
			must(os.RemoveAll(srv.DataDir()))
			must(exec.CommandContext(t.Context(), "cp", "-a", image, srv.DataDir()).Run())
			if err := os.Remove(filepath.Join(srv.DataDir(), "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			must(srv.Restart(t.Context()))
			w.store = open()
			restored := w.text(`SELECT max(last_tick_at)::text FROM railhead.outbox_heartbeats`)
			if c.between != nil {
				c.between(w, w.store)
			}
			if what == "a relayer that waits for others, then a plain restart" {
				forgetful := config
				forgetful.WorkerID, forgetful.StateFile = "relayer-forgetful", ""
				waits := w.run(forgetful)
				w.awaitText("suspended", `SELECT status FROM railhead.outbox_heartbeats WHERE name = 'relayer-forgetful'`)
				must(waits.stop())
				same(t, "suspensions", w.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions`), "0")
			}
			if c.again && c.crash {
				must(srv.Kill9())
			}
			if c.standby { // what was replicated of the restored server, up to its end, goes on as its standby
				must(os.WriteFile(filepath.Join(srv.DataDir(), "standby.signal"), nil, 0o644))
			}
			if c.again {
				must(srv.Restart(t.Context()))
				w.store = open()
			}
			if c.standby {
				same(t, "promoted", w.text(`SELECT pg_promote()::text`), "true")
			}

			w.run(config)
			w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`)
			t.Logf("newest heartbeat of the restored data %s, %s", restored,
				w.text(`SELECT format('%s, known_until %s, opened %s', cause, known_until, opened_at)
					FROM railhead.payment_outbox_suspensions`))
			w.awaitTurns(20)
			same(t, "rows of the payment", w.states(id), "")
			same(t, "executions by the bank's ledger", w.executions(id), 1)
		})
	}
}

// TestAcceptedByAClockThatWasAhead tests that the file of an earlier start is compared before
// anything is claimed, also if the server was accepted while its clock was ahead.
func TestAcceptedByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for what, at := range map[string]string{"long ago": "-1 year", "by a clock that was ahead": "1 hour"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain), noDedupe)
			server, err := w.store.CheckServer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.unguarded(`UPDATE railhead.payment_accepted_timelines SET accepted_at = clock_timestamp() + interval '` + at + `'`)
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "server.json")
			text, err := json.Marshal(outbox.Remembered{
				SystemIdentifier: server.SystemIdentifier, Timeline: server.Timeline, LogPosition: server.LogPosition + 1<<30,
				SeenAt: server.Now,
				Name:   "relayer-gone", Beats: 9, OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: server.Now,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config.StateFile, text, 0o600); err != nil {
				t.Fatal(err)
			}
			w.run(config)
			id := w.enqueue("the one")
			w.awaitTurns(20)
			same(t, "rows", w.states(id), "")
			same(t, "suspensions", w.text(`SELECT coalesce(string_agg(cause, ' '), '')
				FROM railhead.payment_outbox_suspensions`), "LOG_WENT_BACK")
		})
	}
}

// TestOthersAreAwaitedBehindTheAPI is like TestOthersAreAwaited. Between the end of the server on
// which the other relayer ran and this start there was another start, which no relayer has seen,
// and on which a heartbeat of the API was recorded, or one of a reaper that has not compared it.
func TestOthersAreAwaitedBehindTheAPI(t *testing.T) {
	t.Parallel()
	for what, api := range map[string]string{
		"no other start": "",
		"the API's heartbeat on another start": `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at)
			VALUES ('ingest:api-1', 'ingest', 'h', 'v', 'running', now() - interval '40 seconds', now() - interval '5 seconds')`,
		"a reaper's heartbeat on it": `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at)
			VALUES ('reaper-1', 'reaper', 'h', 'v', 'running', now() - interval '40 seconds', now() - interval '5 seconds')`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain), noDedupe)
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "server.json")
			w.unguarded(acceptedLongAgo, `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, stale_after_ms, vouched)
				VALUES ('relayer-other', 'relayer', 'h', 'v', 'running', now() - interval '2 days', now() - interval '1 minute', 20000, true)`)
			if api != "" {
				w.unguarded(api)
			}
			server, err := w.store.CheckServer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(outbox.Remembered{SystemIdentifier: server.SystemIdentifier, Timeline: server.Timeline,
				SeenAt: server.Now.Add(-2 * time.Minute)})
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
		})
	}
}
