package migrations_test

import (
	"maps"
	"testing"

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
	wantSchema(t, db.Conn(t, ""), cell)
}

// TestMigratorsSettings migrates as a login that is set to read and write SQL in
// other ways: the schema is the same.
func TestMigratorsSettings(t *testing.T) {
	t.Parallel()
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"standard_conforming_strings": "off", "quote_all_identifiers": "on", "search_path": "public", "datestyle": "German", "intervalstyle": "iso_8601",
		"timezone": "Pacific/Kiritimati", "transform_null_equals": "on", "client_min_messages": "error", "bytea_output": "escape", "array_nulls": "off",
		"default_transaction_isolation": "serializable", "extra_float_digits": "-15", "backslash_quote": "off",
	})
	if _, err := migrations.Up(t.Context(), config, "railhead"); err != nil {
		t.Fatal(err)
	}
	wantSchema(t, db.Conn(t, ""), "railhead")
}
