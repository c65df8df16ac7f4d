package executor

import (
	"log/slog"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestNotifierLeavesPooledSessions: where the connection string allows for a transaction pooler, the notifier's
// session keeps its settings, which are those of the pooler's other clients as well; elsewhere it has its own.
func TestNotifierLeavesPooledSessions(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ALTER DATABASE " + cell.Name + " SET search_path = app, public")
	for url, want := range map[string]string{
		cell.URL(celltest.Relayer): "pg_catalog, pg_temp",
		cell.URL(celltest.Relayer) + "&default_query_exec_mode=cache_describe": "app, public",
	} {
		notifier, err := NewNotifier(ledger.Config{URL: url, Cell: cell.Schema}, nil, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := notifier.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var path string
		if err := conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path); err != nil {
			t.Fatal(err)
		}
		if path != want {
			t.Errorf("the notifier's session has the search_path %s, want %s", path, want)
		}
	}
}
