package ledger_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func heartbeat(name, kind string) outbox.Heartbeat {
	return outbox.Heartbeat{Name: name, Kind: kind, Host: "h", Version: "v", Status: "running"}
}

// TestOneNameForSeveralKinds: components of several kinds that were given one name beat each on its own, and none of
// them finds that its heartbeats are missing. They are shown under the name that they were given.
func TestOneNameForSeveralKinds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reports := openCallbacks(t, d.Cell)
	guard, err := lineage.New(lineage.Config{Name: "gw-1", File: filepath.Join(t.TempDir(), "m")}, reports,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	d.must(err)
	beat := heartbeat("gw-1", "callback")
	endpoint := func(times int64) {
		t.Helper()
		for range times {
			d.must(guard.Look(t.Context()))
			pulse, err := reports.Heartbeat(t.Context(), guard.Beat(beat))
			d.must(err)
			guard.Beaten(pulse.Beats)
		}
		d.must(guard.Look(t.Context()))
		same(t, "why the endpoint does not go on", guard.Reason(), "")
	}
	endpoint(5)
	for _, function := range []string{"beat_api", "beat_events"} {
		rows, err := beatBy(t, d.Conn(t, beatsOfOthers[function].login), function, "gw-1", 0)
		same(t, "heartbeats of "+function, rows, 1)
		d.must(err)
	}
	relayer := beat
	relayer.Kind = "relayer"
	for want := range int64(3) {
		pulse, err := d.exec.Heartbeat(t.Context(), relayer)
		d.must(err)
		same(t, "heartbeats of the relayer", pulse.Beats, want+1)
		endpoint(1)
	}
	same(t, "suspensions", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions`), "0")
	same(t, "components", d.text(`SELECT string_agg(v.name || ' ' || v.kind, ', ' ORDER BY v.kind) FROM railhead.v_queue_health v
		WHERE v.scope = 'component'`), "gw-1 callback, gw-1 events, gw-1 ingest, gw-1 relayer")
	status, err := openReader(t, d.Cell).Status(t.Context())
	d.must(err)
	same(t, "components of the status", len(status.Heartbeats), 4)
	for _, each := range status.Heartbeats {
		same(t, "the name of a "+each.Kind, each.Name, "gw-1")
	}
}

// TestNameGivenToAnotherKind: an endpoint for callbacks that goes on under a new name finds the heartbeats of its old
// one, which a relayer has now, and those of the relayer are none of its own. So does one of a build of before
// migration 44, which gives its plain name; for a relayer those of an endpoint are none of its own either.
func TestNameGivenToAnotherKind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reports, beat := openCallbacks(t, d.Cell), heartbeat("pay-1", "callback")
	for range 5 {
		_, err := reports.Heartbeat(t.Context(), beat)
		d.must(err)
	}
	beat.Kind = "relayer"
	for range 2 {
		_, err := d.exec.Heartbeat(t.Context(), beat)
		d.must(err)
	}
	for _, c := range []struct {
		beats               int64
		endpoint, older, of bool // whether they are missing: for an endpoint, for one of an older build, for a relayer
	}{{2, false, false, false}, {5, false, false, true}, {6, true, true, true}} {
		memory := outbox.Remembered{Name: "pay-1", Beats: c.beats, SeenAt: time.Now()}
		recall, err := reports.Recall(t.Context(), "pay-2", memory)
		d.must(err)
		same(t, "missing for the endpoint", recall.BeatsMissing, c.endpoint)
		recall, err = d.exec.Recall(t.Context(), "pay-2", memory)
		d.must(err)
		same(t, "missing for a relayer", recall.BeatsMissing, c.of)
		var missing bool
		d.must(d.Conn(t, celltest.Callbacks).QueryRow(t.Context(), `SELECT beats_missing
			FROM railhead.recall_memory('pay-1', $1, now(), NULL, NULL, NULL, 'pay-2')`, c.beats).Scan(&missing))
		same(t, "missing for an endpoint of an older build", missing, c.older)
	}
	for range 5 {
		_, err := d.exec.Heartbeat(t.Context(), beat)
		d.must(err)
	}
	lost, err := reports.Recall(t.Context(), "pay-2", outbox.Remembered{Name: "pay-1", Beats: 6, SeenAt: time.Now()})
	d.must(err)
	same(t, "missing, though the relayer has as many", lost.BeatsMissing, true)
	// A relayer of its name, for which it has to wait after a start of the server, is another component.
	d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = server_started_at - interval '1 day', vouched = true`)
	recall, err := reports.Recall(t.Context(), "pay-1", outbox.Remembered{})
	d.must(err)
	same(t, "relayers that an endpoint waits for", len(recall.Awaited), 1)
}

// TestEndpointsHideNoLostHeartbeats: a relayer whose login may take callbacks as well, or everything, has a row in a
// snapshot that was put back; the heartbeats of an endpoint of its name are none of its own.
func TestEndpointsHideNoLostHeartbeats(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	both := "both_" + strings.ReplaceAll(payment.NewID().String(), "-", "_")
	d.do(`CREATE ROLE ` + both + ` LOGIN IN ROLE railhead_executor, railhead_callbacks`)
	t.Cleanup(func() { d.super.Exec(context.Background(), `DROP ROLE `+both) })
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, beats) VALUES
		('gw-1', 'relayer', 'h', 'v', 'running', 10), ('callback:gw-1', 'callback', 'h', 'v', 'running', 5000)`)
	for login, missing := range map[string]bool{celltest.Relayer: true, both: true, "": true, celltest.Callbacks: false} {
		var is bool
		d.must(d.Conn(t, login).QueryRow(t.Context(), `SELECT beats_missing
			FROM railhead.recall_memory('gw-1', 1000, now(), NULL, NULL, NULL, 'gw-1')`).Scan(&is))
		same(t, "missing for the login "+login, is, missing)
	}
}

// TestRowsAreNamedByKind: a function of before migration 44 that a heartbeat still runs writes no row.
func TestRowsAreNamedByKind(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for kind, want := range map[string]string{"callback": "23514", "ingest": "23514", "events": "23514", "relayer": ""} {
		_, err := d.super.Exec(t.Context(), `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status)
			VALUES ('plain', $1, 'h', 'v', 'running')`, kind)
		same(t, "a row of kind "+kind+" with a plain name", ledger.SQLState(err), want)
	}
}

// TestNameOfARelayerIsNotHeld: a login for callbacks, events or the API takes no name of a relayer or a reaper, and
// holds no lock for which its heartbeat waits: neither before the first heartbeat nor after it, nor where the relayer
// has a name like those of the rows of others.
func TestNameOfARelayerIsNotHeld(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for function, by := range beatsOfOthers {
		conn := d.Conn(t, by.login)
		for _, kind := range []string{"relayer", "reaper"} {
			name := kind + " and " + function
			beat := func(what, name string, want int64) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				pulse, err := d.exec.Heartbeat(ctx, heartbeat(name, kind))
				if err != nil || pulse.Beats != want {
					t.Errorf("%s %s: %+v, %v; want heartbeat %d", what, name, pulse, err, want)
				}
			}
			mustExec(t, conn, `BEGIN`)
			_, err := beatBy(t, conn, function, name, 0)
			d.must(err)
			beat("in the open transaction of another:", name, 1)
			mustExec(t, conn, `COMMIT`)
			beat("after the heartbeat of another:", name, 2)
			mustExec(t, conn, `BEGIN`)
			_, err = beatBy(t, conn, function, name, 0)
			d.must(err)
			beat("while the row of another is locked:", name, 3)
			mustExec(t, conn, `ROLLBACK`)

			odd := by.kind + ":" + kind
			beat("a name as of another:", odd, 1)
			mustExec(t, conn, `BEGIN`)
			if rows, err := beatBy(t, conn, function, kind, 0); err != nil || rows != 0 {
				t.Errorf("%s under the name of the row of a %s: %d rows, %v; want none", function, kind, rows, err)
			}
			beat("while another wants its name:", odd, 2)
			mustExec(t, conn, `ROLLBACK`)
		}
	}
}

// TestForgetsWhatIsNotHeld: a reaper forgets in one turn all the names that logins for callbacks, events and the API
// may invent in an hour, and waits for none of their transactions.
func TestForgetsWhatIsNotHeld(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at)
		SELECT k || ':' || n, k, 'h', 'v', 'running', now() - interval '25 hours'
		FROM generate_series(1, 4000) n CROSS JOIN unnest(ARRAY['callback', 'ingest', 'events']) k`)
	conn := d.Conn(t, celltest.Callbacks)
	mustExec(t, conn, `BEGIN`)
	_, err := beatBy(t, conn, "beat_callbacks", "7", 0)
	d.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	forgotten, err := d.exec.ForgetHeartbeats(ctx, 24*time.Hour)
	d.must(err)
	same(t, "forgotten", forgotten, 11_999)
	mustExec(t, conn, `COMMIT`)
	same(t, "left", d.text(`SELECT string_agg(h.name, ', ') FROM railhead.outbox_heartbeats h`), "callback:7")
}

// TestCrashForgetsNoMemory: where a login has synchronous_commit off, a crash takes back neither a heartbeat that a
// component remembers, which would suspend the lanes, nor where a new endpoint of events begins.
func TestCrashForgetsNoMemory(t *testing.T) {
	t.Parallel()
	server, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	cell.Exec(`ALTER SYSTEM SET wal_writer_delay = '10s'`)
	cell.Exec(`SELECT pg_reload_conf()`)
	for _, login := range []string{celltest.Events, celltest.Callbacks, celltest.Relayer} {
		cell.Exec(`ALTER ROLE ` + login + ` SET synchronous_commit = off`)
	}
	// The last commit that waits is that of another, each time.
	for what, do := range map[string]func() error{
		"the endpoint": func() error {
			_, err := cell.Conn(t, celltest.Events).Exec(t.Context(),
				`SELECT FROM railhead.take_event_endpoint('shop', 'events-1', 60000, NULL)`)
			return err
		},
		"the heartbeat of callbacks": func() error {
			_, err := openCallbacks(t, cell).Heartbeat(t.Context(), heartbeat("c", "callback"))
			return err
		},
		"the heartbeat of a relayer": func() error {
			_, err := openExecutor(t, cell).Heartbeat(t.Context(), heartbeat("r", "relayer"))
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := server.Kill9(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := pgx.Connect(t.Context(), cell.URL(""))
		if err != nil {
			t.Fatal(err)
		}
		var kept bool
		err = again.QueryRow(t.Context(), map[string]string{
			"the endpoint":               `SELECT EXISTS (SELECT FROM railhead.payment_event_endpoints)`,
			"the heartbeat of callbacks": `SELECT EXISTS (SELECT FROM railhead.outbox_heartbeats WHERE kind = 'callback')`,
			"the heartbeat of a relayer": `SELECT EXISTS (SELECT FROM railhead.outbox_heartbeats WHERE kind = 'relayer')`,
		}[what]).Scan(&kept)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, what+" is kept", kept, true)
	}
}
