package migrations_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/payment"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestDump compares the schema with the committed one, so that every change of
// it shows up as a difference to be reviewed.
func TestDump(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, "")
	if _, err := conn.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	got, err := migrations.Dump(t.Context(), conn, cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "schema.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the schema is not the committed one; review the difference, then run go test ./migrations -update "+
			"(-want +got):\n%s", diff)
	}
}

// emptyDatabase is a database with the roles and nothing else.
func emptyDatabase(t *testing.T) *pgtest.DB {
	t.Helper()
	celltest.New(t) // the roles are the cluster's: made once, under the template's lock
	return pgtest.New(t)
}

func TestUpTwiceAndFromManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	steps := make([]int, 8)
	for n := range steps {
		wg.Go(func() {
			taken, err := migrations.Up(t.Context(), config.Copy(), "railhead")
			if err != nil {
				t.Errorf("migrator %d: %v", n, err)
			}
			steps[n] = len(taken.Steps)
		})
	}
	wg.Wait()
	total := 0
	for _, n := range steps {
		total += n
	}
	if total != len(all) {
		t.Errorf("%d steps were taken in all, want each of %d once", total, len(all))
	}
	again, err := migrations.Up(t.Context(), config, "railhead")
	if err != nil || len(again.Steps) != 0 || len(again.Restored) != 0 || again.Baselined {
		t.Errorf("once more: %+v, %v; want nothing changed", again, err)
	}
	status, err := migrations.Status(t.Context(), config, "railhead")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range status {
		if !step.Applied || step.Name == "" {
			t.Errorf("status of %d %q: not applied", step.Version, step.Name)
		}
	}
}

func TestSeveralCellsInOneDatabase(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	conn := db.Conn(t, "")
	dumps := map[string]string{}
	for _, cell := range []string{"north", "south"} {
		if changes, err := migrations.Up(t.Context(), config.Copy(), cell); err != nil || len(changes.Restored) > 0 {
			t.Fatalf("%+v, %v; want nothing restored in a new cell", changes, err)
		}
		if err := acl.Apply(t.Context(), conn, cell); err != nil {
			t.Fatal(err)
		}
		dump, err := migrations.Dump(t.Context(), conn, cell)
		if err != nil {
			t.Fatal(err)
		}
		if other := map[string]string{"north": "south", "south": "north"}[cell]; strings.Contains(dump, other) {
			t.Errorf("cell %s names %s", cell, other)
		}
		dumps[cell] = strings.ReplaceAll(dump, cell, "CELL")
	}
	// Bodies hold the cell's name, so their digests differ.
	if a, b := withoutDigests(dumps["north"]), withoutDigests(dumps["south"]); a != b {
		t.Errorf("the cells differ:\n%s", cmp.Diff(a, b))
	}
}

func withoutDigests(dump string) string {
	lines := strings.Split(dump, "\n")
	for i, line := range lines {
		if at := strings.LastIndex(line, ", body "); at >= 0 {
			lines[i] = line[:at]
		}
	}
	return strings.Join(lines, "\n")
}

func TestBadCells(t *testing.T) {
	t.Parallel()
	for _, cell := range []string{"", "Railhead", "1st", "a-b", "pg_x", "public", `x"; DROP`, strings.Repeat("a", 41)} {
		if err := migrations.CheckCell(cell); err == nil {
			t.Errorf("%q is taken as a cell", cell)
		}
	}
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), config, "select"); err == nil ||
		!strings.Contains(err.Error(), "word of SQL") {
		t.Errorf("a cell named select: %v", err)
	}
}

// TestCurrencies holds the table in the schema to the table in Go.
func TestCurrencies(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	rows, err := cell.Conn(t, "").Query(t.Context(), "SELECT code, exponent FROM railhead.payment_currencies")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]payment.Currency{}
	var code string
	var exponent int
	if _, err := pgx.ForEachRow(rows, []any{&code, &exponent}, func() error {
		got[code] = payment.Currency{Code: code, Exponent: exponent}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(payment.Currencies(), got); diff != "" {
		t.Error(diff)
	}
}

// TestFingerprint holds the schema's fingerprint to Go's: the sender compares them.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, "")
	for _, payload := range []string{`{}`, `{"b": 1e2, "a": "ü\u20ac", "n": {"x": [1.10, null, true]}}`, `{"amount":"10.50",   "currency":"EUR"}`} {
		var text string
		var sum []byte
		err := conn.QueryRow(t.Context(),
			"SELECT $1::jsonb::text, railhead.payment_outbox_fingerprint('p é', 'bank', $1::jsonb)", payload).Scan(&text, &sum)
		if err != nil {
			t.Fatal(err)
		}
		if want := payment.Fingerprint("p é", "bank", []byte(text)); string(want[:]) != string(sum) {
			t.Errorf("%s: the schema says %x, Go %x", payload, sum, want)
		}
	}
}

func TestUUIDv7(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, "")
	var wrong, unordered int
	err := conn.QueryRow(t.Context(), `
		WITH made AS (SELECT n, railhead.uuidv7() AS id, clock_timestamp() AS at FROM generate_series(1, 1000) n)
		SELECT count(*) FILTER (WHERE id::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
				OR abs(extract(epoch FROM railhead.uuidv7_time(id) - at)) > 1
				OR id < railhead.uuidv7_floor(at - interval '1 second') OR id > railhead.uuidv7_floor(at + interval '1 second')),
			count(*) FILTER (WHERE id < earlier)
		FROM (SELECT *, lag(id) OVER (ORDER BY n) AS earlier FROM made) m`).Scan(&wrong, &unordered)
	if err != nil {
		t.Fatal(err)
	}
	// Two within a quarter of a microsecond share the ordered bits.
	if wrong > 0 || unordered > 5 {
		t.Errorf("%d of 1000 are no UUIDv7 of their moment, %d are before the one before", wrong, unordered)
	}
	var version, inside string
	if err := conn.QueryRow(context.WithoutCancel(t.Context()), "SHOW server_version_num").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), "SELECT railhead.uuidv7_time($1)::text",
		[16]byte(payment.NewID())).Scan(&inside); err != nil {
		t.Fatal(err)
	}
	t.Logf("server %s, time inside %s", version, inside)
}
