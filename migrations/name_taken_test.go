package migrations_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/migrations"
)

// TestNameTaken: where a relayer has the name that migration 44 gives to an endpoint, the error says so and where to
// read on, and after the statements of that page the migration is applied.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	celltest.New(t)
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(all, func(m migrations.Migration) bool { return m.Version == 44 })
	if err := migrations.UpTo(t.Context(), config, "railhead", all, all[n-1].Version); err != nil {
		t.Fatal(err)
	}
	conn := db.Conn(t, "")
	do := func(sql string) (rows int64) {
		t.Helper()
		done, err := conn.Exec(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return done.RowsAffected()
	}
	do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at) VALUES
		('callback:gw-1', 'relayer', 'h', 'v', 'running', clock_timestamp()),
		('events:gw-1', 'reaper', 'h', 'v', 'stopped', clock_timestamp()),
		('callback:gw-2', 'relayer', 'h', 'v', 'stopped', clock_timestamp()),
		('gw-1', 'callback', 'h', 'v', 'running', clock_timestamp()),
		('callback:gw-3', 'events', 'h', 'v', 'running', clock_timestamp()),
		('gw-3', 'callback', 'h', 'v', 'running', clock_timestamp()),
		('gw-1-of-events', 'events', 'h', 'v', 'running', clock_timestamp())`)
	_, section, _ := strings.Cut(read(t, "../docs/upgrades.md"), "### Names of heartbeats\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d statements", len(blocks))
	}
	look, free := blocks[0][1], blocks[1][1]
	if rows := do(look); rows != 1 {
		t.Errorf("%d names are taken, want callback:gw-1 alone", rows)
	}
	_, err = migrations.Up(t.Context(), config, "railhead")
	const want = `a relayer or a reaper has the name that the heartbeats of a component of another kind get by migration 44 ` +
		`(Key (name)=(callback:gw-1) already exists.): docs/upgrades.md, "Names of heartbeats"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if rows := do(free); rows != 0 {
		t.Errorf("%d rows of what runs were removed", rows)
	}
	do(`UPDATE railhead.outbox_heartbeats SET status = 'stopped' WHERE name = 'callback:gw-1'`)
	do(`INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, outbox_ids, attempt_nos)
		VALUES (gen_random_uuid(), 'callback:gw-1', ARRAY[gen_random_uuid()], '{1}')`)
	if rows := do(free); rows != 0 {
		t.Errorf("%d rows of what has claims were removed", rows)
	}
	do(`DELETE FROM railhead.payment_outbox_claims`)
	if rows := do(free); rows != 1 {
		t.Errorf("%d rows were removed, want that of callback:gw-1", rows)
	}
	if rows := do(look); rows != 0 {
		t.Errorf("%d names are taken after that", rows)
	}
	if _, err := migrations.Up(t.Context(), config, "railhead"); err != nil {
		t.Errorf("after the statements of the page: %v", err)
	}
}
