package ledger_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
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
		SELECT k || ':of before', k, 'h', 'v', 'running', 9223372036854775807 FROM unnest(ARRAY['relayer', 'callback']) k`)
	for _, sql := range []string{`v_queue_health`, `v_lanes`, `recall_memory(NULL, NULL, NULL, NULL, NULL, NULL, 'other')`} {
		if _, err := d.super.Exec(t.Context(), `SELECT * FROM railhead.`+sql); err != nil {
			t.Errorf("%s, with a component that is stale after 292 million years: %v", sql, err)
		}
	}
}

// TestBeatsOfNewNames: a new name is taken while fewer than a thousand of its kind run. Those that beat already go on,
// and so do other kinds.
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

// TestBeatsOfRestarts: what stops or dies and starts under another name, again and again, keeps out no new name for
// an hour. There is a bound on all names of a kind within the hour.
func TestBeatsOfRestarts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for function, by := range beatsOfOthers {
		conn := d.Conn(t, by.login)
		restarts := func(name, status string, count int) {
			t.Helper()
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at)
				SELECT $1 || ':' || $2 || n, $1, 'h', 'v', $3, now() - interval '11 minutes' FROM generate_series(1, $4::int) n`,
				by.kind, name, status, count)
		}
		restarts("died-", "running", 1000)
		if _, err := beatBy(t, conn, function, "after those that died", 0); err != nil {
			t.Error(err)
		}
		restarts("stopped-", "stopped", 2998)
		d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() WHERE status = 'stopped' AND kind = $1`, by.kind)
		if _, err := beatBy(t, conn, function, "after those that stopped", 0); err != nil {
			t.Error(err)
		}
		if _, err := beatBy(t, conn, function, "the 4001st name", 0); ledger.SQLState(err) != "RH005" {
			t.Errorf("%s of the 4001st name: %v, want RH005", function, err)
		}
		if rows, err := beatBy(t, conn, function, "stopped-7", 0); err != nil || rows != 1 {
			t.Errorf("%s of a name that has beaten: %d rows, %v", function, rows, err)
		}
	}
}

// TestBeatsPushOutNoOthers: however many components of one kind have beaten, those of the others are counted and shown.
func TestBeatsPushOutNoOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const many = `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status)
		SELECT 'callback:flood-' || n, 'callback', 'h', 'v', 'running' FROM generate_series($1::int, $2::int) n`
	d.do(many, 1, 12_000)
	for _, kind := range []string{"relayer", "reaper", "events"} {
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at)
			VALUES ($1 || ':1', $1, 'h', 'v', 'running', now() - interval '1 second')`, kind)
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
