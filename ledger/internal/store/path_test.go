package store

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// TestSessionsHaveTheirPath: statements outside of a transaction find functions in pg_catalog alone, and see what is
// committed, whatever the database and the login have; behind a pooler, whose sessions others use as well, the session
// keeps what it has.
func TestSessionsHaveTheirPath(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ALTER DATABASE " + cell.Name + " SET search_path = public")
	cell.Exec("ALTER DATABASE " + cell.Name + " SET default_transaction_isolation = 'serializable'")
	for url, want := range map[string][2]string{
		cell.URL(celltest.Relayer): {"pg_catalog, pg_temp", "read committed"},
		cell.URL(celltest.Relayer) + "&default_query_exec_mode=cache_describe": {"public", "serializable"},
	} {
		db, err := Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Pool.Close()
		var has [2]string
		const sql = "SELECT current_setting('search_path'), current_setting('transaction_isolation')"
		if err := db.Pool.QueryRow(t.Context(), sql).Scan(&has[0], &has[1]); err != nil {
			t.Fatal(err)
		}
		if has != want {
			t.Errorf("a statement has search_path and isolation %q, want %q", has, want)
		}
	}
}
