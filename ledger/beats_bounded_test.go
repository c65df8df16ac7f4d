package ledger_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// beatsOfOthers are the functions by which a login that has no table beats, with the kind of its rows.
var beatsOfOthers = map[string]struct{ login, kind string }{
	"beat_api":       {celltest.API, "ingest"},
	"beat_callbacks": {celltest.Callbacks, "callback"},
	"beat_events":    {celltest.Events, "events"},
}

func beatBy(t *testing.T, conn *pgx.Conn, function, name string, staleAfterMS int64) (rows int64, err error) {
	t.Helper()
	tag, err := conn.Exec(t.Context(), `SELECT FROM railhead.`+function+`($1, 'h', 'v', 'running', 'x', $2, clock_timestamp(), NULL, false)`,
		name, staleAfterMS)
	return tag.RowsAffected(), err
}

// TestBeatsAreBounded: what a login that the Internet reaches says in a heartbeat breaks no view of an operator.
func TestBeatsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for function, by := range beatsOfOthers {
		conn := d.Conn(t, by.login)
		for _, c := range []struct {
			name  string
			stale int64
			want  string
		}{
			{"a", math.MaxInt64, "RH002"}, {"a", 86_400_001, "RH002"}, {"a", -1, "RH002"}, {"", 1, "RH002"},
			{strings.Repeat("n", 201), 1, "RH002"}, {strings.Repeat("n", 200), 86_400_000, ""}, {"a " + by.kind, 0, ""},
		} {
			_, err := beatBy(t, conn, function, c.name, c.stale)
			same(t, fmt.Sprintf("%s of %.3q, stale after %d", function, c.name, c.stale), ledger.SQLState(err), c.want)
		}
		_, err := conn.Exec(t.Context(), `SELECT railhead.`+function+`($1, repeat('h', 100000), repeat('v', 100000), 'running',
			repeat('a', 100000), 60000, clock_timestamp(), NULL, false)`, "long "+by.kind)
		d.must(err)
	}
	same(t, "bytes of the longest heartbeat", d.text(`SELECT (max(length(h.host || h.version || h.activity)) < 2000)::text
		FROM railhead.outbox_heartbeats h`), "true")
	// A row of before: it is no reason for a view to fail.
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, stale_after_ms)
		SELECT k || ' of before', k, 'h', 'v', 'running', 9223372036854775807 FROM unnest(ARRAY['relayer', 'callback']) k`)
	for _, sql := range []string{`v_queue_health`, `v_lanes`, `recall_memory(NULL, NULL, NULL, NULL, NULL, NULL, 'other')`} {
		if _, err := d.super.Exec(t.Context(), `SELECT * FROM railhead.`+sql); err != nil {
			t.Errorf("%s, with a component that is stale after 292 million years: %v", sql, err)
		}
	}
}

// TestBeatsOfNewNames: a kind has at most a thousand new names in an hour. Those that beat already go on, and so
// do other kinds.
func TestBeatsOfNewNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for function, by := range beatsOfOthers {
		conn := d.Conn(t, by.login)
		flood := func(count int) error {
			_, err := conn.Exec(t.Context(), `SELECT railhead.`+function+`($1 || n, 'h', 'v', 'running', 'x', 0, clock_timestamp(), NULL, false)
				FROM generate_series(1, $2::int) n`, by.kind, count)
			return err
		}
		if err := flood(1001); ledger.SQLState(err) != "RH005" {
			t.Errorf("%s of 1001 names: %v, want RH005", function, err)
		}
		d.must(flood(1000))
		if _, err := beatBy(t, conn, function, "one more", 0); ledger.SQLState(err) != "RH005" {
			t.Errorf("%s of one name more: %v, want RH005", function, err)
		}
		if rows, err := beatBy(t, conn, function, by.kind+"7", 0); err != nil || rows != 1 {
			t.Errorf("%s of a name that has beaten: %d rows, %v", function, rows, err)
		}
	}
	d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '61 minutes' WHERE kind = 'callback'`)
	if _, err := beatBy(t, d.Conn(t, celltest.Callbacks), "beat_callbacks", "an hour later", 0); err != nil {
		t.Error(err)
	}
}

// TestBeatsPushOutNoOthers: however many components of one kind have beaten, those of the others are counted and shown.
func TestBeatsPushOutNoOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const many = `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status)
		SELECT 'flood-' || n, 'callback', 'h', 'v', 'running' FROM generate_series($1::int, $2::int) n`
	d.do(many, 1, 12_000)
	for _, kind := range []string{"relayer", "reaper", "events"} {
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at)
			VALUES ($1, $1, 'h', 'v', 'running', now() - interval '1 second')`, kind)
	}
	d.do(many, 12_001, 24_000)
	count := make(map[string]int64)
	for _, each := range gaugesAs(t, d.Cell, celltest.Relayer).Components {
		count[each.Kind] += int64(each.Count)
	}
	same(t, "components of the gauges", fmt.Sprint(count), "map[callback:10000 events:1 reaper:1 relayer:1]")
	status, err := openReader(t, d.Cell).Status(t.Context())
	d.must(err)
	var shown []string
	for _, beat := range status.Heartbeats {
		if beat.Kind == "relayer" || beat.Kind == "reaper" {
			shown = append(shown, beat.Kind)
		}
	}
	if len(shown) != 2 {
		t.Errorf("the status shows %d relayers and reapers, %q, want one of each", len(shown), shown)
	}
}

// TestNameThatAnotherKindTook: a relayer or a reaper beats under its own name, also where a component that the Internet
// reaches has beaten under it before, which then can't any more; and such a component holds no lock of a worker's row.
func TestNameThatAnotherKindTook(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for function, by := range beatsOfOthers {
		conn := d.Conn(t, by.login)
		for _, kind := range []string{"relayer", "reaper"} {
			name := kind + " and " + function
			for range 3 {
				_, err := beatBy(t, conn, function, name, 0)
				d.must(err)
			}
			beat := outbox.Heartbeat{Name: name, Kind: kind, Host: "h", Version: "v", Status: "running"}
			if pulse, err := d.exec.Heartbeat(t.Context(), beat); err != nil || pulse.Beats != 1 {
				t.Errorf("%s under a name that %s has taken: %+v, %v; want its first heartbeat", kind, function, pulse, err)
			}
			mustExec(t, conn, `BEGIN`)
			if rows, err := beatBy(t, conn, function, name, 0); err != nil || rows != 0 {
				t.Errorf("%s under the name of a %s: %d rows, %v; want none", function, kind, rows, err)
			}
			same(t, "locks of the row of a "+kind, d.text(`SELECT count(*)::text FROM (
				SELECT FROM railhead.outbox_heartbeats h WHERE h.name = $1 FOR UPDATE SKIP LOCKED) free`, name), "1")
			mustExec(t, conn, `ROLLBACK`)
		}
	}
}
