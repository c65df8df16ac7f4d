package migrations_test

import (
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
