package store

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// TestSessionsHaveTheirPath: statements outside of a transaction find functions in pg_catalog alone, whatever the
// database and the login have; behind a pooler, whose sessions others use as well, the session keeps what it has.
func TestSessionsHaveTheirPath(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ALTER DATABASE " + cell.Name + " SET search_path = public")
	for url, want := range map[string]string{
		cell.URL(celltest.Relayer): "pg_catalog, pg_temp",
		cell.URL(celltest.Relayer) + "&default_query_exec_mode=cache_describe": "public",
	} {
		db, err := Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Pool.Close()
		var path string
		if err := db.Pool.QueryRow(t.Context(), "SHOW search_path").Scan(&path); err != nil {
			t.Fatal(err)
		}
		if path != want {
			t.Errorf("a session has the search_path %s, want %s", path, want)
		}
	}
}
