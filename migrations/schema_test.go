package migrations_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/migrations"
)

// TestSchema gives the committed text for a cell of any name: migrating makes
// exactly it.
func TestSchema(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	const cell = "a" // as short as a name can be: nothing else may be taken for it
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), config, cell); err != nil {
		t.Fatal(err)
	}
	conn := db.Conn(t, "")
	if _, err := conn.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	got, err := migrations.Dump(t.Context(), conn, cell)
	if err != nil {
		t.Fatal(err)
	}
	want, err := migrations.Schema(cell)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the schema of cell %s (-want +got):\n%s", cell, diff)
	}
}
